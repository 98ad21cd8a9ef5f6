"""Files of series in formats of their own: recordings, named by a table; and those of the UCR and UEA archives: a row a
series without names, its class first, or .ts: a header of @ lines, then a series a line.

    @dimensions 2
    @classLabel true sit run
    @data
    0.1,0.2,0.3:5,?,6:sit

Colons separate channels, commas values; ? and NaN are missing; the label comes last.
"""

import hashlib
import re
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from gatedrnn.data.files import LABEL_COLUMNS, labels_in_column
from gatedrnn.data.settings import Frames
from gatedrnn.errors import DataError, reason
from gatedrnn.tables.dialect import SEPARATORS
from gatedrnn.tables.files import column_of, fields_of, said_columns
from gatedrnn.tables.numbers import LARGEST, SHOWN, is_number, number_of, numbers_in_column, numbers_of
from gatedrnn.tables.options import MISSING, PLAIN, Fields
from gatedrnn.tables.table import Table, type_kept
from gatedrnn.tasks.series.fields import LabelledSeries
from gatedrnn.unpacking import BoundedGzip

TRUE, FALSE = "true", "false"
ABSENT = ("?", "nan")
COUNTS = ("dimensions", "dimension", "serieslength")
"""Lines of the header that hold a whole number."""


def read_ts(path: Path, *, labelled: bool = True) -> LabelledSeries:
    """The series of a .ts or .ts.gz file, which may be of unequal lengths.

    Raises:
        DataError: it is missing, no text, without a label, or not what its header says; the line and the channel are
            named.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    header: dict[str, list[str]] = {}
    values, labels, places = list[np.ndarray](), list[str](), list[str]()
    begun = False
    for number, line in _lines(path):
        if not begun and line.startswith("@"):
            name, *words = line[1:].split() or [""]
            begun = name.lower() == "data"
            header[name.lower()] = words
            if not name:
                raise DataError(f"{path}: line {number}: has no name after its @")
            if name.lower() in COUNTS and (len(words) != 1 or not words[0].isdecimal()):
                got = " ".join(words)[:SHOWN] or "nothing"
                raise DataError(f"{path}: line {number}: @{name} must be followed by a whole number, got {got}")
        elif begun:
            place = f"line {number}"
            if labelled and not _has_labels(header):
                raise DataError(
                    f"{path}: {place}: the header promises no label (@classLabel true, or @targetLabel true)"
                )
            series, label = _series(f"{path}: {place}", line, header, values)
            values.append(series)
            labels += [] if label is None else [label]
            places.append(place)
        else:
            raise DataError(f"{path}: line {number}: must begin with @ before @data, got {line[:30]!r}")
    if not values:
        raise DataError(f"{path}: there are no series in it" if begun else f"{path}: has no @data line; no .ts file")
    named = header.get("classlabel", [])[1:]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LabelledSeries(
        values, labels, tuple(named) or None, tuple(str(n) for n in range(values[0].shape[1])), places,
        {"name": path.name, "rows": len(values), "sha256": digest},
    )  # fmt: skip


def is_regression(path: Path) -> bool:
    """Whether the labels of such a file are numbers, by its header."""
    header: dict[str, list[str]] = {}
    for _, line in _lines(path):
        name, *words = line[1:].split() or [""]
        if not line.startswith("@") or name.lower() == "data":
            break
        header[name.lower()] = words
    return _is(header, "targetlabel")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered from 1, without comments and empty lines."""
    try:
        content = BoundedGzip(path).read() if path.suffix == ".gz" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as .ts: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", "%")):
            yield number, line.strip()


