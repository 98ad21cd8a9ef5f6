"""Files of series, measurements and recordings: what is read; what cannot be is named with its row and column."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.io import wavfile
from text_files import refused, written

from gatedrnn.data import data_settings
from gatedrnn.data.windows import deviation_of, scale_of
from gatedrnn.models import GatedRNNConfig
from gatedrnn.models.modeling import ChannelScale
from gatedrnn.tables.frequency import calendar_features
from gatedrnn.tables.numbers import numbers_of
from gatedrnn.tables.options import Fields
from gatedrnn.tables.times import read_times
from gatedrnn.tasks.forecast.read import load_forecast, read_asked
from gatedrnn.tasks.forecast.table import Columns, read_series_table
from gatedrnn.tasks.series.files import Reading, check_rate, named_files, read_series
from gatedrnn.tasks.series.formats import read_ts
from gatedrnn.tasks.series.read import load_series_task

NAN = np.nan
HEADER = "@problemName p\n@univariate false\n@dimensions 2\n@equalLength false\n@classLabel true sit run\n@data\n"
LONG = "unique_id,ds,load,heat,label\n" + "".join(
    f"{name},2024-01-{day:02d} 18:00,{day},{'' if day == 2 else day / 2},{label}\n"
    for name, label in (("a", "up"), ("b", "down"))
    for day in (1, 2, 3)
)
TABLE = """id,time,parameter,value,label
a,00:30,pulse,70,well
a,00:00,heat,37.5,well
a,00:30,heat,-1,well
a,02:00,pulse,75,well
a,02:00,pulse,80,well
b,31:15,heat,39,ill
b,31:15,pulse,,ill
"""


def test_a_ts_file_has_channels_labels_and_missing_values(tmp_path):
    path = written(tmp_path, f"# a comment\n{HEADER}1,2,3:4,?,6:sit\n7:NaN:run\n", "a.ts")
    found = read_ts(path)
    assert [values.shape for values in found.values] == [(3, 2), (1, 2)] and found.labels == ["sit", "run"]
    np.testing.assert_array_equal(found.values[0], [[1, 4], [2, np.nan], [3, 6]])
    assert found.label_names == ("sit", "run") and found.source["rows"] == 2
    packed = tmp_path / "a.ts.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_ts(packed).values[0], found.values[0])


def test_a_long_table_has_a_series_for_each_name_and_times_of_rows_where_they_are_uneven(tmp_path):
    path = written(tmp_path, LONG.replace("b,2024-01-02 18", "b,2024-01-02 20"))
    found = read_series(path, Reading())
    assert found.channels == ("load", "heat") and found.labels == ["up", "down"] and len(found.values) == 2
    np.testing.assert_array_equal(found.values[0], [[1, 0.5], [2, np.nan], [3, 1.5]])
    assert read_series(path, Reading()).times is None
    assert [np.diff(times).tolist() for times in read_series(path, Reading(uneven=True)).times] == [[24, 24], [26, 22]]
    assert numbers_of([1, 2.5, True, "3", None, "na"], str)[:4].tolist() == [1, 2.5, 1, 3]
    assert read_times(["00:30", "26:00:36"], str).hours().tolist() == [0.5, 26.01]


def test_a_table_without_names_has_a_row_a_series_its_class_first(tmp_path):
    found = read_series(written(tmp_path, "1\t0.5\t2\tNaN\n-1\tNaN\t3\t4\n", "Toy_TRAIN.tsv"), Reading())
    assert found.labels == ["1", "-1"] and found.places == ["line 1", "line 2"] and found.channels == ("0",)
    np.testing.assert_array_equal(np.concatenate(found.values)[:, 0], [0.5, 2, NAN, 3, 4])
    for text, said in (
        ("1,2,3\n2,x,4\n", "line 2, field 2: must be a number, got 'x'"),
        ("1,2,3\n2,,\n", "line 2: there is no value after the class"),
        ("1,2,3\n,3,4\n", "line 2, field 1: there is no class"),
        ("0,1,2\n5,6,7\n", "which column is the series"),  # pandas' names of columns without any
    ):
        refused(said, read_series, written(tmp_path, text), Reading())


def test_fields_that_say_that_nothing_was_measured_are_read_so(tmp_path):
    words = ["", " ", ".", "-", "N/A", "#N/A", "<NA>", "null", "-99"]
    rows = "".join(f"2024-01-{day:02d};{words[day % 9] if day % 2 else day}\n" for day in range(1, 31))
    for separator in ";\t":
        table = f"sep={separator}\n ds; y\n{rows}".replace(";", separator)
        found = read_series_table(written(tmp_path, table), Columns(missing=("-99",))).series[0].values
        np.testing.assert_array_equal(
            found, [NAN if day % 2 else day for day in range(2, 31)], "from the first value on"
        )
    for values in (["-9999", "-9999.0", "-9999.00"], [-9999, -9999.0, np.float32(-9999)]):
        assert np.isnan(numbers_of(values, str, Fields(missing=("-9999",)))).all()


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-700, 2.0**900])
def test_mean_and_deviation_have_the_same_digits_in_any_unit(unit):
    values = np.random.default_rng(0).normal(3, 1, (50, 2))
    assert [(one / unit).tolist() for one in scale_of(values * unit)] == [one.tolist() for one in scale_of(values)]
    assert deviation_of(values[:, 0] * unit) / unit == deviation_of(values[:, 0])


def test_what_does_not_fit_float32_in_units_of_training_is_named(tmp_path):
    def table(name, heat):
        rows = [f"{n},{step},{heat(n, step)},{n % 2}" for n in range(20) for step in (0, 1)]
        return written(tmp_path, "\n".join(["id,time,heat,label", *rows]), name)

    train = table("train.csv", lambda n, step: n * 1e-9)
    test = table("test.csv", lambda n, step: "3e38" if (n, step) == (3, 1) else "0")
    given = data_settings("series-classification", train_file=train, test_file=test)
    refused(r"test\.csv: row 8, column 'heat': 3e\+38 does not fit float32", load_series_task, given)
    rows = [f"{step},{step % 3 * 1e-9},{3e38 if step == 59 else step % 2 * 1e-9}" for step in range(60)]
    path = written(tmp_path, "\n".join(["t,y,x", *rows]))
    roles = {"past": ("x",), "target": ("y",), "horizon": 3}
    refused(r"series y, 59, column 'x': 3e\+38 does not fit float32", task, path, **roles)
    path.write_text(path.read_text().replace("\n30,0.0", "\n30,3e38"))
    refused(r"row 31, column 'y': 3e\+38 does not fit float32 beside values of series y", task, path, **roles)


WRONG_TS = [
    (HEADER + "1,2:3:sit\n", "line 7: channels of unequal lengths, 1 and 2"),
    (HEADER + "1,2:sit\n", "line 7: the header says 2 channels, the line has 1"),
    (HEADER + "1,x:1,2:sit\n", "line 7, channel 1, value 2: must be a number, got 'x'"),
    (HEADER + "1,inf:1,2:sit\n", "line 7, channel 1, value 2: inf is infinite"),
    (HEADER + "1,2:1,2:swim\n", "line 7: the label 'swim' is none of the header's: sit, run"),
    (HEADER, "there are no series in it"),
    ("@missing false\n" + HEADER + "1,2:1,?:sit\n", "a value is missing, and the header says that none is"),
    (HEADER.replace("@equalLength false", "@equalLength true\n@seriesLength 3") + "1,2:1,2:sit\n", "says 3"),
    (HEADER.replace("@classLabel true sit run", "@classLabel false") + "1:2\n", "promises no label"),
    ("@timeStamps true\n" + HEADER + "(0,1):(0,2):sit\n", "time stamps are not read"),
    ("1,2,3\n", "line 1: must begin with @ before @data"),
    ("@\n" + HEADER, "line 1: has no name after its @"),
    (
        HEADER.replace("@dimensions 2", "@dimensions"),
        "line 3: @dimensions must be followed by a whole number",
    ),
    (HEADER.replace("@dimensions 2", "@dimensions 2.5"), "@dimensions must be followed by a whole number, got 2.5"),
    (HEADER.replace("@dimensions 2", "@seriesLength -1"), "@seriesLength must be followed by a whole number, got -1"),
    (HEADER.replace("@dimensions 2\n", "") + "sit\n", "line 6: holds a label and no values"),
    ("@problemName p\n", "has no @data line"),
]
WRONG_LONG = [
    ("unique_id", "who", "which column is the series? none has a usual name; give --series-column who"),
    ("load,heat", "id,heat", "which column is the series? several could be it (unique_id, id)"),
    ("a,2024-01-02", "a,2024-01-01", "rows 1 and 2, column 'ds': series a has 2024-01-01 18:00 twice"),
    ("a,2024-01-02 18:00", "a,soon", "row 2, column 'ds': 'soon' is neither a number nor a date"),
    (":00,2,", ":00,two,", "row 2, column 'load': must be a number, got 'two'"),
    (":00,2,", ":00,inf,", "row 2, column 'load': inf is infinite"),
    (":00,2,", ":00,1e39,", "row 2, column 'load': 1e+39 is too large; numbers up to 3.4e+38 are read"),
    ("2,,up", "2,,down", "row 2, column 'label': series a has the labels up and down"),
]
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
    ("file,label\na.txt,x\ncut.txt,y\n", "cut.txt: line 3: must have 3 fields as the first line, got 2"),
    ("file,label\na.txt,x\nbytes.txt,y\n", "bytes.txt: row 1, column 'time': 'ÿþ' is no time"),
    ("file,label\na.txt,x\nempty.txt,y\n", "empty.txt: nothing is measured in it"),
    ("file,class\na.txt,x\na.txt,\n", "row 2 has no label in column 'class'"),
]


def test_a_file_with_a_fault_is_refused_with_its_line_or_row_and_column(tmp_path):
    wrong = [("a.ts", text, said) for text, said in WRONG_TS]
    wrong += [("a.csv", LONG.replace(old, new, 1), said) for old, new, said in WRONG_LONG]
    wrong += [("rows.csv", TABLE.replace(old, new), said) for old, new, said in WRONG_ROWS]
    wrong += [("index.csv", index, said) for index, said in WRONG_FILES]
    wrong += [("cut.ts.gz", gzip.compress(HEADER.encode())[:-6], "cannot be read")]
    wrong += [("bytes.ts", b"\xff\xfe\x00", "cannot be read")]
    rows = "time,parameter,value\n"
    parts = {"a.txt": "00:00,heat,37\n", "cut.txt": "00:00,heat,37\n00:10,heat\n", "empty.txt": ""}
    for name, content in parts.items():
        written(tmp_path, rows + content, name)
    written(tmp_path, rows.encode() + b"\xff\xfe,heat,3\n", "bytes.txt")
    for name, text, said in wrong:
        assert str(tmp_path) in refused(re.escape(said), read_series, written(tmp_path, text, name), Reading())
    refused("no such file", read_series, tmp_path / "no.ts", Reading())
    refused("must be a number, got 'x'", numbers_of, ["x"], str)


def recordings(folder, rate=8000):
    """Four tones, a class for the low and one for the high."""
    lines = ["file,label"]
    for number, pitch in enumerate((200, 210, 800, 820)):
        samples = np.sin(2 * np.pi * pitch * np.arange(2000 + 100 * number) / 8000)
        pcm = (20_000 * samples).astype(np.int16)
        wavfile.write(folder / f"{number}.wav", rate if number == 2 else 8000, pcm)
        lines.append(f"{number}.wav,{'low' if pitch < 500 else 'high'}")
    return written(folder, "\n".join(lines) + "\n", "all.csv")


SAMPLES = Reading(frames="samples")


def test_recordings_are_samples_or_frames_whose_bands_tell_the_pitch_and_need_no_labels(tmp_path):
    path = recordings(tmp_path)
    assert named_files(path) == "0.wav" and named_files(written(tmp_path, LONG, "a.csv")) is None
    samples, bands, cepstra = (
        read_series(path, Reading(frames=kind)).values for kind in ("samples", "log-mel", "mfcc")
    )
    assert samples[0].shape == (2000, 1) and 0.59 < samples[0].max() < 0.62
    assert bands[0].shape[1] == 40 and 20 < len(bands[0]) < 32 and cepstra[0].shape[1] == 20
    assert bands[0].mean(0).argmax() < bands[3].mean(0).argmax()
    path = written(tmp_path, "file\n3.wav\n0.wav\n", "unlabelled.csv")
    found = read_series(path, SAMPLES, labelled=False)
    assert (found.rate, found.column, found.names, found.labels) == (8000, "file", ["3.wav", "0.wav"], [])
    refused("which column is the label", read_series, path, SAMPLES)
    check_rate(found, 8000, "new.csv")
    said = r"new\.csv: has recordings of 8,000 samples a second; training had 16,000"
    refused(said, check_rate, found, 16_000, "new.csv")


def test_a_table_reads_files_below_its_folder_or_the_named_one_and_no_others(tmp_path):
    text, folder = "time,parameter,value\n00:00,heat,37\n", tmp_path / "a" / "b"
    elsewhere = written(tmp_path, text, "elsewhere.txt")
    folder.mkdir(parents=True)
    (folder / "link.txt").symlink_to(elsewhere)
    for name in (elsewhere, "../../elsewhere.txt", "link.txt", "/etc/hosts.txt"):
        table = written(folder, f"file,label\n{name},x\n", "index.csv")
        refused("lies outside the table's folder; .*--data-root$", read_series, table, Reading())
        refused("lies outside --data-root", read_series, table, Reading(data_root=folder))
    table = written(folder, "file,label\nelsewhere.txt,x\n", "index.csv")
    assert read_series(table, Reading(data_root=tmp_path)).values[0].tolist() == [[37.0]]


def test_a_recording_with_a_fault_is_refused_with_its_row(tmp_path):
    said = r"row 3, column 'file': 2\.wav: has 16,000 samples a second, the first"
    refused(said, read_series, recordings(tmp_path, rate=16_000), SAMPLES)
    path = recordings(tmp_path)
    whole = (tmp_path / "1.wav").read_bytes()
    data = whole.index(b"data")
    for broken in (whole[: len(whole) // 2], b"RIFF", b"", whole[:data] + b"none" + whole[data + 4 :]):
        (tmp_path / "1.wav").write_bytes(broken)
        refused(r"row 2, column 'file': 1\.wav: cannot be read as WAV", read_series, path, SAMPLES)
    tag = b"id3 " + (3).to_bytes(4, "little") + b"abc\0"  # a chunk that says nothing about the samples
    sized = (len(whole) - 8 + len(tag)).to_bytes(4, "little")
    (tmp_path / "1.wav").write_bytes(whole[:4] + sized + whole[8:] + tag)
    assert len(read_series(path, SAMPLES).values[1]) == 2100
    wavfile.write(tmp_path / "1.wav", 8000, np.array([0.5, NAN], np.float32))
    refused(r"1\.wav: sample 2 is nan", read_series, path, SAMPLES)
    slow = [(rate, f"{rate} samples a second, too few for") for rate in (50, 51, 59, 100)]
    for rate, said in (*slow, (2_000_000, "frames are made of 1,000,000 at most")):
        wavfile.write(tmp_path / "0.wav", rate, np.zeros(100, np.int16))
        refused(f"{said}.* give --frames samples", read_series, path, Reading(frames="mfcc"))
    (tmp_path / "1.wav").unlink()
    refused(r"row 2, column 'file': 1\.wav: no such file", read_series, path, SAMPLES)


def classified(folder, text, **settings):
    file = written(folder, text, "train.ts")
    return load_series_task(data_settings("series-classification", train_file=file, **settings))


def many(missing=""):
    """Forty series of two channels; in every third, a value of the first is missing."""
    third = [missing if missing and n % 3 == 0 else str(n + 2) for n in range(40)]
    return HEADER + "".join(f"{n},{n + 1},{third[n]}:{-n},{n},0:{'sit' if n % 2 else 'run'}\n" for n in range(40))


def test_the_model_keeps_the_scale_of_the_training_split_and_a_flag_where_a_value_is_missing(tmp_path):
    data = classified(tmp_path, many())
    assert data.model_inputs["input_size"] == 2 and data.model_inputs["flagged_channels"] == []
    config = GatedRNNConfig(**data.model_inputs, num_labels=2)
    whole = torch.cat([ChannelScale(config)(torch.from_numpy(inputs)) for inputs in data.train.inputs])
    np.testing.assert_allclose([whole.mean(0), whole.std(0, correction=0)], [[0, 0], [1, 1]], atol=1e-5)
    assert {split: len(data.evaluation[split].inputs) for split in data.evaluation} == {"validation": 4, "test": 8}
    flagged = classified(tmp_path, many("?"))
    assert flagged.model_inputs["flagged_channels"] == [0]
    scale = ChannelScale(GatedRNNConfig(**flagged.model_inputs, num_labels=2))
    read = scale(torch.tensor([[[np.nan, 1.0], [2.0, 1.0]]]))
    assert read.shape == (1, 2, 3) and read[0, :, 2].tolist() == [0.0, 1.0] and read[0, 0, 0] == 0
    assert "Values are missing in 0;" in " ".join(flagged.notes)


def test_what_cannot_be_learned_or_does_not_fit_what_was_is_refused(tmp_path):
    for old, new, series, said in (
        ("run", "swim", "1:2:swim\n", r"test\.ts: line 7: the label 'swim' is in no training series"),
        ("2\n", "3\n", "1:2:3:run\n", r"test\.ts: has the channels 0, 1, 2; training had 0, 1"),
    ):
        other = written(tmp_path, HEADER.replace(old, new) + series, "test.ts")
        refused(said, classified, tmp_path, many(), test_file=other)
    missing = HEADER + "".join(f"{n}:?:{'sit' if n % 2 else 'run'}\n" for n in range(40))
    notes = classified(tmp_path, many(), test_file=written(tmp_path, missing, "test.ts")).notes
    assert "test.ts: '1': no value is there; the mean of training is read." in notes
    refused("no test split can be set apart", classified, tmp_path, HEADER + "1:2:run\n1:3:sit\n")
    refused("channel '1': all values are missing", classified, tmp_path, missing)
    said = r"every training series has the label 'sit'; at least two are needed"
    refused(said, classified, tmp_path, HEADER + "1,2,3:4,5,6:sit\n" * 20)
    refused("needs --train-file", load_series_task, data_settings("series-classification"))
    path = written(tmp_path, many(), "series.ts")
    for reading, flag in ((Reading(uneven=True), "--uneven"), (Reading(missing=("-1",)), "--missing")):
        refused(f"{flag} is for tables of times", read_series, path, reading)


def test_a_step_is_a_time_at_which_something_was_measured_and_training_names_the_channels(tmp_path):
    path = written(tmp_path, TABLE)
    found = read_series(path, Reading(missing=("-1",)))
    assert found.channels == ("heat", "pulse") and found.labels == ["well", "ill"]
    np.testing.assert_array_equal(found.values[0], np.array([[37.5, NAN], [NAN, 70], [NAN, 80]], np.float32))
    np.testing.assert_array_equal(found.values[1], np.array([[39, NAN]], np.float32))
    assert [list(times) for times in found.times] == [[0, 0.5, 2], [31.25]] and found.places == ["id a", "id b"]
    found = read_series(path, Reading(), channels=["heat", "pressure", "pulse"])
    assert [values.shape[1] for values in found.values] == [3, 3] and np.isnan(found.values[0][:, 1]).all()
    said = "row 1: the parameter 'pulse' is in no training series; there are heat"
    refused(said, read_series, path, Reading(), channels=["heat"])


def test_a_file_for_each_series_reads_the_same(tmp_path):
    whole = read_series(written(tmp_path, TABLE), Reading(missing=("-1",)))
    header, *rows = TABLE.splitlines()
    for name in "ab":
        own = [",".join(row.split(",")[1:4]) for row in [header, *rows] if row.startswith((f"{name},", "id"))]
        written(tmp_path, "\n".join(own), f"{name}.txt")
    index = written(tmp_path, "file,label\na.txt,well\nb.txt,ill\n", "index.csv")
    found = read_series(index, Reading(missing=("-1",)))
    assert found.labels == whole.labels and found.channels == whole.channels
    for one, other in zip([*found.values, *found.times], [*whole.values, *whole.times], strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.source["sha256"] != whole.source["sha256"]
    written(tmp_path, (tmp_path / "b.txt").read_text().replace("39", "40"), "b.txt")
    assert read_series(index, Reading()).source["sha256"] != found.source["sha256"]


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


def test_a_long_table_has_a_series_for_each_name_and_covariates_by_role_and_a_wide_one_for_each_column(tmp_path):
    found = read_series_table(long(tmp_path), Columns(known=("price",), fixed=("size",)))
    assert [one.name for one in found.series] == ["a", "b"] and found.frequency.name == "h" and not found.unused
    second = found.series[1]
    assert second.values[:3].tolist() == [1, 2.1, 3.2] and second.known[:3, 0].tolist() == [0, 1, 2]
    assert second.fixed.tolist() == [1] and second.past.shape == (60, 0)
    rows = [f"{moment},{step},{'' if step == 3 else -step}" for step, moment in enumerate(hours(30)) if step != 10]
    path = written(tmp_path, "date,up,down\n" + "\n".join(rows) + "\n")
    up, down = read_series_table(path, Columns()).series
    assert (up.name, down.name, len(up.values)) == ("up", "down", 30)
    assert [np.flatnonzero(np.isnan(one.values)).tolist() for one in (up, down)] == [[10], [3, 10]]
    one = read_series_table(path, Columns(target=("up",)))
    assert [series.name for series in one.series] == ["up"] and one.unused == ("down",)


def test_calendars_come_round_and_need_dates(tmp_path):
    times = pd.date_range("2024-01-01", periods=49, freq="h").to_numpy()
    found = calendar_features(times, ("hour-of-day", "day-of-week"))
    np.testing.assert_allclose(found[[0, 24], :2], [[0, 1]] * 2, atol=1e-6)
    assert np.allclose(found[0, 2:], [0, 1], atol=1e-6) and (found[0, 2:] != found[24, 2:]).any()
    numbers = written(tmp_path, "t,y\n" + "".join(f"{n},{n % 5}\n" for n in range(60)))
    refused("--calendar needs dates", task, numbers, calendar=("hour-of-day",), horizon=2)


GOOD = "unique_id,ds,y\n" + "".join(f"{name},{moment},{n}\n" for name in "ab" for n, moment in enumerate(hours(4)))
SECOND = "a,2024-01-01 01:00:00,1"
WRONG = [
    (SECOND, "a,2024-01-01 00:00:00,1", {}, "rows 1 and 2, column 'ds': series a has 2024-01-01 00:00:00 twice"),
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


def test_what_cannot_be_read_is_named(tmp_path):
    for old, new, columns, said in WRONG:
        path = written(tmp_path, GOOD.replace(old, new, 1) if old else GOOD)
        assert path.name in refused(re.escape(said), read_series_table, path, Columns(**columns))
    one = GOOD.replace("b,", "a,")
    refused(
        r"rows 1 and 5, column 'ds': .* has 2024-01-01 00:00:00 twice; give --duplicates first, last, mean or sum$",
        read_series_table,
        written(tmp_path, one),
        Columns(),
    )


def test_series_of_unequal_frequency_and_without_values_are_named(tmp_path):
    days = "".join(f"c,2024-01-{day:02d},1\n" for day in range(1, 6))
    empty = "".join(f"c,{moment},{missing}\n" for moment, missing in zip(hours(4), ("", "?", "nan", "NA"), strict=True))
    longer = "ds,y\n" + "".join(f"2024-01-{day:02d},{day}\n" for day in range(1, 31))
    for text, columns, said in (
        (GOOD + days, {}, "unequal frequency: a has h, c has D"),
        ("unique_id,ds,y\n" + empty, {}, "series c: all values are missing"),
        (GOOD, {"frequency": "often"}, "--frequency often: must be a step such as"),
        ("ds,y\n2024-01-01,1\n2024-01-02,2\n", {}, "no series has the three times"),
        (longer, {"frequency": "h"}, r"series y: no two of its times are one step apart \(h\): its own step is longer"),
    ):
        refused(said, read_series_table, written(tmp_path, text), Columns(**columns))
    assert read_series_table(tmp_path / "table.csv", Columns(frequency="D")).frequency.name == "D"
    some = read_series_table(written(tmp_path, GOOD + empty, "some.csv"), Columns())
    assert "c" not in [one.name for one in some.series] and "Left out, as all values are missing: c." in some.said
    refused("changes within series a, which is --fixed", read_series_table, long(tmp_path), Columns(fixed=("price",)))


def test_splits_are_by_time_and_every_label_of_a_part_is_forecast(tmp_path):
    data = task(long(tmp_path, 200), horizon=6, season=(24,), context=30, validation_steps=18, test_steps=20, stride=1)
    validation, test = data.evaluation["validation"], data.evaluation["test"]
    assert test.places[test.places[:, 0] == 0, 1].tolist() == list(range(180, 195))  # 20 - 6 + 1 origins, none left out
    assert validation.places[:, 1].max() + 6 == 180 and data.train.stop.tolist() == [162, 162]
    assert len(data.train.batch(0, 0, 0, 10_000)["labels"]) == len(data.train.training_places)
    last = data.train.collate(np.array([[0, max(data.train.training_places[:, 1])]]))["labels"]
    assert last.isnan().tolist() == [[False] + [True] * 5], "one step of training, and none of validation"
    for given, found in (((24, 1), [24]), ((48, 24, 24), [24, 48]), ((1, 1), [1])):
        assert task(long(tmp_path, 200), horizon=6, season=given).model_inputs["seasons"] == found
    rolled = task(long(tmp_path, 200), horizon=6, season=(24,), context=30, validation_steps=18, test_steps=20)
    assert rolled.evaluation["test"].places[:3, 1].tolist() == [182, 188, 194]
    shipped = task(None)  # the series that comes with a library
    assert "59 of 2,284 values are missing" in shipped.notes[-2] and shipped.model_inputs["seasons"] == [52]


def test_no_label_of_a_later_part_is_in_a_batch_of_an_earlier_one(tmp_path):
    """The values of the test part are replaced: nothing of training and validation may change."""
    given = {"horizon": 6, "season": (24,), "context": 30, "test_steps": 20}
    before, test = task(long(tmp_path, 200, name="a.csv"), **given), hours(200)[180]
    rows = [row.split(",") for row in (tmp_path / "a.csv").read_text().splitlines()]
    later = [[*row[:2], "1e6", *row[3:]] if test <= row[1] < "3" else row for row in rows]
    after = task(written(tmp_path, "\n".join(map(",".join, later)) + "\n", "b.csv"), **given)
    assert before.model_inputs == after.model_inputs
    for one, other in ((before.train, after.train), (before.evaluation["validation"], after.evaluation["validation"])):
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
    test = task(train, **given).evaluation["test"]
    assert test.places.tolist() == [[0, 60], [1, 60]] and (test.collate(test.places)["labels"] == 7).all()
    rest.write_text(rest.read_text().replace("2024-01-03 12:00", "2024-01-03 11:00", 1))
    refused("series a begins at", task, train, **given)
    rest.write_text("unique_id,ds,y,price,size\n" + more[0] + "\n" + "\n".join(more[1:5]) + "\n")
    refused("has no series b", task, train, **given)


def test_a_test_file_whose_times_are_of_another_kind_or_zone_is_refused(tmp_path):
    def of(times, name):
        return written(tmp_path, "\n".join(["ds,y", *(f"{time},{n * n % 7}" for n, time in enumerate(times))]), name)

    def days(offset):
        return [f"2024-01-{day:02d}T00:00{offset}" for day in range(1, 31)]

    plain, more = of(days(""), "train.csv"), of([f"2024-02-{day:02d}T00:00+09:00" for day in range(1, 11)], "test.csv")
    refused("; those before are dates", task, plain, test_file=more, horizon=5)
    zoned, other = (
        of(days("+09:00"), "zoned.csv"),
        of([f"2024-02-{day:02d}T00:00+01:17" for day in range(1, 11)], "other.csv"),
    )
    refused("no zone has both", task, zoned, test_file=other, horizon=5)


def test_roles_that_several_columns_could_have_are_asked_for(tmp_path):
    lines = [f"2024-01-{day:02d},2025-01-{day:02d},{day % 5},{day % 3},a" for day in range(1, 29)]
    path = written(tmp_path, "\n".join(["ds,date,y,z,id", *lines]) + "\n")
    refused("which column is the time\\? .* hold dates", read_series_table, path, Columns(target=("y",)))


def test_a_forecast_needs_the_future_of_known_covariates(tmp_path):
    columns, path = Columns(known=("price",)), long(tmp_path, 60)
    refused("column 'price' has no value at 2024-01-03 12:00", read_asked, path, columns, (), 30, 6)
    more = [f"{one},{moment},,{9},0" for one in "ab" for moment in hours(6, "2024-01-03 12:00")]
    path.write_text(path.read_text() + "\n".join(more) + "\n")
    asked = read_asked(path, columns, ("hour-of-day",), 30, 6)
    assert asked.origins.tolist() == [60, 60]
    assert asked.batch()["known_covariates"][0, -1].tolist()[0] == 9 and asked.batch()["past_values"].shape == (2, 30)


def test_a_column_of_dates_or_years_is_found_where_no_name_is_usual(tmp_path):
    fields = {"Datum": "2020-{:02d}-01", "start": "2019-{:02d}-01", "time": "2020-{:02d}-01", "menge": "{}"}
    for header, time in (("Datum,menge", "Datum"), ("year,menge", "year"), ("start,menge,time", "time"),
                         ("Year,menge,Datum", "Datum")):  # fmt: skip
        names = header.split(",")
        lines = [",".join(fields.get(name, "20{:02d}").format(month) for name in names) for month in range(1, 13)]
        path = written(tmp_path, "\n".join([header, *lines]) + "\n")
        assert read_series_table(path, Columns(target=("menge",))).columns.time == time
    path = written(tmp_path, "von,bis,menge\n2020-01-01,2020-01-31,1\n2020-02-01,2020-02-29,2\n")
    refused("which column is the time", read_series_table, path, Columns(target=("menge",)))


def test_series_that_are_too_short_or_in_which_no_error_can_be_scaled_are_refused(tmp_path):
    for value, given, said in (
        ("5.0", {}, r"flat\.csv: before the validation part every series is constant"),
        ("{step}", {"season": (150,)}, r"a season of 150 is no shorter than the 144 steps before the validation part"),
    ):
        lines = [f"{moment},{value.format(step=step, wave=step % 24)}" for step, moment in enumerate(hours(200))]
        refused(said, task, written(tmp_path, "\n".join(["ds,y", *lines]) + "\n", "flat.csv"), horizon=6, **given)
    for steps, given, said in (
        (
            40, {"horizon": 24, "test_steps": 24},
            "the longest, a, has 40 steps, and training, validation and test need 51; take a shorter",
        ),
        (200, {"horizon": 6, "test_steps": 3}, "no series has a test part as long as the horizon, 6"),
    ):  # fmt: skip
        refused(said, task, long(tmp_path, steps), season=(24,), **given)


@pytest.mark.parametrize(("steps", "parts"), [(40, {"test"}), (20, set()), (4, set())])
def test_series_too_short_for_a_part_are_trained_on_without_it(tmp_path, steps, parts):
    lines = [f"{2000 + n},{n * n % 7}" for n in range(steps)]
    data = task(written(tmp_path, "\n".join(["year,y", *lines]) + "\n"), horizon=24)
    assert data.evaluation.keys() == parts and data.train.stop.tolist() == [steps - 24 if parts else steps]
    assert sum("The series are too short for a" in note for note in data.notes) == 2 - len(parts)


@pytest.mark.parametrize(
    ("train_on", "stop", "parts"),
    [("train+validation", 80, set()), ("all", 100, set()), ("train", 72, {"validation", "test"})],
)
def test_more_parts_are_trained_on_where_they_shall(tmp_path, train_on, stop, parts):
    lines = [f"{1900 + n},{n * n % 7},{n}" for n in range(100)]
    data = task(
        written(tmp_path, "\n".join(["year,y,x", *lines]) + "\n"),
        target=("y",),
        past=("x",),
        horizon=5,
        train_on=train_on,
    )
    assert data.evaluation.keys() == parts and data.train.stop.tolist() == [stop]
    assert data.model_inputs["covariate_means"] == [np.arange(stop).mean()]


@pytest.mark.parametrize(
    ("values", "train_on", "counted"),
    [
        ([1, 0, 2], "train", True), ([1, 0.5, 2], "train", False), ([1, 0, -2], "train", False),
        ([*[1, 2] * 40, *[0] * 20], "train", False), ([*[1, 2] * 40, *[0] * 20], "all", True),
        ([*[0, 1] * 40, *[-1] * 20], "train", True), ([*[0, 1] * 40, *[-1] * 20], "all", False),
    ],
)  # fmt: skip
def test_series_with_zeros_and_nothing_below_are_counts_by_what_is_trained_on_alone(
    tmp_path, values, train_on, counted
):
    rows = "".join(f"{1900 + n},{values[n % len(values)]},{n % 7 - 9}\n" for n in range(100))
    table = written(tmp_path, "year,y,x\n" + rows)
    data = task(table, target=("y",), past=("x",), horizon=5, season=(1,), train_on=train_on)
    assert data.model_inputs["non_negative"] is counted
    assert any("no forecast is below 0" in note for note in data.notes) is counted


@pytest.mark.parametrize(
    ("season", "context"), [((24, 168), 252), ((24,), 120), ((50,), 200), ((90,), 256), ((168,), 336), ((1,), 120)]
)
def test_a_context_follows_from_the_seasons(season, context, tmp_path):
    assert task(long(tmp_path, 1000), horizon=6, season=season).train.context == context
    assert task(long(tmp_path, 1000), horizon=400, season=season).train.context > context, "two horizons, if there are"


def test_short_series_are_trained_on_and_those_that_are_long_enough_are_scored(tmp_path):
    lines = [f"{name},{2000 + n},{n * n % 7}" for name, count in (("a", 30), ("b", 9), ("c", 4)) for n in range(count)]
    data = task(written(tmp_path, "\n".join(["id,year,y", *lines]) + "\n"), horizon=4)
    assert data.train.stop.tolist() == [20, 5, 4] and data.train.context == 26
    for split, scored in (("validation", {0}), ("test", {0, 1})):
        assert set(data.evaluation[split].places[:, 0]) == scored
    batch = data.train.collate(data.train.training_places)
    assert batch["past_values"].shape == (3, 26) and (~batch["past_values"].isnan()).sum(1).tolist() == [19, 4, 3]


def test_a_column_that_no_flag_names_is_to_be_called_otherwise(tmp_path):
    table = written(tmp_path, "id,time,parameter,variable,value,label\na,1,x,y,2,up\n")
    refused(
        "which column is the parameter\\? several could be it .*; call one of them parameter$",
        read_series,
        table,
        Reading(),
    )
