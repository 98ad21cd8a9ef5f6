"""Files of series: what is read from them, and one line that names file, row and column for what cannot be."""

import gzip
import re

import numpy as np
import torch
from scipy.io import wavfile
from text_files import refused

from gatedrnn.data import data_settings
from gatedrnn.data.series.files import demand_rate, named_files
from gatedrnn.data.series.long import read_long
from gatedrnn.data.series.task import load_series_task
from gatedrnn.data.series.ts import read_ts
from gatedrnn.data.series.wav import read_recordings
from gatedrnn.models import GatedRNNConfig
from gatedrnn.models.modeling import ChannelScale

HEADER = "@problemName p\n@univariate false\n@dimensions 2\n@equalLength false\n@classLabel true sit run\n@data\n"
LONG = "unique_id,ds,load,heat,label\n" + "".join(
    f"{name},2024-01-{day:02d} 18:00,{day},{'' if day == 2 else day / 2},{label}\n"
    for name, label in (("a", "up"), ("b", "down"))
    for day in (1, 2, 3)
)


def written(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_ts_file_has_channels_labels_and_missing_values(tmp_path):
    path = written(tmp_path, "a.ts", f"# a comment\n{HEADER}1,2,3:4,?,6:sit\n7:NaN:run\n")
    found = read_ts(path)
    assert [values.shape for values in found.values] == [(3, 2), (1, 2)] and found.labels == ["sit", "run"]
    np.testing.assert_array_equal(found.values[0], [[1, 4], [2, np.nan], [3, 6]])
    assert found.label_names == ("sit", "run") and found.source["rows"] == 2
    packed = tmp_path / "a.ts.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_ts(packed).values[0], found.values[0])


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
    ("@problemName p\n", "has no @data line"),
]
WRONG_LONG = [
    ("unique_id", "who", "which column is the series? none has a usual name; name it with --series-column"),
    ("ds,load", "ds,time", "which column is the time? several could be it (ds, time)"),
    ("load,heat", "id,heat", "which column is the series? several could be it (unique_id, id)"),
    ("a,2024-01-02", "a,2023-01-02", "row 2, column 'ds': series a has 2023-01-02 18:00 after a later one"),
    ("a,2024-01-02", "a,2024-01-01", "row 2, column 'ds': series a has 2024-01-01 18:00 twice"),
    ("a,2024-01-02 18:00", "a,soon", "row 2, column 'ds': 'soon' is neither a number nor a date"),
    (":00,2,", ":00,two,", "row 2, column 'load': must be a number, got 'two'"),
    (":00,2,", ":00,inf,", "row 2, column 'load': inf is infinite"),
    ("2,,up", "2,,down", "row 2, column 'label': series a has the labels up and down"),
]


def test_a_file_with_a_fault_is_refused_with_its_line_or_row_and_column(tmp_path):
    wrong = [(read_ts, "a.ts", text, said) for text, said in WRONG_TS]
    wrong += [(read_long, "a.csv", LONG.replace(old, new, 1), said) for old, new, said in WRONG_LONG]
    for read, name, text, said in wrong:
        assert str(tmp_path / name) in refused(re.escape(said), read, written(tmp_path, name, text))
    (tmp_path / "cut.ts.gz").write_bytes(gzip.compress(HEADER.encode())[:-6])
    (tmp_path / "bytes.ts").write_bytes(b"\xff\xfe\x00")
    for name, said in (("cut.ts.gz", "cannot be read"), ("bytes.ts", "cannot be read"), ("no.ts", "no such file")):
        refused(said, read_ts, tmp_path / name)


def test_a_long_table_has_a_series_for_each_name(tmp_path):
    found = read_long(written(tmp_path, "a.csv", LONG))
    assert found.channels == ("load", "heat") and found.labels == ["up", "down"] and len(found.values) == 2
    np.testing.assert_array_equal(found.values[0], [[1, 0.5], [2, np.nan], [3, 1.5]])


def recordings(folder, rate=8000):
    """Four tones, a class for the low and one for the high."""
    lines = ["file,label"]
    for number, pitch in enumerate((200, 210, 800, 820)):
        samples = np.sin(2 * np.pi * pitch * np.arange(2000 + 100 * number) / 8000)
        pcm = (20_000 * samples).astype(np.int16)
        wavfile.write(folder / f"{number}.wav", rate if number == 2 else 8000, pcm)
        lines.append(f"{number}.wav,{'low' if pitch < 500 else 'high'}")
    return written(folder, "all.csv", "\n".join(lines) + "\n")