def _series(
    where: str, line: str, header: dict[str, list[str]], before: list[np.ndarray]
) -> tuple[np.ndarray, str | None]:
    """One line as (time, channels) and its label."""
    if _is(header, "timestamps"):
        raise DataError(f"{where}: series with time stamps are not read; give a table with a row a time")
    parts = line.split(":")
    label = parts.pop().strip() if _has_labels(header) else None
    dimensions = 1 if _is(header, "univariate") else int(header.get("dimensions", header.get("dimension", ["0"]))[0])
    if dimensions and len(parts) != dimensions:
        raise DataError(f"{where}: the header says {dimensions} channels, the line has {len(parts)}")
    if before and len(parts) != before[0].shape[1]:
        raise DataError(f"{where}: has {len(parts)} channels, the first series has {before[0].shape[1]}")
    if not parts:
        raise DataError(f"{where}: holds a label and no values")
    channels = [_numbers(f"{where}, channel {number}", part) for number, part in enumerate(parts, start=1)]
    lengths = {len(channel) for channel in channels}
    if len(lengths) > 1:
        raise DataError(f"{where}: channels of unequal lengths, {' and '.join(map(str, sorted(lengths)))}")
    series = np.stack(channels, axis=1)
    length = header.get("serieslength")
    if _is(header, "equallength") and length is not None and int(length[0]) != len(series):
        raise DataError(f"{where}: has {len(series)} values, the header says {length[0]}")
    if [word.lower() for word in header.get("missing", [])] == [FALSE] and np.isnan(series).any():
        raise DataError(f"{where}: a value is missing, and the header says that none is")
    named = header.get("classlabel", [])[1:]
    if named and label is not None and label not in named:
        raise DataError(f"{where}: the label {label!r} is none of the header's: {', '.join(named)}")
    return series, label


def _numbers(where: str, text: str) -> np.ndarray:
    fields = [field.strip() for field in text.split(",")]

    def place(value: int) -> str:
        return f"{where}, value {value + 1}"

    return np.array([
        np.nan if field.lower() in ABSENT else number_of(field, place, value) for value, field in enumerate(fields)
    ])  # fmt: skip


def _has_labels(header: dict[str, list[str]]) -> bool:
    return _is(header, "classlabel") or _is(header, "targetlabel")


def _is(header: dict[str, list[str]], name: str) -> bool:
    return [word.lower() for word in header.get(name, [])[:1]] == [TRUE]


FEWEST = 3
"""Fields of such a row."""


def is_unnamed(path: Path) -> bool:
    """Whether the first row of a CSV or TSV file holds values and no names: numbers, after a number or a word. Whole
    numbers after a word are names, such as years, and so are 0, 1, 2 …, which pandas gives to columns without one."""
    if path.suffix.lower() not in SEPARATORS or not path.is_file():
        return False
    first = next((row for _, row in fields_of(path, rows=1)), [])
    if len(first) < FEWEST or first == [str(number) for number in range(len(first))]:
        return False
    numbers = [float(field) for field in first[1:] if is_number(field)]
    others = [field for field in first[1:] if not is_number(field) and field.strip().lower() not in MISSING]
    return not others and (is_number(first[0]) or not all(map(float.is_integer, numbers)))


_EXPONENT = re.compile(r"[+-]?\d\.\d+e\+\d+")
"""A class that may be a whole number, as the UCR archive's first form writes it: 1.0000000e+00."""


def read_unnamed(path: Path, fields: Fields = PLAIN) -> LabelledSeries:
    """The series of such a file. Missing values at the end of a row are no part of its series, which is shorter.

    Raises:
        DataError: a field is no number, or a row has no class or no value; line and field are named.
    """
    values, labels, places = list[np.ndarray](), list[str](), list[str]()
    for line, row in fields_of(path):
        label = row[0].strip()
        if not label:
            raise DataError(f"{path}: line {line}, field 1: there is no class")
        label = f"{float(label):g}" if _EXPONENT.fullmatch(label) and float(label).is_integer() else label
        numbers = numbers_of(row[1:], partial(_place, path, line), fields)
        seen = np.flatnonzero(~np.isnan(numbers))
        if not len(seen):
            raise DataError(f"{path}: line {line}: there is no value after the class")
        values.append(numbers[: seen[-1] + 1, None])
        labels.append(label)
        places.append(f"line {line}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LabelledSeries(
        values, labels, None, ("0",), places, {"name": path.name, "rows": len(values), "sha256": digest}
    )


