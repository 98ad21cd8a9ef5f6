"""Files that are almost of their kind, drawn by hypothesis; and what may happen where one is read.

python tools/fuzz_readers.py [INPUTS [READER ...]]     so many inputs for each reader, 20,000 if not given
"""

import gzip
import io
import json
import logging
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy.io import wavfile

from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.files import read_file
from gatedrnn.errors import Error
from gatedrnn.tasks.forecast.table import Columns, read_series_table
from gatedrnn.tasks.images.read import _unpacked
from gatedrnn.tasks.series.files import Reading, read_series

TIMES = ("2024-01-01", "2024-01-02 18:00", "0001-01-01", "9999-12-31", "2024-13-01", "07:30", "99:59", "1e300", "inf")
ODD = st.sampled_from(
    ("1", "-2.5", "1e39", "1e400", "nan", "", " ", "NA", "0x1", "1_0", "1,5", "é", "\u2028", "\x0b", "\x00", "\r", '"',
     '""', "\t", ";", "[1]", "9" * 400, "²", *TIMES)
)  # fmt: skip
FIELDS = st.integers(0, 29).flatmap(lambda kind: st.integers(0, 9).map(str) if kind else ODD)
NAMES = st.sampled_from(
    ("id", "time", "ds", "y", "label", "text", " y", "value", "parameter", "file", "", "sep=;", "unique_id", "0", "x")
)
ENCODINGS = st.sampled_from((*["utf-8"] * 7, "utf-8-sig", "utf-16", "latin-1"))


@st.composite
def tables(draw: st.DrawFn, names: tuple[str, ...] = (), separators: str = ",,,;\t") -> bytes:
    """Separated fields, most rows as long as the first."""
    columns = [*names, *draw(st.lists(NAMES, max_size=3 if names else 6))]
    rows = draw(st.lists(st.lists(FIELDS, min_size=len(columns), max_size=len(columns)), max_size=8))
    if rows and draw(st.integers(0, 5)) == 0:
        rows[-1] = rows[-1][1:]
    separator, end = draw(st.sampled_from(separators)), draw(st.sampled_from(("\n", "\r\n", "\n\n")))
    text = draw(st.sampled_from(("", "", "", "sep=;\n"))) + end.join(map(separator.join, [columns, *rows]))
    return text.encode(draw(ENCODINGS), "replace")


@st.composite
def regular(draw: st.DrawFn) -> bytes:
    """A long table whose times are mostly a grid."""
    steps = draw(st.lists(st.integers(-1, 3), min_size=3, max_size=12))
    start, kind = draw(st.integers(-(10**6), 10**7)), draw(st.sampled_from(("D", "s", "M", "Y", "number")))
    times = start + np.cumsum(steps)
    shown = times / 3 if kind == "number" else times.astype(f"datetime64[{kind}]")
    lines = [f"{draw(st.sampled_from('ab'))},{time},{draw(FIELDS)}" for time in shown]
    return "\n".join(["unique_id,ds,y", *lines]).encode()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with bytes changed, cut out or put in."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, min(len(content) - 1, draw(st.sampled_from((50, 10_000)))))))
        piece = draw(st.binary(max_size=8))
        content[place : place + draw(st.sampled_from((0, len(piece), 30)))] = piece
    return bytes(content)


@st.composite
def ts(draw: st.DrawFn) -> bytes:
    """Lines of a header, and lines of series."""
    names = ("@dimensions", "@seriesLength", "@equalLength", "@univariate", "@classLabel", "@targetLabel", "@", "@data")
    words = ("true", "false", "2", "2.5", "", "a b", "²", "-1", "9" * 5000)
    lines = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(words)).map(" ".join), max_size=5))
    lines = [*lines, "@classLabel true a b", "@data"] if draw(st.booleans()) else ["@classLabel true a b", "@data"]
    fields = st.lists(FIELDS, max_size=4).map(",".join)
    lines += draw(st.lists(st.lists(fields, max_size=3).map(lambda parts: ":".join([*parts, "a"])), max_size=4))
    return "\n".join(lines).encode(draw(ENCODINGS), "replace")


def _wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    wavfile.write(file, 8000, samples)
    return file.getvalue()