def test_recordings_are_samples_or_frames_whose_bands_tell_the_pitch(tmp_path):
    path = recordings(tmp_path)
    assert named_files(path) == "0.wav" and named_files(written(tmp_path, "a.csv", LONG)) is None
    samples = read_recordings(path, None, "samples")
    assert samples.values[0].shape == (2000, 1) and 0.59 < samples.values[0].max() < 0.62
    bands = read_recordings(path, None, "log-mel")
    assert bands.values[0].shape[1] == 40 and 20 < len(bands.values[0]) < 32
    low, high = (bands.values[row].mean(0).argmax() for row in (0, 3))
    assert low < high
    assert read_recordings(path, None, "mfcc").values[0].shape[1] == 20


def test_a_recording_with_a_fault_is_refused_with_its_row(tmp_path):
    path = recordings(tmp_path, rate=16_000)
    refused(
        r"row 3, column 'file': 2\.wav: has 16,000 samples a second, the first", read_recordings, path, None, "samples"
    )
    path = recordings(tmp_path)
    whole = (tmp_path / "1.wav").read_bytes()
    for broken in (whole[: len(whole) // 2], b"RIFF", b""):
        (tmp_path / "1.wav").write_bytes(broken)
        refused(r"row 2, column 'file': 1\.wav: cannot be read as WAV", read_recordings, path, None, "samples")
    (tmp_path / "1.wav").unlink()
    refused(r"row 2, column 'file': 1\.wav: no such file", read_recordings, path, None, "samples")


def test_recordings_need_no_labels_where_none_are_asked_for_and_keep_their_rate(tmp_path):
    recordings(tmp_path)
    path = written(tmp_path, "unlabelled.csv", "file\n3.wav\n0.wav\n")
    found = read_recordings(path, None, "samples", labelled=False)
    assert (found.rate, found.column, found.names, found.labels) == (8000, "file", ["3.wav", "0.wav"], [])
    refused("which column is the label", read_recordings, path, None, "samples")
    demand_rate(found, 8000, "new.csv")
    refused(
        r"new\.csv: has recordings of 8,000 samples a second; training had 16,000",
        demand_rate,
        found,
        16_000,
        "new.csv",
    )


def task(folder, text, **settings):
    file = written(folder, "train.ts", text)
    return load_series_task(data_settings("series-classification", train_file=file, **settings))


def many(missing=""):
    """Forty series of two channels; in every third, a value of the first is missing."""
    third = [missing if missing and n % 3 == 0 else str(n + 2) for n in range(40)]
    return HEADER + "".join(f"{n},{n + 1},{third[n]}:{-n},{n},0:{'sit' if n % 2 else 'run'}\n" for n in range(40))


def test_the_model_keeps_the_scale_of_the_training_split_and_a_flag_where_a_value_is_missing(tmp_path):
    data = task(tmp_path, many())
    assert data.model_inputs["input_size"] == 2 and data.model_inputs["flagged_channels"] == []
    config = GatedRNNConfig(**data.model_inputs, num_labels=2)
    whole = torch.cat([ChannelScale(config)(torch.from_numpy(inputs)) for inputs in data.train.inputs])
    np.testing.assert_allclose([whole.mean(0), whole.std(0, correction=0)], [[0, 0], [1, 1]], atol=1e-5)
    assert {split: len(data.evaluation[split].inputs) for split in data.evaluation} == {"validation": 4, "test": 8}
    flagged = task(tmp_path, many("?"))
    assert flagged.model_inputs["flagged_channels"] == [0]
    scale = ChannelScale(GatedRNNConfig(**flagged.model_inputs, num_labels=2))
    read = scale(torch.tensor([[[np.nan, 1.0], [2.0, 1.0]]]))
    assert read.shape == (1, 2, 3) and read[0, :, 2].tolist() == [0.0, 1.0] and read[0, 0, 0] == 0
    assert "Values are missing in 0;" in " ".join(flagged.notes)


def test_a_test_file_must_have_the_labels_and_channels_of_the_training_file(tmp_path):
    other = written(tmp_path, "test.ts", HEADER.replace("run", "swim") + "1:2:swim\n")
    refused(r"test\.ts: line 7: the label 'swim' is in no training series", task, tmp_path, many(), test_file=other)
    other = written(tmp_path, "test.ts", HEADER.replace("2\n", "3\n") + "1:2:3:run\n")
    refused(r"test\.ts: has the channels 0, 1, 2; training had 0, 1", task, tmp_path, many(), test_file=other)


def test_what_cannot_be_learned_is_refused(tmp_path):
    refused("no test split can be set apart", task, tmp_path, HEADER + "1:2:run\n1:3:sit\n")
    refused(
        "channel '1': all values are missing",
        task,
        tmp_path,
        HEADER + "".join(f"{n}:?:{'sit' if n % 2 else 'run'}\n" for n in range(40)),
    )
    one_class = HEADER + "1,2,3:4,5,6:sit\n" * 20
    refused(r"every training series has the label 'sit'; at least two are needed", task, tmp_path, one_class)
    refused("needs --train-file", load_series_task, data_settings("series-classification"))
