"""Single measurements as series: of one table, of a file each; the times of rows; bad rows are named."""

import numpy as np
from text_files import refused

from gatedrnn.data.series.fields import numbers_of, times_of
from gatedrnn.data.series.files import Reading, read_series

NAN = np.nan
TABLE = """id,time,parameter,value,label
a,00:30,pulse,70,well
a,00:00,heat,37.5,well
a,00:30,heat,-1,well
a,02:00,pulse,75,well
a,02:00,pulse,80,well
b,31:15,heat,39,ill
b,31:15,pulse,,ill
"""


def written(folder, text, name="rows.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_a_step_is_a_time_at_which_something_was_measured(tmp_path):
    found = read_series(written(tmp_path, TABLE), Reading(missing=("-1",)))
    assert found.channels == ("heat", "pulse") and found.labels == ["well", "ill"]
    np.testing.assert_array_equal(found.values[0], np.array([[37.5, NAN], [NAN, 70], [NAN, 80]], np.float32))
    np.testing.assert_array_equal(found.values[1], np.array([[39, NAN]], np.float32))
    assert found.times is not None and [list(times) for times in found.times] == [[0, 0.5, 2], [31.25]]
    assert found.places == ["id a", "id b"]


def test_a_file_for_each_series_reads_the_same(tmp_path):
    whole = read_series(written(tmp_path, TABLE), Reading(missing=("-1",)))
    header, *rows = TABLE.splitlines()
    for name in "ab":
        own = [",".join(row.split(",")[1:4]) for row in [header, *rows] if row.startswith((f"{name},", "id"))]
        written(tmp_path, "\n".join(own), f"{name}.txt")
    index = written(tmp_path, "file,label\na.txt,well\nb.txt,ill\n", "index.csv")
    found = read_series(index, Reading(missing=("-1",)))
    assert found.labels == whole.labels and found.channels == whole.channels
    assert found.times is not None and whole.times is not None
    for one, other in zip([*found.values, *found.times], [*whole.values, *whole.times], strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.source["sha256"] != whole.source["sha256"]
    written(tmp_path, (tmp_path / "b.txt").read_text().replace("39", "40"), "b.txt")
    assert read_series(index, Reading()).source["sha256"] != found.source["sha256"]


def test_a_file_is_put_into_the_channels_of_training(tmp_path):
    path = written(tmp_path, TABLE)
    found = read_series(path, Reading(), channels=["heat", "pressure", "pulse"])
    assert [values.shape[1] for values in found.values] == [3, 3] and np.isnan(found.values[0][:, 1]).all()
    refused(
        "row 1: the parameter 'pulse' is in no training series; there are heat",
        read_series,
        path,
        Reading(),
        channels=["heat"],
    )


def test_times_of_rows_are_kept_where_they_are_uneven(tmp_path):
    path = written(tmp_path, "id,ds,x,label\na,2024-01-01 00:00,1,u\na,2024-01-01 06:30,2,u\nb,2024-03-01,3,d\n")
    assert read_series(path, Reading()).times is None
    times = read_series(path, Reading(uneven=True)).times
    assert times is not None and np.diff(times[0]).tolist() == [6.5] and len(times[1]) == 1


WRONG_ROWS = [
    ("00:30,pulse,70", "00:30,pulse,fast", r"row 1, column 'value': must be a number, got 'fast'"),
    ("00:30,pulse,70", "00:30,pulse,inf", r"row 1, column 'value': inf is infinite"),
    ("02:00,pulse,75", "later,pulse,75", r"row 4, column 'time': 'later' is no time of hours and minutes"),
    ("02:00,pulse,75,well", "02:00,pulse,75,ill", r"row 4, column 'label': series a has the labels well and ill"),
    ("b,31:15,heat,39,ill", "b,31:15,heat,,ill", "id b: nothing is measured in it"),
    ("time,parameter", "moment,parameter", "which column is the time"),
]
WRONG_FILES = [
    ("file,label\na.txt,x\ngone.txt,y\n", "row 2, column 'file': gone.txt: no such file"),
    ("file,label\na.txt,x\na.txt,y\n", "row 2, column 'file': a.txt is named twice"),
    ("file,label\na.txt,x\ncut.txt,y\n", "cut.txt: row 2: must have 3 fields as the first line, got 2"),
    ("file,label\na.txt,x\nbytes.txt,y\n", "bytes.txt: cannot be read as a table with commas"),
    ("file,label\na.txt,x\nempty.txt,y\n", "empty.txt: nothing is measured in it"),
    ("file,class\na.txt,x\na.txt,\n", "row 2 has no label in column 'class'"),
]


def test_a_wrong_row_or_file_is_named(tmp_path):
    for old, new, said in WRONG_ROWS:
        refused(said, read_series, written(tmp_path, TABLE.replace(old, new)), Reading())
    written(tmp_path, "time,parameter,value\n00:00,heat,37\n", "a.txt")
    written(tmp_path, "time,parameter,value\n00:00,heat,37\n00:10,heat\n", "cut.txt")
    written(tmp_path, "time,parameter,value\n", "empty.txt")
    (tmp_path / "bytes.txt").write_bytes(b"time,parameter,value\n\xff\xfe,heat,3\n")
    for index, said in WRONG_FILES:
        refused(said, read_series, written(tmp_path, index, "index.csv"), Reading())


def test_what_only_tables_of_times_have_is_refused_elsewhere(tmp_path):
    path = written(tmp_path, "@problemName p\n@classLabel true a b\n@data\n1,2:a\n2,1:b\n", "series.ts")
    for reading, flag in ((Reading(uneven=True), "--uneven"), (Reading(missing=("-1",)), "--missing")):
        refused(f"{flag} is for tables of times", read_series, path, reading)


def test_numbers_flags_and_texts_are_numbers_and_times_of_day_are_hours(tmp_path):
    assert numbers_of([1, 2.5, True, "3", None, "na"], str)[:4].tolist() == [1, 2.5, 1, 3]
    assert times_of(["00:30", "26:00:36"], str).tolist() == [0.5, 26.01]
    refused("must be a number, got 'x'", numbers_of, ["x"], str)