def _parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", None], "label": ["x", "y"], "y": [1.5, 2.0]}), file)
    return file.getvalue()


ROWS = st.lists(st.dictionaries(NAMES, st.none() | st.booleans() | st.integers() | st.floats() | FIELDS | st.just([1])))
JSON = ROWS.map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
NESTED = st.integers(1, 4000).map(lambda depth: b'{"text": ' + b"[" * depth)
WAV = st.sampled_from([np.arange(40, dtype=kind).reshape(-1, 2) for kind in ("u1", "i2", "i4", "f4", "f8")]).flatmap(
    lambda samples: damaged(_wav(samples))
)
IMAGES = damaged(b"\0\0\x08\x03" + np.array([2, 2, 2], ">u4").tobytes() + bytes(8))
MEASURED = st.just(("id", "time", "parameter", "value", "label"))


def _recordings(path: Path) -> None:
    index = path.with_name("index.csv")
    index.write_text(f"file,label\n{path.name},a\n")
    for frames in ("log-mel", "samples"):
        read_series(index, Reading(frames=frames))


def _measured(path: Path) -> None:
    index = path.with_name("index.csv")
    index.write_text(f"file,label\n{path.name},a\n")
    read_series(index, Reading())


def _corpus(path: Path) -> None:
    list(read_corpus(path, None, None).pieces())


def _forecast(path: Path) -> None:
    read_series_table(path, Columns())


def _series(path: Path) -> None:
    read_series(path, Reading())


READERS: dict[str, tuple[str, st.SearchStrategy[bytes], Callable[[Path], Any]]] = {
    "texts": ("a.csv", tables(("text", "label")), lambda path: read_file(path)),
    "texts-tsv": ("a.tsv", tables(("text", "label"), "\t"), lambda path: read_file(path)),
    "texts-json": ("a.jsonl", JSON | NESTED | st.binary(), lambda path: read_file(path)),
    "texts-parquet": ("a.parquet", damaged(_parquet()), lambda path: read_file(path)),
    "series": ("a.csv", tables() | tables(("id", "time", "label")), _series),
    "series-tsv": ("a.tsv", tables() | st.lists(FIELDS).map(lambda row: "\t".join(row).encode()), _series),
    "ts": ("a.ts", ts(), _series),
    "ts-packed": ("a.ts.gz", ts().flatmap(lambda content: damaged(gzip.compress(content))), _series),
    "recordings": ("a.wav", WAV, _recordings),
    "measurements": ("a.csv", MEASURED.flatmap(tables), _series),
    "measurement-files": ("a.txt", tables(("time", "parameter", "value")), _measured),
    "forecasts": ("b.csv", tables() | tables(("ds", "y")) | regular(), _forecast),
    "corpora": ("a.txt", st.binary() | st.lists(FIELDS, min_size=1).map(lambda own: " \n".join(own).encode()), _corpus),
    "corpora-json": ("a.jsonl", JSON | NESTED, _corpus),
    "images": ("a", IMAGES, lambda path: _unpacked(path, b"\0\0\x08\x03")),
}
"""The readers by name: the file, a strategy of its content, and the function that reads it."""


def fuzz(reader: str, inputs: int, folder: Path) -> int:
    """Let a reader have so many files; how many it read. Anything but an error of ours leaves it as it is."""
    name, contents, read = READERS[reader]
    done = 0

    @settings(
        max_examples=inputs, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(contents)
    def once(content: bytes) -> None:
        nonlocal done
        (folder / name).write_bytes(content)
        try:
            read(folder / name)
            done += 1
        except Error as error:
            assert "\n" not in str(error) and len(str(error)) < 2_000, error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        once()
    return done


if __name__ == "__main__":
    logging.disable()  # what is left out of a table is said
    inputs, failed = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, 0
    for reader in sys.argv[2:] or READERS:
        with tempfile.TemporaryDirectory() as place:
            try:
                print(f"{reader}: {inputs:,} inputs, {fuzz(reader, inputs, Path(place)):,} read", flush=True)
            except BaseException:  # hypothesis joins several faults into a group
                failed += 1
                print(f"{reader}: FAILS\n{traceback.format_exc(limit=-6)}", flush=True)
    sys.exit(bool(failed))