def read_curves(
    data: Table, steps: list[str], label_column: str | None, fields: Fields = PLAIN, *,
    labelled: bool = True,
) -> LabelledSeries:  # fmt: skip
    """The series of a table with a row a series, whose columns are its steps: x_1, x_2 and so on. Missing values at the
    end of a row are no part of its series.

    Args:
        data: the table.
        steps: the columns of steps.
        label_column: the column of labels; guessed if None.
        fields: how they are read.
        labelled: whether every series must have a label.

    Raises:
        DataError: a field is no number, or a row has no value or no label; row and column are named.
    """
    place, names = data.place, [name for name in data.column_names if name not in steps]
    label = None
    if labelled or label_column in names or any(name.lower() in LABEL_COLUMNS for name in names):
        label = column_of(names, place, "label", label_column, LABEL_COLUMNS)
    labels, label_names = ([], None) if label is None else labels_in_column(data, place, label)
    columns = [numbers_in_column(data, name, fields) for name in steps]
    values = list[np.ndarray]()
    for row, numbers in enumerate(np.stack(columns, axis=1), start=1):
        seen = np.flatnonzero(~np.isnan(numbers))
        if not len(seen):
            raise DataError(f"{place}: row {row}: there is no value in it")
        values.append(numbers[: seen[-1] + 1, None])
    roles = {f"steps {steps[0]!r} to": steps[-1], "label": label}
    shown = [steps[-1], *names]
    return LabelledSeries(
        values, labels, label_names, ("0",), [f"row {row}" for row in range(1, len(values) + 1)],
        {"name": data.name, "rows": len(values), "sha256": data.sha256}, types=data.types,
        label_type=type_kept(data.types.get(label or "")), said=said_columns(data.name, roles, shown),
    )  # fmt: skip


def _place(path: Path, line: int, field: int) -> str:
    return f"{path}: line {line}, field {field + 2}"


FILE_COLUMNS = ("file", "path", "wav", "filename", "file_name", "audio")
WINDOW, HOP = 0.025, 0.010
"""Seconds that a frame covers, and from one frame to the next."""
SHORTEST = 4
"""Samples of a frame at least: the window is 0 at both ends, and of less than two others there is no spectrum."""
_FASTEST = 1_000_000
"""Samples a second at most, which a spectrum's memory grows with: more are a wrong header, or no sound."""
MELS, COEFFICIENTS = 40, 20
"""Bands of a spectrum on the mel scale, and of its cosine transform those that are kept."""
FLOOR = 1e-6
"""Added to energies before their logarithm."""


def read_recordings(
    path: Path, data: Table, label_column: str | None, frames: Frames, data_root: Path | None = None, *,
    labelled: bool = True,
) -> LabelledSeries:  # fmt: skip
    """The recordings that a table names, a row each; see `named_file`.

    Raises:
        DataError: a file is missing, broken or of another rate than the first; the row is named.
    """
    column = column_of(data.column_names, str(path), "file", None, FILE_COLUMNS)
    labels, names, label = list[str](), None, None
    if labelled or any(name.lower() in LABEL_COLUMNS for name in data.column_names):
        label = column_of(data.column_names, str(path), "label", label_column, LABEL_COLUMNS)
        labels, names = labels_in_column(data, str(path), label)
    values, rate, digest = list[np.ndarray](), None, hashlib.sha256(path.read_bytes())
    for row, name in enumerate(data[column], start=1):
        where = f"{path}: row {row}, column {column!r}: {name}"
        file = named_file(path, name, data_root, where)
        samples, rate_of_file = _read(where, file)
        if rate is not None and rate_of_file != rate:
            raise DataError(f"{where}: has {rate_of_file:,} samples a second, the first recording has {rate:,}")
        rate = rate_of_file
        digest.update(file.read_bytes())
        values.append(_framed(where, samples, rate_of_file, frames))
    if not values:
        raise DataError(f"{path}: there are columns but no rows")
    dtype = np.result_type(*{recording.dtype for recording in values})
    values = [recording.astype(dtype, copy=False) for recording in values]
    channels = tuple(str(number) for number in range(values[0].shape[1]))
    return LabelledSeries(
        values, labels, names, channels, [str(name) for name in data[column]],
        {"name": path.name, "rows": len(values), "sha256": digest.hexdigest()}, rate=rate, column=column,
        names=[str(name) for name in data[column]],
        said=said_columns(path.name, {"file": column, "label": label}, data.column_names),
    )  # fmt: skip


