"""The meaning of columns of times, their grids, and columns that only count rows."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas.tseries.offsets import LastWeekOfMonth
from text_files import refused, written

from gatedrnn.data import data_settings
from gatedrnn.tables.frequency import Frequency, as_frequency, frequency_of
from gatedrnn.tables.times import read_times
from gatedrnn.tasks.forecast.forecasts import table_of
from gatedrnn.tasks.forecast.read import asked_of, load_forecast, read_tables
from gatedrnn.tasks.forecast.table import Columns, read_series_table
from gatedrnn.tasks.series.files import Reading, check_unit, read_series
from gatedrnn.tasks.series.read import load_series_task

SEASONS = {
    "h": (24, 168), "15min": (96,), "30min": (48, 336), "2h": (12, 84), "4h": (6, 42), "min": (60,), "s": (60,),
    "D": (7,), "2D": (7,), "10D": (36,), "B": (5,), "2B": (5,), "W-SAT": (52,), "2W-MON": (26,), "3W-FRI": (17,),
    "MS": (12,), "ME": (12,), "BMS": (12,), "BME": (12,), "2MS": (6,), "2BME": (6,), "5MS": (12,), "WOM-3FRI": (12,),
    "LWOM-FRI": (12,), "SMS-15": (24,), "SME-15": (24,), "QE-DEC": (4,), "BQE-DEC": (4,), "2QS-JAN": (2,),
    "YS-JAN": (1,), "BYE-DEC": (1,),
}  # fmt: skip


def dates(name, first="2015-01-31", count=40):
    offset = LastWeekOfMonth(weekday=4) if name == "LWOM-FRI" else name
    return pd.date_range(first, periods=count, freq=offset).to_numpy().astype("datetime64[ns]")


@pytest.mark.parametrize(("name", "seasons"), SEASONS.items())
def test_a_step_and_its_season_are_those_of_pandas_offset_with_gaps_too(name, seasons):
    times = dates(name)
    with_gap = np.delete(times, [5, 6, 17])
    found, again = frequency_of(times), frequency_of(with_gap)
    assert (found.name, found.seasons) == (name, seasons) and as_frequency(found.setting) == found
    grid, places = again.grid(with_gap), again.places(with_gap)
    assert again.seasons == seasons and (grid == times).all() and (grid[places] == with_gap).all()
    assert (found.after(times[:-3], 3) == times[-3:]).all()


@pytest.mark.parametrize("day", [2, 15, 28])
@pytest.mark.parametrize("name", ["MS", "2MS", "QS-JAN", "YS-MAR"])
def test_the_same_day_of_each_month_is_a_month(name, day):
    times = dates(name, "2006-01-01") + np.timedelta64(day - 1, "D")
    with_gap = np.delete(times, [4, 9])
    assert (frequency_of(with_gap).grid(with_gap) == times).all()
    assert as_frequency(name).seasons == frequency_of(times).seasons
    assert (as_frequency(name).after(times[:-3], 3) == times[-3:]).all()


STEPS = (0.1, 0.3, 1 / 3, 1e-6, 1e-3, 1.0, 3600.0, 7.25)


@pytest.mark.parametrize("first", [0.0, -5.5, 1.7e9])
@pytest.mark.parametrize("step", STEPS)
def test_a_grid_of_numbers_is_exact_in_units_of_its_step(step, first):
    """Whatever way they were rounded; one time that is off is found, wherever it lies."""
    if step < 1e-3 and first > 1:
        pytest.skip("64 bits do not tell such times apart")
    exact = first + step * np.arange(90)
    for rounded in (
        lambda times: times,
        lambda times: np.round(times, 8),
        lambda times: np.cumsum(np.diff(times, prepend=0)),
    ):
        times, late = rounded(exact), rounded(np.where(np.arange(90) == 50, exact + step / 10, exact))
        with_gap = np.delete(times, [3, 40, 41])
        found = frequency_of(with_gap)
        grid, places = found.grid(with_gap), found.places(with_gap)
        assert found.step == pytest.approx(step, rel=1e-6) and len(grid) == 90 and (grid[places] == with_gap).all()
        assert as_frequency(found.setting) == found
        assert frequency_of(late) is None and np.flatnonzero(found.places(late) < 0).tolist() == [50]


def test_whole_numbers_are_compared_as_whole_numbers():
    for first, step in ((0, 1), (1_700_000_000, 3600), (1_700_000_000_000_000_001, 3_600_000_000_000)):
        times = first + step * np.arange(60)
        assert frequency_of(times) == Frequency("numbers", step)
        assert as_frequency(str(step)).after(times, 2).tolist() == [first + 60 * step, first + 61 * step]
        times[30] += 1
        assert step == 1 or frequency_of(times) is None
        assert step == 1 or np.flatnonzero(as_frequency(str(step)).places(times) < 0).tolist() == [30]
    for parts in (24, 60):  # of a day or an hour, with three decimals
        assert frequency_of(np.round(np.arange(90) / parts, 3)) == Frequency("numbers", 1 / parts)
    assert frequency_of(np.array([1.0, 2.0])) is None and frequency_of(np.array([0.0, 1.0, 2.0, 2.7])) is None


AS_NUMBERS = {
    "YYYYMM": ("MS", "%Y%m"), "YYYYMMDD": ("D", "%Y%m%d"), "YYYYMMDDHH": ("h", "%Y%m%d%H"),
    "YYYYMMDDHHMM": ("15min", "%Y%m%d%H%M"), "YYYYWW": ("W-MON", "%G%V"), "YYYYQ": ("QS", "{0.year}{0.quarter}"),
    "YYYY_MM": ("MS", "%Y_%m"), "YYYY.MM": ("MS", "%Y.%m"), "YYYY-MM": ("MS", "%Y-%m"), "YYYYMMM": ("MS", "%YM%m"),
    "YYYY-QQ": ("QS", "{0.year}-Q{0.quarter}"), "YYYY-WWW": ("W-MON", "%G-W%V"), "YYYYDDD": ("D", "%Y%j"),
    "YYYY.Q": ("QS", "{0.year}.{0.quarter}"),
}  # fmt: skip


@pytest.mark.parametrize("form", AS_NUMBERS)
def test_dates_as_numbers_are_dates_and_written_as_they_were_and_one_that_is_mistyped_is_named(form):
    name, pattern = AS_NUMBERS[form]
    times = dates(name, "2009-10-31")
    fields = [pattern.format(one) if "{" in pattern else one.strftime(pattern) for one in pd.DatetimeIndex(times)]
    found = read_times(fields, str)
    assert str(found.form) == f"dates as {form}" and (found.values == times).all()
    assert found.form.written(found.values) == fields
    if fields[0].isdecimal():
        assert (read_times([int(field) for field in fields], str).values == times).all()
    slip = fields[0][:4] + re.sub(r"\d", "9", fields[0][4:])
    refused(rf"^40: '{slip}' is no date as {form}, as 40 of 41 times", read_times, [*fields, slip], str)
    refused(rf"^0: '{slip}' is no date as {form}, as 40 of 41 times", read_times, [slip, *fields], str)
    counts = [str(200_001 + 3 * n) for n in range(40)]  # some are months
    assert str(read_times(counts, str).form) == "numbers"
    assert (read_times([2010.01, 2010.1], str).values == np.array(["2010-01", "2010-10"], "M8[M]")).all()


FORMS = {
    "2024-01-31": "dates", "2024-01-31 18:00:00": "dates", "2024-01-31T18:00:00": "dates", "2024/01/31": "dates",
    "2024-01-31 18:00:00.250": "dates", "2024-01-31 18:00:00.000001": "dates", "2024-01-31T18:00:00.000000001": "dates",
    "2024-01-31T18:00:00Z": "dates in UTC", "2024-01-31 18:00:00+09:00": "dates at +09:00",
    "2024-01-31T00:00:00-03:30": "dates at -03:30", "31:15": "hours and minutes", "00:00:07.500": "hours and minutes",
    "17": "numbers", "-2.75": "numbers", "1700000000000000001": "numbers",
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), FORMS.items())
def test_times_are_written_as_they_are_read(text, kind):
    found = read_times([text], str)
    assert str(found.form) == kind
    for axis in found.axes():
        assert [str(one) for one in axis.form.written(axis.values)] == [text]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    ("name", "first"), [("h", "2023-03-01"), ("h", "2023-10-10"), ("D", "2023-09-01"), ("MS", "2020-01-01")]
)
def test_hours_pass_over_a_change_of_clocks_and_days_go_by_the_calendar(zone, name, first, tmp_path):
    index = pd.date_range(first, periods=24 * 40 if name == "h" else 120, freq=name, tz=zone)
    known, ahead = index[:-48], index[-48:]
    frame = pd.DataFrame({"ds": known, "y": np.arange(len(known)) % 24 + 0.5})
    frame.to_parquet(tmp_path / "table.parquet")
    frame.to_csv(tmp_path / "table.csv", index=False)
    for ending in ("csv", "parquet"):
        table = read_series_table(tmp_path / f"table.{ending}", Columns())
        one = table.series[0]
        assert table.frequency == as_frequency(name) and not np.isnan(one.values).any()
        asked = asked_of(table, ("hour-of-day",), 24, 48)
        hours = np.round(np.arctan2(*asked.table.series[0].known[:, :2].T) * 12 / np.pi) % 24
        assert hours.tolist() == index.hour.tolist()
        columns = table_of(asked, np.zeros((1, 48, 3)), [0.1, 0.5, 0.9])
        assert columns["ds"] == [str(moment) for moment in ahead]
    cut = len(known) // 4  # before clocks change
    frame[:cut].to_csv(tmp_path / "train.csv", index=False)
    frame[cut:].to_csv(tmp_path / "test.csv", index=False)
    files = {"train_file": tmp_path / "train.csv", "test_file": tmp_path / "test.csv"}
    one = read_tables(data_settings("forecast", **files)).table.series[0]
    assert one.form.written(one.times) == [str(moment) for moment in known]


@pytest.mark.parametrize(("name", "step"), [
    ("W", "W-SAT"), ("2W", "2W-WED"), ("QS", "QS-FEB"), ("Y", "YS-APR"), ("M", "MS"), ("M", "ME"), ("Q", "QE-JAN"),
])  # fmt: skip
def test_a_step_without_its_weekday_or_month_is_that_of_the_times(name, step, tmp_path):
    rows = "".join(f"{day:%Y-%m-%d},{n}\n" for n, day in enumerate(pd.date_range("2000-01-01", periods=30, freq=step)))
    table = read_series_table(written(tmp_path, "ds,y\n" + rows), Columns(frequency=name))
    assert table.frequency.name == step and len(table.series[0].values) == 30


def test_gaps_are_elapsed_hours_for_uneven_series_and_measurements(tmp_path):
    rows = [("20240131", 1), ("20240201", 2), ("20240301", 3)]
    long = "id,time,heat,label\n" + "".join(f"a,{time},{n},x\nb,{time},{n},y\n" for time, n in rows)
    found = read_series(written(tmp_path, long), Reading(uneven=True))
    assert [np.diff(times).tolist() for times in found.times] == [[24, 29 * 24]] * 2
    assert "time (dates as YYYYMMDD) 'time'" in found.said and found.unit == "hours"
    numbers = read_series(written(tmp_path, long.replace("202403", "202499")), Reading(uneven=True))
    refused("its times are read as numbers, those of training as hours", check_unit, numbers, found.unit, "new.csv")
    measured = "time,parameter,value\n"
    written(tmp_path, measured + "2024-03-31T00:00+01:00,heat,1\n2024-03-31T06:00+02:00,heat,2\n", "a.txt")
    written(tmp_path, measured + "2024-03-30T00:00+01:00,heat,1\n2024-04-02T00:00+02:00,heat,2\n", "b.txt")
    found = read_series(written(tmp_path, "file,label\na.txt,x\nb.txt,y\n", "index.csv"), Reading())
    assert [np.diff(times).tolist() for times in found.times] == [[5], [71]]
    written(tmp_path, measured + "202401,heat,1\n202402,heat,2\n", "a.txt")
    written(tmp_path, measured + "202401,heat,1\n202460,heat,2\n", "b.txt")
    found = read_series(tmp_path / "index.csv", Reading())
    assert [np.diff(times).tolist() for times in found.times] == [[1], [59]], "a form is that of all files"
    twice = "id,time,parameter,value,label\na,1,heat,1,x\na,1,heat,2,x\nb,1,heat,3,y\n"
    assert read_series(written(tmp_path, twice), Reading()).said.endswith("one time: 1; the later row counts.")


DAYS = [f"2020-01-{day:02}" for day in range(1, 29)]
FAULTS = [
    (DAYS, "1", "--frequency 1: column 'ds' of table.csv holds dates; give a step such as h"),
    (DAYS, "0D", "--frequency 0D: the step must be above 0"),
    (DAYS, "ns", "28 times lie on a grid of 2,332,800,000,000,001 (ns)"),
    (range(28), "0", "--frequency 0: the step must be above 0"),
    (range(28), "nan", "--frequency nan: the step must be above 0"),
    (range(28), "D", "--frequency D: column 'ds' of table.csv holds numbers; give the step as a number"),
    ([*range(27), "inf"], None, "row 28, column 'ds': a time must be finite, got inf"),
    ([*range(27), ""], None, "row 28, column 'ds': there is no time"),
    ([*range(27), "late"], None, "row 28, column 'ds': 'late' is no number, as the first time of the column is"),
    ([f"{year}-01-01" for year in range(1500, 1528)], None, "row 1, column 'ds': 1500-01-01 is in the year 1500"),
    ([*DAYS[:27], "2020-01-28+01:00"], None, "row 28, column 'ds': has an offset from UTC, +01:00, unlike the first"),
    ([*DAYS[:9], DAYS[4], *DAYS[9:]], None, "rows 5 and 10, column 'ds': series y has 2020-01-05 twice"),
    ([3600 * n + (n == 10) for n in range(28)], None, "row 11, column 'ds', has 36001 after 32400, which is no whole"),
    ([3600 * n + (n == 10) for n in range(28)], "3600", "row 11, column 'ds': 36001 of series y is not on the grid"),
    ([f"2020-{n + 1:02}-{n % 3 + 4:02}" for n in range(12)], None, "where each row is a month, write the first day"),
]  # fmt: skip


@pytest.mark.parametrize(("times", "frequency", "said"), FAULTS)
def test_what_is_wrong_with_times_is_said_in_a_sentence(times, frequency, said, tmp_path):
    path = written(tmp_path, "ds,y\n" + "".join(f"{time},{n % 7}\n" for n, time in enumerate(times)))
    refused(re.escape(said), read_series_table, path, Columns(frequency=frequency))
    late = np.array(["2261-06-01", "2261-07-01"], "M8[ns]")
    refused("end too late", as_frequency("MS").after, late, 24)
    refused("end too late", as_frequency("h").after, late, 10_000)
    refused("too large for 64 bits", as_frequency("0.3").after, np.array([10**18]), 1)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__", "index", "row"])
def test_a_column_that_only_counts_rows_is_left_out_and_said(name, tmp_path):
    wide = pd.DataFrame(
        {name: range(60), "ds": pd.date_range("2024", periods=60), "a": np.sin(range(60)), "b": np.cos(range(60))}
    )
    wide.to_csv(tmp_path / "wide.csv", index=False)
    found = read_series_table(tmp_path / "wide.csv", Columns())
    assert [one.name for one in found.series] == ["a", "b"] and not found.unused
    left_out = f"left out, as it only counts rows: {name!r}."
    assert found.said == f"Columns of wide.csv: time (dates) 'ds'; series 'a', 'b'; {left_out}"
    long = pd.DataFrame(
        {
            name: range(60),
            "id": np.repeat(range(20), 3),
            "t": [*range(3)] * 20,
            "x": 0.5,
            "label": np.repeat([0, 1], 30),
        }
    )
    long.to_parquet(tmp_path / "long.parquet")
    data = load_series_task(data_settings("series-classification", train_file=tmp_path / "long.parquet"))
    assert data.model_inputs["series"]["channels"] == ["x"] and data.notes[0].endswith(f"channels 'x'; {left_out}")
    found = read_series(tmp_path / "long.parquet", Reading(), channels=[name, "x"])
    assert found.channels == (name, "x"), "a model that was trained on it reads it"


def test_an_index_of_dates_is_the_time_and_the_only_series_is_none_that_counts_rows(tmp_path):
    frame = pd.DataFrame({"sales": range(1, 61)}, index=pd.date_range("2024", periods=60))
    frame.to_csv(tmp_path / "dated.csv")
    frame["id"] = range(60)
    frame.to_csv(tmp_path / "numbered.csv")
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "dated.parquet")
    for name, time in (("dated.csv", ""), ("numbered.csv", ""), ("dated.parquet", "__index_level_0__")):
        found = read_series_table(tmp_path / name, Columns())
        assert found.columns.time == time and [one.name for one in found.series] == ["sales"]


@pytest.mark.parametrize("names", [("load", "load_0.1"), ("load", "load_0.1", "load_q0.9"), ("a", "a_0.1000001")])
def test_no_column_of_a_forecast_overwrites_another(names, tmp_path):
    levels = [0.1, 0.1000001, 0.10000012, 0.5, 0.9]
    frame = pd.DataFrame({"ds": range(60), **{name: np.sin(range(60)) for name in names}})
    frame.to_csv(tmp_path / "wide.csv", index=False)
    asked = asked_of(read_series_table(tmp_path / "wide.csv", Columns()), (), 8, 2)
    values = np.arange(len(names) * 2 * len(levels), dtype=float).reshape(len(names), 2, len(levels))
    found = table_of(asked, values, levels)
    assert len(found) == 1 + len(names) * len(levels) and found["ds"] == [60, 61]
    assert sorted(value for name in found if name != "ds" for value in found[name]) == values.ravel().tolist()
    for place, name in enumerate(names):
        assert found[name] == values[place, :, 3].tolist()


def test_a_season_that_does_not_fit_gives_no_horizon_and_a_test_file_continues_fractions(tmp_path):
    lines = [f"{moment},{n % 9}" for n, moment in enumerate(dates("W-SAT", "2020-01-04", 120).astype("M8[D]"))]
    path = written(tmp_path, "\n".join(["date,y", *lines]) + "\n")
    assert load_forecast(data_settings("forecast", train_file=path)).model_inputs["horizon"] == 8
    lines = [f"{one},{moment},{n // 24 % 7 + n % 5}" for one, count in (("a", 300), ("b", 900))
             for n, moment in enumerate(dates("h", "2020-01-04", count).astype("M8[s]"))]  # fmt: skip
    both = written(tmp_path, "\n".join(["id,date,y", *lines]) + "\n", "both.csv")
    # The week of the longer one, which the shorter does not show.
    assert "Season of 24 and 168 steps" in " ".join(load_forecast(data_settings("forecast", train_file=both)).notes)
    thirds = [f"{round(n / 3, 3)},{n % 9}" for n in range(120)]
    train = written(tmp_path, "\n".join(["ds,y", *thirds[:100]]) + "\n", "train.csv")
    test = written(tmp_path, "\n".join(["ds,y", *thirds[100:]]) + "\n", "test.csv")
    data = load_forecast(data_settings("forecast", train_file=train, test_file=test, horizon=5))
    assert len(data.train.series[0].times) == 120 and data.model_inputs["table"]["frequency"] == repr(1 / 3)
