"""Tables as people have them: what is read without a flag, what is asked, and with which flag."""

import calendar
from functools import partial

import numpy as np
import pandas as pd
import pytest
import refusals

from gatedrnn.data.frames import new_data
from gatedrnn.errors import DataError
from gatedrnn.tables.files import read_table
from gatedrnn.tasks.claims import task_of_file
from gatedrnn.tasks.forecast.table import Columns, read_series_table
from gatedrnn.tasks.series.files import Reading, read_series

refused = partial(refusals.refused, DataError)
HOURS, DAYS = pd.date_range("2024-01-01", periods=480, freq="h"), pd.date_range("2024-01-01", periods=60)
WAVE = np.round(100 + 10 * np.sin(np.arange(480) / 3), 2)


def written(tmp_path, frame, name="table.csv", **how):
    path = tmp_path / name
    frame.to_csv(path, index=False, **how)
    return path


def read(path, **columns):
    return read_series_table(path, Columns(**columns))


def dated(**columns):
    return pd.DataFrame({"ds": DAYS.strftime("%Y-%m-%d")} | columns)


TIMES = {
    "hours from 0 to 23": (["date", "hour"], [HOURS.strftime("%Y-%m-%d"), HOURS.hour], "2024-01-01 00:00:00", "h"),
    "hours from 1 to 24": (["date", "hour"], [HOURS.strftime("%Y-%m-%d"), HOURS.hour + 1], "2024-01-01 01:00:00", "h"),
    "a clock beside the date": (
        ["Datum", "Uhrzeit"], [HOURS.strftime("%d.%m.%Y"), HOURS.strftime("%H:%M")], "01.01.2024 00:00", "h",
    ),
    "half hours by number": (
        ["settlement_date", "settlement_period"],
        [pd.DatetimeIndex(np.repeat(HOURS[:240:24], 48)).strftime("%Y-%m-%d"), np.tile(np.arange(1, 49), 10)],
        "2024-01-01 00:30:00", "30min",
    ),
    "months by name": (
        ["year", "month"], [np.repeat(np.arange(2000, 2040), 12), np.tile([*calendar.month_name][1:], 40)], "2000-01",
        "MS",
    ),
    "the end of a day as 24:00": (
        ["time"], [[f"{(t - pd.Timedelta('1min')):%Y-%m-%d} {t.hour or 24:02}:00" for t in HOURS]],
        "2024-01-01 00:00:00", "h",
    ),
    "spans of time": (["MTU"], [[f"{t:%d.%m.%Y %H:%M} - {t + HOURS.freq:%d.%m.%Y %H:%M}" for t in HOURS]],
                      "01.01.2024 00:00", "h"),
    "a zone by its name": (["time"], [[f"{t:%Y-%m-%d %H:%M} CET" for t in HOURS]], "2024-01-01 00:00:00+01:00", "h"),
    "halves of a day in Korean": (
        ["일시"], [[f"{t:%Y-%m-%d} {'오전' if t.hour < 12 else '오후'} {t.hour % 12 or 12}:00" for t in HOURS]],
        "2024-01-01 12:00 AM", "h",
    ),
    "durations of pandas": (["time"], [[str(t - HOURS[0]) for t in HOURS]], "00:00", "h"),
    "years of two digits": (
        ["Month"], [pd.date_range("1990-01-01", periods=480, freq="MS").strftime("%b-%y")], "Jan-90", "MS",
    ),
    "Excel's numbers of months": (
        ["date"], [(pd.date_range("1990-01-01", periods=480, freq="MS") - pd.Timestamp("1899-12-30")).days],
        32874, "MS",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", TIMES)
def test_times_are_read_in_the_forms_of_systems_as_one_series(form, tmp_path):
    names, columns, first, step = TIMES[form]
    table = read(written(tmp_path, pd.DataFrame(dict(zip(names, columns, strict=True)) | {"load": WAVE})))
    (series,) = table.series
    assert table.frequency.name == step and len(series.values) == 480 and (series.values == WAVE).all()
    assert series.form.written(series.times[:1]) == [first]
    assert table.columns.time == ", ".join(names)


def test_a_time_of_day_may_be_named_and_a_number_that_is_none_is_refused(tmp_path):
    frame = pd.DataFrame({"tag": DAYS.strftime("%Y-%m-%d"), "stunde": 7, "y": range(60)})
    assert read(written(tmp_path, frame), time="tag,stunde").series[0].form.written(
        read(tmp_path / "table.csv", time="tag,stunde").series[0].times[:1]
    ) == ["2024-01-01 07:00:00"]
    refused("'y': must hold the time of day", read, written(tmp_path, frame), time="tag,y")


NUMBERS = {
    "points between thousands": (["1.000", "1.195", "998,25"], [1000, 1195, 998.25]),
    "apostrophes between thousands": (["1'000.50", "1’195", "3"], [1000.5, 1195, 3]),
    "a minus behind": (["109-", "3", "4"], [-109, 3, 4]),
    "a typesetter's minus": (["\u2212109", "3", "4"], [-109, 3, 4]),
    "powers beside a decimal comma": (["1,11E+03", "2,5", "4"], [1110, 2.5, 4]),
    "true and false": (["True", "FALSE", "true"], [1, 0, 1]),
    "yes and no": (["yes", "no", ""], [1, 0, np.nan]),
}


@pytest.mark.parametrize("form", NUMBERS)
def test_numbers_are_read_in_the_forms_of_people(form, tmp_path):
    texts, numbers = NUMBERS[form]
    frame = dated(y=WAVE[:60], known=(texts * 20))
    (series,) = read(written(tmp_path, frame), target=("y",), known=("known",)).series
    np.testing.assert_array_equal(series.known[:3, 0], numbers)


def test_a_mark_that_may_mean_two_things_is_asked_about_and_two_numbers_in_a_field_are_none(tmp_path):
    for text in ("1.195", "1,195"):
        frame = dated(y=[text, *["892"] * 59])
        refused(f"{text} may be 1195 or 1.195; give --decimal", read, written(tmp_path, frame))
        assert read(tmp_path / "table.csv", decimal=",").series[0].values[0] == (1195 if "." in text else 1.195)
        thousands = read(tmp_path / "table.csv", thousands="." if "." in text else ",")
        assert thousands.series[0].values[0] == 1195
    refused("must be a number, got '120 80'", read, written(tmp_path, dated(y=["120 80"] * 60)))


def test_series_are_named_by_several_columns_where_these_part_the_rows(tmp_path):
    keys = [(store, item) for store in (1, 11) for item in (11, 1, 2)]
    frame = pd.concat(dated(store=store, item=item, sales=WAVE[:60] + n) for n, (store, item) in enumerate(keys))
    path = written(tmp_path, frame)
    for columns in ({}, {"target": ("sales",), "series": "store,item"}):
        table = read(path, **columns)
        assert [one.name for one in table.series] == [f"{store},{item}" for store, item in keys]
        assert table.columns.keys == ("store", "item") and table.columns.target == ("sales",)
    answers = "give --series-column store item or --duplicates first, last, mean or sum"
    refused(answers, read, path, target=("sales",), series="store")
    names = written(tmp_path, pd.concat([dated(id="DE", y=1.0 * np.arange(60)), dated(id=" ", y=1.0)]), "names.csv")
    refused("row 61 has no name in column 'id'", read, names)
    blanks = pd.concat([dated(id="DE", y=WAVE[:60])[::2], dated(id="DE ", y=WAVE[:60])[1::2]])
    assert [one.name for one in read(written(tmp_path, blanks, "blanks.csv")).series] == ["DE"]


def test_rows_of_one_time_stand_for_one_by_the_rule_that_is_given(tmp_path):
    frame = dated(y=[*range(60)])
    again = pd.concat([frame.iloc[:30], frame.iloc[29:]])
    again.iloc[30, 1] = 31
    path = written(tmp_path, again)
    refused("rows 30 and 31, .* twice; give --duplicates first, last, mean or sum", read, path)
    for rule, value in {"first": 29, "last": 31, "mean": 30, "sum": 60}.items():
        values = read(path, duplicates=rule).series[0].values
        assert len(values) == 60 and values[29] == value
    sparse = written(tmp_path, frame.drop(index=[5, 6]), "sparse.csv")
    assert np.isnan(read(sparse).series[0].values[5:7]).all()
    assert read(sparse, absent="zero").series[0].values[5:7].tolist() == [0, 0]


def test_an_hour_that_comes_twice_is_a_change_of_clocks(tmp_path):
    instants = pd.date_range("2024-10-20", periods=480, freq="h", tz="UTC")
    local = instants.tz_convert("Europe/Berlin")
    path = written(tmp_path, pd.DataFrame({"ds": local.strftime("%Y-%m-%d %H:%M"), "y": WAVE}))
    for zone in (None, "Europe/Paris"):
        table = read(path, zone=zone)
        (series,) = table.series
        assert table.frequency.name == "h" and (series.values == WAVE).all()
        assert series.form.zone == (zone or "Europe/Berlin")
    assert "--zone names another" in read(path).said
    refused("--zone Mars: .* give a name such as Europe/Berlin", read, path, zone="Mars")


def test_columns_that_are_no_targets_ends_that_differ_and_a_last_step_that_is_not_over_are_said(tmp_path):
    frame = dated(
        station="USW00094996", works=[0, 1] * 30, constant=7, y=WAVE[:60] * 10, z=[*WAVE[:58], np.nan, np.nan]
    )
    table = read(written(tmp_path, frame))
    assert [one.name for one in table.series] == ["y", "z"]
    assert "not used 'station', 'works', 'constant'" in table.said and "y 2024-02-29, z 2024-02-27" in table.said
    ahead = frame.assign(z=WAVE[:60], y=[*WAVE[:45], *[np.nan] * 15])
    refused(
        "'y' ends at 2024-02-14, and other columns go on for 15 steps: .* --target y --known .*works", read,
        written(tmp_path, ahead),
    )  # fmt: skip
    assert len(read(tmp_path / "table.csv", target=("y", "z")).series) == 2
    part = written(tmp_path, dated(y=[*WAVE[:59], 3.0]), "part.csv")
    assert np.isnan(read(part).series[0].values[-1]) and "--last-step keep" in read(part).said
    assert read(part, last_step="keep").series[0].values[-1] == 3
    late = pd.concat([dated(id="a", y=WAVE[:60]), dated(id="b", y=[*[np.nan] * 30, *WAVE[30:60]])])
    assert [len(one.values) for one in read(written(tmp_path, late, "late.csv")).series] == [60, 30]


def test_times_that_are_columns_become_rows(tmp_path, caplog):
    caplog.set_level("INFO")
    days = pd.DataFrame(
        [["A", *WAVE[:60]], ["B", *WAVE[60:120]]], columns=["Country", *(f"{d.month}/{d.day}/24" for d in DAYS)]
    )
    path = written(tmp_path, days)
    table = read(path)
    assert [one.name for one in table.series] == ["A", "B"] and (table.series[1].values == WAVE[60:120]).all()
    assert task_of_file(path) == "forecast" and "The columns '1/1/24' to '2/29/24' are times" in table.said
    months = [month[:3] for month in pd.date_range("2000", periods=12, freq="MS").month_name()]
    years = pd.DataFrame(WAVE.reshape(40, 12), columns=months).assign(Annual=1.0)
    years.insert(0, "Year", range(1980, 2020))
    table = read(written(tmp_path, years, "years.csv"))
    assert table.frequency.name == "MS" and (table.series[0].values == WAVE).all() and "not used: Annual" in table.said
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"item_id": "a", "start": "2024-01-01", "target": [1, 2, 4, 3]}\n')
    refused("column 'target' holds lists, and no column their step; give --frequency D", read, lists)
    assert read(lists, frequency="D").series[0].values.tolist() == [1, 2, 4, 3]


def test_a_row_a_curve_is_a_series_and_uneven_times_are_said(tmp_path):
    curves = pd.DataFrame(WAVE.reshape(24, 20), columns=[f"x_{n:03}" for n in range(20)]).assign(
        water=2.5, fat=range(24)
    )
    found = read_series(written(tmp_path, curves), Reading(label_column="fat"))
    assert len(found.values) == 24 and (found.values[1][:, 0] == WAVE[20:40]).all() and found.labels[1] == "1"
    assert "steps 'x_000' to 'x_019'; label 'fat'; not used 'water'" in found.said
    refused("which column is the label", read_series, tmp_path / "table.csv", Reading())
    uneven = pd.DataFrame({"id": np.repeat(["a", "b"], 6), "time": [0, 1, 5, 6, 9, 20] * 2, "x": range(12), "label": 1})
    assert "--uneven" in read_series(written(tmp_path, uneven, "uneven.csv"), Reading()).said
    new = pd.DataFrame({"id": "n", "time": range(4), "q": range(4), "p": range(4, 8)})
    read_by_name = read_series(written(tmp_path, new, "new.csv"), Reading(), channels=["p", "q"], labelled=False)
    assert read_by_name.channels == ("p", "q") and read_by_name.values[0][0].tolist() == [4, 0]


def test_posts_with_an_id_and_a_date_each_are_texts(tmp_path):
    posts = pd.DataFrame({
        "id": range(40), "created_at": pd.date_range("2024", periods=40, freq="h").astype(str),
        "text": [f"a post about {n} things and more" for n in range(40)], "label": ["yes", "no"] * 20,
    })  # fmt: skip
    assert task_of_file(written(tmp_path, posts)) == "text-classification"


def test_what_systems_leave_in_folders_is_passed_over_and_folders_in_folders_are_named(tmp_path):
    for name in ("a", "b"):
        written(tmp_path, dated(y=WAVE[:60]), f"{name}.csv")
    (tmp_path / "._a.csv").write_bytes(b"\0\1")
    (tmp_path / "~$book.xlsx").write_bytes(b"\0")
    assert [one.name for one in read(tmp_path).series] == ["a", "b"]
    (tmp_path / "years" / "year=2024").mkdir(parents=True)
    written(tmp_path / "years" / "year=2024", dated(y=WAVE[:60]))
    refused(r'give the pattern ".*years/\*/\*"', read, tmp_path / "years")


CALENDAR = {
    "parts of the date": {"year": DAYS.year, "mnth": DAYS.month, "weekday": DAYS.dayofweek},
    "a running number of the day": {"nr": range(10_775, 10_835)},
    "a year with decimals": {"decimal": np.round(2024 + np.arange(60) / 366, 4)},
}


@pytest.mark.parametrize("parts", CALENDAR)
def test_parts_of_the_time_are_no_series_and_are_said_not_to_be_used(tmp_path, parts):
    path = written(tmp_path, dated(y=WAVE[:60], z=-WAVE[:60]).assign(**CALENDAR[parts]))
    table = read(path)
    assert [one.name for one in table.series] == ["y", "z"]
    assert "not used " + ", ".join(map(repr, CALENDAR[parts])) in table.said


def test_a_day_in_a_column_of_its_own_and_months_by_any_name_are_times(tmp_path):
    days = pd.DataFrame({"year": DAYS.year, "month": DAYS.month, "date_of_month": DAYS.day, "births": WAVE[:60]})
    table = read(written(tmp_path, days))
    assert len(table.series) == 1 and table.frequency.name == "D" and len(table.series[0].values) == 60
    months = pd.DataFrame({"YEAR": np.repeat(range(2000, 2005), 12), "MON/MMM": [*calendar.month_abbr][1:] * 5})
    table = read(written(tmp_path, months.assign(index=WAVE[:60], oni=WAVE[:60])))
    assert table.frequency.name == "MS" and [one.name for one in table.series] == ["index", "oni"]
    quarters = pd.DataFrame({"Quarter": [f"Q{n % 4 + 1}{2000 + n // 4}" for n in range(40)], "y": WAVE[:40]})
    assert read(written(tmp_path, quarters)).series[0].form.written(np.array(["2000-04-01"], "datetime64[ns]")) == [
        "2000Q2"
    ]


def test_months_in_a_row_tell_the_order_of_a_date(tmp_path):
    months = [f"{n % 12 + 1}/1/{2000 + n // 12}" for n in range(60)]
    assert read(written(tmp_path, pd.DataFrame({"Date": months, "y": WAVE[:60]}))).frequency.name == "MS"


def test_series_whose_times_come_twice_here_and_there_are_still_parted(tmp_path):
    parks = pd.concat(dated(park=f"P{n}", cars=WAVE[:60] + n) for n in range(4))
    twice = pd.concat([parks, parks.tail(1)])
    refused("series P3 has 2024-02-29 twice; give --duplicates first", read, written(tmp_path, twice), target=("cars",))
    assert len(read(tmp_path / "table.csv", target=("cars",), series="park", duplicates="first").series) == 4


BLANKS = "\n".join(f"  {day:%Y-%m-%d}   {value:8.2f}  {-value:8.2f}" for day, value in zip(DAYS, WAVE, strict=False))


@pytest.mark.parametrize("name", ["table.txt", "table.dat", "table.csv"])
def test_rows_parted_by_blanks_are_read_with_names_and_without(tmp_path, name):
    path = tmp_path / name
    for header, names in (("ds y z\n", ["y", "z"]), ("", ["column 2", "column 3"])):
        path.write_text(header + BLANKS)
        assert task_of_file(path) == "forecast"
        table = read(path)
        assert [one.name for one in table.series] == names and (table.series[0].values == WAVE[:60]).all()
    path.write_text("It was a day.\nIt was 2 days.\n")
    if name != "table.csv":
        refused("the ending must be one of", read, path)


def test_a_row_a_curve_parted_by_blanks_is_the_archives_first_form(tmp_path):
    path = tmp_path / "Coffee_TRAIN.txt"
    path.write_text("".join(f"  {n % 2:.7e}" + "".join(f"  {v:.7e}" for v in WAVE[:30]) + "\n" for n in range(8)))
    assert task_of_file(path) == "series-classification"
    found = read_series(path, Reading())
    assert found.labels[:2] == ["0", "1"] and len(found.values) == 8 and found.values[0].shape == (30, 1)


def test_names_that_come_again_are_told_apart_and_said(tmp_path, caplog):
    path = tmp_path / "table.csv"
    rows = "".join(f"{day:%Y-%m-%d},{value},{-value}\n" for day, value in zip(DAYS, WAVE, strict=False))
    path.write_text("ds,ISE,ISE\n" + rows)
    assert [one.name for one in read(path).series] == ["ISE", "ISE (2)"]
    assert "columns without a name of their own are called 'ISE (2)'" in caplog.text
    path.write_text("techs,heat,heat\nnodes,X1,X2\n" + rows)
    assert [one.name for one in read(path).series] == ["heat X1", "heat X2"]
    path.write_text("ds,,\n" + rows)
    assert [one.name for one in read(path).series] == ["column 2", "column 3"]
    path.write_text("ds,y,z\n# a comment\n" + rows.replace("2024-02-01", "#\n2024-02-01"))
    assert len(read(path).series[0].values) == 60


def test_a_date_from_the_newest_to_the_oldest_tells_its_order_and_a_second_date_is_no_series(tmp_path):
    newest_first = pd.DataFrame({"booked": DAYS.strftime("%d.%m.%y")[::-1], "amount": WAVE[:60]})
    table = read(written(tmp_path, newest_first.assign(value_date=DAYS.strftime("%d.%m.%y")), "a.csv"), time="booked")
    assert [one.name for one in table.series] == ["amount"] and table.frequency.name == "D"
    assert table.series[0].form.written(table.series[0].times[:1]) == ["01.01.24"]


def test_words_among_numbers_are_asked_about_once_and_nines_far_from_all_numbers_are_said(tmp_path):
    words = dated(y=[*map(str, WAVE[:57]), "closed", "off", "closed"], z=["shut", *map(str, WAVE[:59])])
    path = written(tmp_path, words)
    refused(r"got 'closed'.*\(--missing closed off\).*got 'shut'.*\(--missing shut\)", read, path)
    assert np.isnan(read(path, missing=("closed", "off", "shut")).series[0].values).sum() == 3
    nines = read(written(tmp_path, dated(y=np.where(np.arange(60) % 20 == 9, 9999.9, WAVE[:60]))))
    assert "9999.9 in 'y' is read as a number, far from all others: --missing 9999.9 reads it as missing" in nines.said
    assert "--missing" not in read(written(tmp_path, dated(y=np.where(np.arange(60) % 20 == 9, 99, WAVE[:60])))).said


def test_hours_that_come_twice_may_bear_their_zone_in_brackets(tmp_path):
    hours = pd.date_range("2024-10-26", periods=72, freq="h", tz="Europe/Berlin")
    spans = [f"{t:%d/%m/%Y %H:%M} - {t + pd.Timedelta('1h'):%d/%m/%Y %H:%M}" for t in hours]
    spans[26], spans[27] = spans[26] + " (CEST)", spans[27] + " (CET)"
    table = read(written(tmp_path, pd.DataFrame({"MTU (CET/CEST)": spans, "load": WAVE[:72]})))
    assert table.series[0].form.zone == "Europe/Berlin" and len(table.series[0].values) == 72


def test_irregular_times_are_a_question_and_rows_that_are_steps_leave_times_out(tmp_path):
    rng = np.random.default_rng(0)
    seconds = np.cumsum(rng.uniform(0.01, 0.03, 60)).round(4)
    path = written(tmp_path, pd.DataFrame({"time": seconds, "elapsed": seconds * 1000, "x": WAVE[:60]}))
    refused("give --rows-are-steps", read, path)
    assert [one.name for one in read(path, rows_are_steps=True).series] == ["x"]


PRINTED = "List of sales     page {}\n---------------------\n| date       | sold    |\n---------------------\n"


def test_a_printed_list_has_pages_drawn_lines_a_minus_behind_and_a_total(tmp_path):
    rows = [f"| {day:%d.%m.%Y} | 1.{n:03},50- |\n" for n, day in enumerate(DAYS)]
    pages = "".join(PRINTED.format(page + 1) + "".join(rows[page * 20 : page * 20 + 20]) for page in range(3))
    path = tmp_path / "list.txt"
    path.write_text(pages + "---------------------\n| *          | 61.800,00- |\n")
    (series,) = read(path).series
    assert series.name == "sold" and series.values[[0, -1]].tolist() == [-1000.5, -1059.5]


def test_the_line_above_the_rows_with_most_names_is_the_header(tmp_path):
    path = tmp_path / "report.csv"
    rows = "".join(f"{day:%Y-%m-%d},{value},{value}\n" for day, value in zip(DAYS, WAVE, strict=False))
    path.write_text("made on,2024-05-01,\n,sales,\ndate,Köln,München\n" + rows)
    assert [one.name for one in read(path).series] == ["Köln", "München"]


def test_curves_over_wavelengths_with_decimal_commas_and_units_have_a_class(tmp_path):
    names = [f"{900 + n / 2:.1f}".replace(".", ",") for n in range(12)]
    rows = "".join(f"s{n};{'ab'[n % 2]};" + ";".join(f"0,{n}{k}" for k in range(12)) + "\n" for n in range(6))
    path = tmp_path / "spectra.csv"
    for header in (names, [f"{name.split(',')[0]}{n}nm" for n, name in enumerate(names, start=10)]):
        path.write_text("sample;class;" + ";".join(header) + "\n" + rows)
        assert task_of_file(path) == "series-classification"
        assert read_series(path, Reading()).values[1][:2, 0].tolist() == [0.1, 0.11]


def test_uneven_times_of_several_series_are_steps_of_each_or_gathered_in_steps(tmp_path):
    rng = np.random.default_rng(0)
    times = [str(DAYS[0] + pd.Timedelta(f"{seconds:.3f}s")) for seconds in np.cumsum(rng.uniform(1, 900, 120))]
    path = written(tmp_path, pd.DataFrame({"entity": ["a", "b"] * 60, "changed": times, "state": WAVE[:120]}))
    answered = {"rows_are_steps": True, "series": "entity"}
    asked = "give --frequency 15min --duplicates mean or .* or --rows-are-steps --series-column entity"
    refused(asked, read, path, series="entity")
    table = read(path, **answered)
    assert [(one.name, len(one.values)) for one in table.series] == [("a", 60), ("b", 60)]
    assert (table.series[1].values == WAVE[1:120:2]).all()
    gathered = read(path, series="entity", frequency="h", duplicates="sum")
    hours = pd.Series(WAVE[1:120:2], pd.DatetimeIndex(times[1::2])).resample("h").sum(min_count=1)
    assert (
        gathered.series[1].times == hours.index
    ).all() and "Of the rows within a step of h, the sum" in gathered.said
    np.testing.assert_allclose(gathered.series[1].values, hours)


def test_orders_with_a_time_of_day_are_summed_by_days_of_their_own_clock(tmp_path):
    stamps = pd.date_range("2024-03-01", periods=900, freq="101min", tz="Europe/Berlin")
    frame = pd.DataFrame({"paid": stamps.strftime("%Y-%m-%d %H:%M:%S%z"), "total": np.arange(900) % 7})
    path = written(tmp_path, frame)
    table = read(path, frequency="D", duplicates="sum", absent="zero")
    days = pd.Series(frame.total.to_numpy(), stamps).resample("D").sum()
    assert table.series[0].form.written(table.series[0].times[:2]) == ["2024-03-01", "2024-03-02"]
    assert len(days) == 64 and (table.series[0].values[:-1] == days[:-1]).all(), "the last day is not over"
    months = read(path, frequency="MS", duplicates="mean")
    np.testing.assert_allclose(months.series[0].values, pd.Series(frame.total.to_numpy(), stamps).resample("MS").mean())


def test_a_note_in_a_folder_of_tables_is_none_of_them(tmp_path):
    folder = tmp_path / "shops"
    folder.mkdir()
    for name in "ab":
        written(folder, dated(y=WAVE[:60]), f"{name}.csv")
    (folder / "README.txt").write_text("a b c\n1 2 3\n4 5 6\n")
    assert [one.name for one in read(folder).series] == ["a", "b"]


def test_numbers_have_a_unit_whose_prefixes_are_scaled_to_that_of_most_rows(tmp_path):
    power = [f"{value / 10:.2f} kW" if row % 3 else f"{value * 100:.0f} W" for row, value in enumerate(WAVE[:60])]
    frame = dated(power=power, heat=[f"{value} °C" for value in WAVE[:60]], note=["3 rooms", "2 baths"] * 30)
    table = read(written(tmp_path, frame))
    assert [one.name for one in table.series] == ["power", "heat"]
    assert "Units: 'power' in W, 'heat' in °C." in table.said
    np.testing.assert_allclose(table.series[0].values, WAVE[:60] * 100, atol=10)
    kilowatts = dated(power=[f"{value / 10:.2f} kW" for value in WAVE[:60]])
    later = read(written(tmp_path, kilowatts, "later.csv")).series[0].values
    np.testing.assert_allclose(later, WAVE[:60] * 100, atol=10, err_msg="the unit is that of every file")


def test_an_hour_that_clocks_leave_out_is_not_read_unless_there_is_a_value_in_it(tmp_path):
    hours = pd.date_range("2023-01-01", "2023-12-31 23:00", freq="h", tz="Europe/Berlin").tz_localize(None)
    frame = pd.DataFrame({"time": hours.strftime("%d.%m.%Y %H:%M"), "load": np.arange(len(hours)).astype(str)})
    spring = int(np.flatnonzero(hours == pd.Timestamp("2023-03-26 03:00"))[0])
    phantom = pd.DataFrame({"time": ["26.03.2023 02:00"], "load": ["n/e"]})
    table = read(written(tmp_path, pd.concat([frame[:spring], phantom, frame[spring:]])))
    assert "times are in Europe/Berlin" in table.said and "Rows of the hour that clocks leave out: 1" in table.said
    assert (table.series[0].values == np.arange(len(hours))).all()
    path = written(tmp_path, pd.concat([frame[:spring], phantom.assign(load="7"), frame[spring:]]))
    refused("26.03.2023 02:00 is no time in Europe/Berlin", read, path, zone="Europe/Berlin")


def test_a_long_table_has_several_targets_and_places_of_series_are_none(tmp_path):
    frame = pd.concat([dated(shop=name, latitude=51.5 + n, up=WAVE[:60] + n, down=-WAVE[:60])
                       for n, name in enumerate(("a, b", "c"))])  # fmt: skip
    path = written(tmp_path, frame)
    refused("give --target up, down or up down$", read, path)
    table = read(path, target=("up", "down"))
    assert [one.name for one in table.series] == ['"a, b",up', '"a, b",down', "c,up", "c,down"]
    assert (table.series[3].values == -WAVE[:60]).all() and table.columns.series == "shop"


def test_years_as_columns_are_times_and_several_names_tell_their_rows_apart(tmp_path):
    years = {str(year): [year + n for n in range(4)] for year in range(1990, 2020)}
    frame = pd.DataFrame({"model": ["m"] * 4, "region": ["x", "x", "y", "y"], "gas": ["p", "q", "p", "q"]} | years)
    table = read(written(tmp_path, frame))
    assert table.columns.keys == ("region", "gas") and "are times" in table.said
    assert (table.series[1].times == np.arange(1990, 2020)).all() and table.series[1].values[0] == 1991


@pytest.mark.parametrize("parts, step", [(["%Y", "%m", "%d", "%H"], "h"), (["%Y", "%j"], "D")])
def test_the_first_columns_of_a_table_without_names_are_a_year_and_its_parts(parts, step, tmp_path):
    times = HOURS if step == "h" else pd.date_range("1981-05-20", periods=480)
    rows = pd.DataFrame({part: times.strftime(part) for part in parts} | {"a": WAVE, "b": WAVE[::-1]})
    path = tmp_path / "station.txt"
    path.write_text(rows.to_csv(sep="\t", index=False, header=False))
    assert task_of_file(path) == "forecast"
    table = read(path)
    assert str(table.frequency) == step and (table.series[0].times == times).all() and len(table.series) == 2


def test_a_regular_time_is_taken_before_a_date_and_an_hour(tmp_path):
    frame = pd.DataFrame(
        {"Dates": HOURS, "Date": HOURS.normalize(), "HE": HOURS.hour, "load": WAVE, "wind": WAVE[::-1]}
    )
    table = read(written(tmp_path, frame))
    assert table.columns.time == "Dates" and [one.name for one in table.series] == ["load", "wind"]


def test_months_are_named_in_german_and_forecast_so(tmp_path):
    names = [*("Jan Feb Mrz Apr Mai Jun Jul Aug Sep Okt Nov Dez".split())]
    frame = pd.DataFrame({"Monat": [f"{name} {year}" for year in range(13, 18) for name in names], "y": WAVE[:60]})
    one = read(written(tmp_path, frame)).series[0]
    assert str(one.times[2])[:7] == "2013-03"
    assert one.form.written(np.array(["2018-03", "2018-10"], "datetime64[ns]")) == ["Mrz 18", "Okt 18"]


def test_what_lines_around_a_table_say_is_read(tmp_path):
    rows = "".join(f"{day},{value}\n" for day, value in zip(DAYS.strftime("%Y-%m-%d"), WAVE, strict=False))
    path = tmp_path / "noted.csv"
    path.write_text("#Title: heat\n#Missing: -99\nDate,Value\n" + rows.replace(f",{WAVE[7]}\n", ",-99\n"))
    assert np.isnan(read(path).series[0].values[7])
    wide = "Tag;Wert;Haben;Soll\n" + rows.replace(",", ";").replace("\n", ";;\n")
    path.write_text(wide + "Kontostand;31.12.2024;;\n"[:-2] + "\n")
    assert len(read(path, target=("Wert",)).series[0].values) == 60
    counted = "COLUMN:,1,2,3\nUNITS:,m,m,m\nday of year,up,down,side\n" + rows.replace("\n", ",1.5,2.5\n")
    path.write_text(counted)
    assert read_table(path).column_names[0] == "UNITS:", "a count of the columns is no header"


def test_files_of_one_name_are_series_of_their_own_whose_folder_is_their_class(tmp_path):
    rng = np.random.default_rng(0)
    for number, name in enumerate(("walk", "run")):
        for recording in ("r1", "r2", "r3"):
            folder = tmp_path / "logs" / name / recording
            folder.mkdir(parents=True)
            rows = pd.DataFrame({"time": np.arange(20), "x": number + rng.normal(size=20)})
            rows.to_csv(folder / "Accelerometer.csv", index=False)
            spectrum = "".join(f"{1100 + n}.5\t{value:.4f}\n" for n, value in enumerate(rows.x))
            (tmp_path / f"{name}-{recording}.tsv").write_text(spectrum)
    refused(r'give the pattern ".*logs/\*/\*/\*"', task_of_file, tmp_path / "logs")
    path = tmp_path / "logs/*/*/*.csv"
    found = read_series(path, Reading())
    refused("are folders classes .* give --task series-classification or", task_of_file, path)
    assert found.labels == ["run"] * 3 + ["walk"] * 3 and found.channels == ("x",)
    assert read_series(path, Reading(), channels=["x"], labelled=False).channels == ("x",)
    assert found.names == [f"{name}/{n}/Accelerometer" for name in ("run", "walk") for n in ("r1", "r2", "r3")]
    named = read_series(tmp_path / "*.tsv", Reading(), labelled=False)
    assert len(named.values) == 6 and "time (numbers) 'column 1'" in named.said and named.values[0].shape == (20, 1)


def test_recordings_without_names_of_columns_are_named_by_several_columns(tmp_path):
    rows = [
        f"{user},{kind},{user * 1000 + step * 50 + 7000 * (kind == 'run')},{step % 3 + (kind == 'run')}.25;"
        for user in (1, 2, 3) for kind in ("walk", "run") for step in range(20)
    ]  # fmt: skip
    path = tmp_path / "raw.txt"
    path.write_text("\n".join(rows) + "\n")
    how = Reading(series_column="column 1,column 2", time_column="column 3", label_column="column 2")
    found = read_series(path, how)
    assert found.names == ["1,walk", "1,run", "2,walk", "2,run", "3,walk", "3,run"] and found.channels == ("column 4",)
    assert found.labels == ["walk", "run"] * 3 and found.values[1][:3, 0].tolist() == [1.25, 2.25, 3.25]


def test_columns_of_numbers_are_years_only_where_nothing_else_stands_in_their_rows(tmp_path):
    stations = dated(**{str(1001 + n): WAVE[n : n + 60] for n in range(8)})
    assert [one.name for one in read(written(tmp_path, stations)).series] == [str(1001 + n) for n in range(8)]
    spectra = pd.DataFrame({str(1100 + 2 * n): WAVE[n : n + 40] for n in range(50)} | {"octane": WAVE[:40]})
    refused("which task is it for", task_of_file, written(tmp_path, spectra))


def test_a_date_is_the_time_before_another_that_is_more_even(tmp_path):
    months = pd.date_range("2010-01-01", periods=60, freq="MS")
    frame = pd.DataFrame({"date": months, "loaded": pd.date_range("2025-01-01", periods=60), "y": WAVE[:60]})
    assert read(written(tmp_path, frame)).columns.time == "date"


def test_a_count_of_missing_values_above_a_table_is_no_word_for_them(tmp_path):
    rows = "".join(f"{day},{row % 4}\n" for row, day in enumerate(DAYS.strftime("%Y-%m-%d")))
    path = tmp_path / "counted.csv"
    for line in ("# Missing values: 0", "# Missing: 2 of 40"):
        path.write_text(f"{line}\nds,y\n{rows}")
        assert not np.isnan(read(path).series[0].values).any()


def test_a_frame_has_a_header_whatever_its_names(tmp_path):
    frame = pd.DataFrame({str(850 + 2 * n): WAVE[n : n + 6] for n in range(20)})
    assert len(read_series(new_data(frame.assign(label=list("ababab"))).source, Reading(), labelled=False).values) == 6
    one = tmp_path / "one.csv"
    one.write_text("demand\nNA\n" + "\n".join(map(str, WAVE[:40])) + "\n")
    assert read_table(one).column_names == ["demand"]


@pytest.mark.parametrize("frame", [
    pd.DataFrame({"a": WAVE[:60], "b": WAVE[60:120]}),
    pd.DataFrame({"place": ["x", "y"]} | {str(year): [year, year + 1] for year in range(1960, 2010)}),
], ids=["steps", "years"])  # fmt: skip
def test_what_was_turned_or_counted_in_training_is_read_again_so(frame, tmp_path):
    path = written(tmp_path, frame)
    first = read(path)
    again = read_series_table(path, first.columns)
    assert [one.name for one in again.series] == [one.name for one in first.series]
    assert all((a.times == b.times).all() for a, b in zip(first.series, again.series, strict=True))
