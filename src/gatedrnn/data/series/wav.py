"""Recordings: WAV files named by a table, as samples or as frames of a spectrum."""

import hashlib
import warnings
from pathlib import Path

import numpy as np
from scipy.fft import dct
from scipy.io import wavfile
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann

from gatedrnn.data.files import LABEL_COLUMNS, labels_in_column
from gatedrnn.data.series.fields import LARGEST, LabelledSeries
from gatedrnn.data.settings import Frames
from gatedrnn.data.tables import column_of, read_all_columns, said_columns
from gatedrnn.errors import DataError, reason

FILE_COLUMNS = ("file", "path", "wav", "filename", "file_name", "audio")
WINDOW, HOP = 0.025, 0.010
"""Seconds that a frame covers, and from one frame to the next."""
SHORTEST = 4
"""Samples of a frame at least: the window is 0 at both ends, and of less than two others there is no spectrum."""
FASTEST = 1_000_000
"""Samples a second at most, which a spectrum's memory grows with: more are a wrong header, or no sound."""
MELS, COEFFICIENTS = 40, 20
"""Bands of a spectrum on the mel scale, and of its cosine transform those that are kept."""
FLOOR = 1e-6
"""Added to energies before their logarithm."""


def read_recordings(
    path: Path, label_column: str | None, frames: Frames, data_root: Path | None = None, *, labelled: bool = True,
    quoting: bool = False,
) -> LabelledSeries:  # fmt: skip
    """The recordings that a table names, a row each; see `named_file`.

    Raises:
        DataError: a file is missing, broken or of another rate than the first; the row is named.
    """
    data = read_all_columns(path, quoting=quoting)
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
    size, hop = round(WINDOW * rate), round(HOP * rate)
    if rate > FASTEST:
        raise DataError(
            f"{where}: has {rate:,} samples a second; frames are made of {FASTEST:,} at most; give --frames samples"
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
