"""Tables of series on a grid of times: what is read from them, and one line that names file, row and column for what
cannot be."""

import re

import numpy as np
import pandas as pd
from text_files import refused

from gatedrnn.data import data_settings
from gatedrnn.data.forecast.frequency import as_frequency, calendar_features, frequency_of
from gatedrnn.data.forecast.future import read_asked
from gatedrnn.data.forecast.table import Columns, read_table
from gatedrnn.data.forecast.task import load_forecast


def written(folder, text, name="table.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def hours(count, first="2024-01-01"):
    return [str(moment) for moment in pd.date_range(first, periods=count, freq="h")]


def long(folder, steps=60, name="long.csv"):
    lines = [
        f"{one},{moment},{number + step % 24 + step % 5 / 10},{step},{number}"
        for number, one in enumerate("ab")
        for step, moment in enumerate(hours(steps))
    ]
    return written(folder, "\n".join(["unique_id,ds,y,price,size", *lines]) + "\n", name)


def task(file, **given):
    return load_forecast(data_settings("forecast", train_file=file, **given))


def test_a_long_table_has_a_series_for_each_name_and_covariates_by_role(tmp_path):
    found = read_table(long(tmp_path), Columns(known=("price",), fixed=("size",)))
    assert [one.name for one in found.series] == ["a", "b"] and found.frequency.name == "h" and not found.unused
    second = found.series[1]
    assert second.values[:3].tolist() == [1, 2.1, 3.2] and second.known[:3, 0].tolist() == [0, 1, 2]
    assert second.fixed.tolist() == [1] and second.past.shape == (60, 0)


def test_a_wide_table_has_a_series_for_each_column_and_gaps_are_missing_values(tmp_path):
    rows = [f"{moment},{step},{'' if step == 3 else -step}" for step, moment in enumerate(hours(30)) if step != 10]
    found = read_table(written(tmp_path, "date,up,down\n" + "\n".join(rows) + "\n"), Columns())
    up, down = found.series
    assert (up.name, down.name, len(up.values)) == ("up", "down", 30)
    assert np.flatnonzero(np.isnan(up.values)).tolist() == [10]
    assert np.flatnonzero(np.isnan(down.values)).tolist() == [3, 10]
    one = read_table(tmp_path / "table.csv", Columns(target=("up",)))
    assert [series.name for series in one.series] == ["up"] and one.unused == ("down",)


SEASONS = {
    "h": (24, 168), "15min": (96,), "30min": (48, 336), "D": (7,), "W-SAT": (52,), "MS": (12,), "QE-DEC": (4,),
    "YS-JAN": (1,), "B": (5,), "2h": (12, 84), "min": (60,), "s": (60,),
}  # fmt: skip


def test_frequencies_and_their_seasons_are_seen_with_gaps_too():
    for frequency, seasons in SEASONS.items():
        times = pd.date_range("2020-01-31", periods=40, freq=frequency).to_numpy()
        found = frequency_of(times)
        assert found is not None and (found.name, found.seasons) == (frequency, seasons)
        with_gap = np.delete(times, [5, 6, 17])
        again = frequency_of(with_gap)
        assert again is not None and len(again.grid(with_gap)) == len(times), frequency
        assert (again.after(times[:-1], 1) == times[-1:]).all(), frequency


def test_numbers_are_times_too():
    found = frequency_of(np.array([1.0, 2.0, 4.0, 5.0]))
    assert found is not None and found.step == 1 and found.seasons == (1,)
    assert found.grid(np.array([1.0, 4.0])).tolist() == [1, 2, 3, 4]
    assert found.after(np.array([4.0]), 2).tolist() == [5, 6]
    assert frequency_of(np.array([1.0, 2.0, 2.5])) is not None and frequency_of(np.array([0.0, 1.0, 2.0, 2.7])) is None
    assert frequency_of(np.array([1.0, 2.0])) is None and str(as_frequency("0.5")) == "every 0.5"


def test_calendar_features_come_round(tmp_path):
    times = pd.date_range("2024-01-01", periods=49, freq="h").to_numpy()
    found = calendar_features(times, ("hour-of-day", "day-of-week"))
    np.testing.assert_allclose(found[0], [0, 1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(found[0, :2], found[24, :2], atol=1e-6)
    assert (found[0, 2:] != found[24, 2:]).any()
    numbers = written(tmp_path, "t,y\n" + "".join(f"{n},{n % 5}\n" for n in range(60)))
    refused("--calendar needs dates", task, numbers, calendar=("hour-of-day",), horizon=2)


GOOD = "unique_id,ds,y\n" + "".join(f"{name},{moment},{n}\n" for name in "ab" for n, moment in enumerate(hours(4)))
SECOND = "a,2024-01-01 01:00:00,1"
WRONG = [
    ("unique_id,ds,y", "unique_id,ds,time", {}, "which column is the time"),
    ("ds,y", "ds,load", {}, "which column is the target"),
    (SECOND, "a,2024-01-01 00:00:00,1", {}, "row 2, column 'ds': series a has 2024-01-01 00:00:00 twice"),
    (SECOND, "a,2023-01-01 01:00:00,1", {}, "row 2, column 'ds': series a has 2023-01-01 01:00:00 after a later"),
    (SECOND, "a,2024-01-01 01:00:00,cold", {}, "row 2, column 'y': must be a number, got 'cold'"),
    (SECOND, "a,2024-01-01 01:00:00,inf", {}, "row 2, column 'y': inf is infinite"),
    (SECOND, "a,yesterday,1", {}, "row 2, column 'ds': 'yesterday' is neither a number nor a date"),
    (SECOND, "a,,1", {}, "row 2, column 'ds'"),
    (SECOND, "a,2024-01-01 00:17:00,1", {"frequency": "h"}, "is not on the grid of its other times"),
    ("", "", {"known": ("price",)}, "no column 'price'"),
    ("", "", {"past": ("y",)}, "column 'y' is given two roles"),
    ("", "", {"target": ("y", "ds")}, "column 'ds' is given two roles"),
    ("", "", {"fixed": ("y",), "target": ("unique_id",)}, "column 'unique_id' is given two roles"),
]


def test_what_cannot_be_read_is_named_and_so_is_a_column_of_series_where_times_fall(tmp_path):
    for old, new, columns, said in WRONG:
        path = written(tmp_path, GOOD.replace(old, new, 1) if old else GOOD)
        assert path.name in refused(re.escape(said), read_table, path, Columns(**columns))
    path = written(tmp_path, GOOD.replace("unique_id", "source"))
    refused(
        r"row 5, column 'ds': .* after a later one; .* give --series-column source$",
        read_table,
        path,
        Columns(target=("y",)),
    )
    refused(
        r"after a later one$",
        read_table,
        written(tmp_path, GOOD.replace("unique_id", "source").replace("b,", "a,")),
        Columns(target=("y",)),
    )


def test_series_of_unequal_frequency_and_without_values_are_named(tmp_path):
    days = "".join(f"c,2024-01-{day:02d},1\n" for day in range(1, 6))
    refused("unequal frequency: a has h, c has D", read_table, written(tmp_path, GOOD + days), Columns())
    empty = "".join(f"c,{moment},{missing}\n" for moment, missing in zip(hours(4), ("", "?", "nan", "NA"), strict=True))
    refused("series c: all values are missing", read_table, written(tmp_path, GOOD + empty), Columns())
    refused("changes within series a, which is --fixed", read_table, long(tmp_path), Columns(fixed=("price",)))
    refused(
        "--frequency often: must be a step such as", read_table, written(tmp_path, GOOD), Columns(frequency="often")
    )
    refused(
        "no series has the three times", read_table, written(tmp_path, "ds,y\n2024-01-01,1\n2024-01-02,2\n"), Columns()
    )
    path = written(tmp_path, "ds,y\n" + "".join(f"2024-01-{day:02d},{day}\n" for day in range(1, 31)))
    said = r"series y: no two of its times are one step apart \(h\); its own step is longer"
    refused(said, read_table, path, Columns(frequency="h"))
    assert read_table(path, Columns(frequency="D")).frequency.name == "D"


def test_splits_are_by_time_and_every_label_of_a_part_is_forecast(tmp_path):
    data = task(long(tmp_path, 200), horizon=6, season=(24,), context=30, validation_steps=18, test_steps=20, stride=1)
    validation, test = data.evaluation["validation"], data.evaluation["test"]
    assert test.places[test.places[:, 0] == 0, 1].tolist() == list(range(180, 195))  # 20 - 6 + 1 origins, none left out
    assert validation.places[:, 1].max() + 6 == 180 and data.train.stop.tolist() == [162, 162]
    batch = data.train.batch(0, 0, 0, 10_000)
    assert len(batch["labels"]) == len(data.train.training_places)
    last = max(data.train.training_places[:, 1]) + data.train.origins - 1
    assert last + 6 == 162
    rolled = task(long(tmp_path, 200), horizon=6, season=(24,), context=30, validation_steps=18, test_steps=20)
    assert rolled.evaluation["test"].places[:3, 1].tolist() == [182, 188, 194]


def test_no_label_of_a_later_part_is_in_a_batch_of_an_earlier_one(tmp_path):
    """The values of the test part are replaced: nothing of training and validation may change."""
    given = {"horizon": 6, "season": (24,), "context": 30, "test_steps": 20}
    before, test = task(long(tmp_path, 200, name="a.csv"), **given), hours(200)[180]
    rows = [row.split(",") for row in (tmp_path / "a.csv").read_text().splitlines()]
    later = [[*row[:2], "1e6", *row[3:]] if test <= row[1] < "3" else row for row in rows]
    after = task(written(tmp_path, "\n".join(map(",".join, later)) + "\n", "b.csv"), **given)
    assert before.model_inputs == after.model_inputs
    pairs = [(before.train, after.train), (before.evaluation["validation"], after.evaluation["validation"])]
    for one, other in pairs:
        places = one.training_places if one is before.train else one.places
        for name, values in one.collate(places).items():
            np.testing.assert_array_equal(values, other.collate(places)[name])
        np.testing.assert_array_equal(one.naive_error, other.naive_error)
        np.testing.assert_array_equal(one.deviation, other.deviation)
    np.testing.assert_array_equal(before.evaluation["test"].naive_error, after.evaluation["test"].naive_error)
    labels = after.evaluation["test"].collate(after.evaluation["test"].places)["labels"]
    assert (labels == 1e6).all()


def test_a_test_file_continues_each_series(tmp_path):
    train, rest = long(tmp_path, 60), tmp_path / "rest.csv"
    more = [f"{one},{moment},7,1,{n}" for n, one in enumerate("ab") for moment in hours(5, "2024-01-03 12:00")]
    rest.write_text("unique_id,ds,y,price,size\n" + "\n".join(more) + "\n")
    given = {"test_file": rest, "horizon": 5, "season": (24,), "fixed": ("size",), "validation_steps": 5}
    data = task(train, **given)
    assert data.evaluation["test"].places.tolist() == [[0, 60], [1, 60]]
    assert (data.evaluation["test"].collate(data.evaluation["test"].places)["labels"] == 7).all()
    rest.write_text(rest.read_text().replace("2024-01-03 12:00", "2024-01-03 11:00", 1))
    refused("series a begins at", task, train, **given)
    rest.write_text("unique_id,ds,y,price,size\n" + more[0] + "\n" + "\n".join(more[1:5]) + "\n")
    refused("has no series b", task, train, **given)


def test_a_forecast_needs_the_future_of_known_covariates(tmp_path):
    columns = Columns(known=("price",))
    refused("column 'price' has no value at 2024-01-03 12:00", read_asked, long(tmp_path, 60), columns, (), 30, 6)
    more = [f"{one},{moment},,{9},0" for one in "ab" for moment in hours(6, "2024-01-03 12:00")]
    path = long(tmp_path, 60)
    path.write_text(path.read_text() + "\n".join(more) + "\n")
    asked = read_asked(path, columns, ("hour-of-day",), 30, 6)
    assert asked.origins.tolist() == [60, 60]
    assert asked.batch()["known_covariates"][0, -1].tolist()[0] == 9 and asked.batch()["past_values"].shape == (2, 30)


def test_the_series_that_ships_with_a_library_is_read_without_a_file():
    data = task(None)
    assert "59 of 2,284 values are missing" in data.notes[0] and data.model_inputs["seasons"] == [52]


def test_a_column_of_dates_or_years_is_found_where_no_name_is_usual(tmp_path):
    fields = {"Datum": "2020-{:02d}-01", "start": "2019-{:02d}-01", "time": "2020-{:02d}-01", "menge": "{}"}
    for header, time in (("Datum,menge", "Datum"), ("year,menge", "year"), ("start,menge,time", "time"),
                         ("Year,menge,Datum", "Datum")):  # fmt: skip
        names = header.split(",")
        lines = [",".join(fields.get(name, "20{:02d}").format(month) for name in names) for month in range(1, 13)]
        path = written(tmp_path, "\n".join([header, *lines]) + "\n")
        assert read_table(path, Columns(target=("menge",))).columns.time == time
    path = written(tmp_path, "von,bis,menge\n2020-01-01,2020-01-31,1\n2020-02-01,2020-02-29,2\n")
    refused("which column is the time", read_table, path, Columns(target=("menge",)))


def test_series_that_are_too_short_or_in_which_no_error_can_be_scaled_are_refused(tmp_path):
    for value, given, said in (
        ("5.0", {}, r"flat\.csv: before the validation part every series is constant"),
        ("{step}", {"season": (150,)}, r"a season of 150 is no shorter than the 144 steps before the validation part"),
        ("{wave}", {"season": (24,)}, r"or repeats itself from season to season \(24 steps\)"),
    ):
        lines = [f"{moment},{value.format(step=step, wave=step % 24)}" for step, moment in enumerate(hours(200))]
        refused(said, task, written(tmp_path, "\n".join(["ds,y", *lines]) + "\n", "flat.csv"), horizon=6, **given)
    for steps, given, said in (
        (40, {"horizon": 24}, "of 40 steps, 0 are left for training, which must be more than the horizon, 24"),
        (200, {"horizon": 6, "test_steps": 3}, "no series has a test part as long as the horizon, 6"),
    ):
        refused(said, task, long(tmp_path, steps), season=(24,), **given)