def named_file(table: Path, name: str, data_root: Path | None, where: str) -> Path:
    """A file that a table names: below the table's folder, or below another that the user has named, links resolved.

    Raises:
        DataError: it lies elsewhere, or there is none; whoever made the table does not choose what is read here.
    """
    root = (data_root or table.parent).resolve()
    file = (root / name).resolve()
    if not file.is_relative_to(root):
        whose = "the table's folder" if data_root is None else f"--data-root {data_root}"
        raise DataError(f"{where}: lies outside {whose}; give a folder above it with --data-root")
    if not file.is_file():
        raise DataError(f"{where}: no such file")
    return file


def _read(where: str, file: Path) -> tuple[np.ndarray, int]:
    """Samples from -1 to 1, (time,), the channels' mean, and how many there are in a second; float64 where those of the
    file do not fit float32."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of chunks that say nothing about the samples
            warnings.filterwarnings("error", "Reached EOF prematurely", wavfile.WavFileWarning)  # a file cut short
            rate, samples = wavfile.read(file)
    except UnboundLocalError as error:  # scipy's variable of the samples
        raise DataError(f"{where}: cannot be read as WAV: there is no data chunk in it") from error
    except Exception as error:  # scipy's reader lets through whatever a wrong header leads to
        raise DataError(f"{where}: cannot be read as WAV: {reason(error)}") from error
    if not samples.size or rate < 1:
        raise DataError(f"{where}: there are no samples in it")
    wave = samples.astype(np.result_type(samples.dtype, np.float32))
    if np.issubdtype(samples.dtype, np.unsignedinteger):
        wave = (wave - 128) / 128
    elif np.issubdtype(samples.dtype, np.integer):
        wave = wave / wave.dtype.type(np.iinfo(samples.dtype).max)
    wave = wave.mean(1) if wave.ndim > 1 else wave
    wrong = np.flatnonzero(~(np.abs(wave) <= LARGEST))
    if len(wrong):
        raise DataError(f"{where}: sample {wrong[0] + 1:,} is {wave[wrong[0]]}, not a number that is read")
    return wave, int(rate)


def _framed(where: str, samples: np.ndarray, rate: int, frames: Frames) -> np.ndarray:
    """(time, features); float32 where they are frames of a spectrum."""
    if frames == "samples":
        return samples[:, None]
    from scipy.fft import dct  # half a second of imports, which recordings alone need
    from scipy.signal import ShortTimeFFT
    from scipy.signal.windows import hann

    size, hop = round(WINDOW * rate), round(HOP * rate)
    if rate > _FASTEST:
        raise DataError(
            f"{where}: has {rate:,} samples a second; frames are made of {_FASTEST:,} at most; give --frames samples"
        )
    if size < SHORTEST:
        raise DataError(
            f"{where}: has {rate} samples a second, too few for frames of {1000 * WINDOW:g} ms; give --frames samples"
        )
    padded = np.pad(samples, (0, max(0, size - len(samples))))
    transform = ShortTimeFFT(hann(size), hop, rate, fft_mode="onesided", mfft=1 << (size - 1).bit_length())
    energies = transform.spectrogram(padded).T @ _mel_bands(transform.f)
    logarithms = np.log(energies + FLOOR)
    features = logarithms if frames == "log-mel" else dct(logarithms, norm="ortho")[:, :COEFFICIENTS]
    if not np.isfinite(features).all():
        raise DataError(f"{where}: its samples are too large for a spectrum; they should lie between -1 and 1")
    return np.asarray(features, np.float32)


def _mel_bands(frequencies: np.ndarray) -> np.ndarray:
    """(frequencies, bands): triangles equally wide on the mel scale, 2595 log10(1 + f / 700)."""
    edges = 700 * (10 ** (np.linspace(0, np.log10(1 + frequencies[-1] / 700), MELS + 2)) - 1)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies[:, None] - low) / (middle - low), (high - frequencies[:, None]) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling))
