"""Data that a caller has in memory as tables that tasks read: frames, arrays, texts, Hugging Face data sets; and tables
of predictions, as frames and files.

Data to train on are also written into the run's folder as Parquet, so that a run is continued from its folder alone and
the command line gives the same numbers from the same file.
"""

import csv
import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gatedrnn.data.settings import LANGUAGE, SERIES, SERIES_REGRESSION, TEXT, TEXT_REGRESSION
from gatedrnn.errors import DataError, FolderTaken, reason
from gatedrnn.records import Json, written_beside
from gatedrnn.tables.files import Source, missing, remember
from gatedrnn.tables.numbers import is_number
from gatedrnn.tables.table import Table, type_kept, with_whole_characters, without_periods

LOG = logging.getLogger("gatedrnn")
Data: TypeAlias = Any
"""A path, a frame, a mapping of columns, arrays, lists of texts, or a Hugging Face data set; see `in_memory`."""
Frame: TypeAlias = Any
"""A data frame of pandas, polars or pyarrow."""
SPLITS = ("train", "validation", "test")
SHOWN = 40
"""Characters of a value in a message, at most."""
SERIES_COLUMN, TIME_COLUMN, LABEL_COLUMN, TEXT_COLUMN = "series", "time", "label", "text"


@dataclass(frozen=True, eq=False)
class InMemory:
    """Tables of a caller by split, and what their form says."""

    tables: dict[str, pa.Table]
    task: str | None = None
    """The task that the form is for; None where columns tell it."""
    settings: dict[str, Json] = field(default_factory=dict)
    """Settings of the task that the form decides."""
    backend: str = "pandas"
    """The library that frames for this caller are of."""

    def digest(self) -> str:
        """A sum over all that the tables hold."""
        sums = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode())
        for split, table in self.tables.items():
            with pa.BufferOutputStream() as sink:
                pq.write_table(table, sink)
                sums.update(split.encode() + sink.getvalue())
        return sums.hexdigest()

    def write(self, folder: Path, *, replace: bool = False) -> dict[str, Json]:
        """Write the tables into a folder, where they are not already, and return the settings that name them.

        Args:
            folder: it is made if it is not there.
            replace: whether others there may go.

        Raises:
            FolderTaken: it holds others.
        """
        folder.mkdir(parents=True, exist_ok=True)
        named: dict[str, Json] = {**self.settings}
        for split, table in self.tables.items():
            file = folder / f"{split}.parquet"
            with written_beside(file) as new:
                pq.write_table(table, new)
                if not replace and file.exists() and file.read_bytes() != new.read_bytes():
                    raise FolderTaken(f"{folder}: holds a run with other data; give another output")
            remember(file, table)
            named[f"{split}_file"] = str(file.resolve())
        return named


def in_memory(data: Data) -> InMemory | None:
    """Turn what a caller gives into tables; None for a path, or for nothing.

    Args:
        data: a frame of pandas, polars or pyarrow, or a mapping of columns (an index that is not a count of rows
            becomes columns); a `datasets.Dataset` or `DatasetDict` with train, validation and test; a pair of series
            or texts and their labels; a list, array or column of texts, as running text. Series are (series, time),
            (series, channels, time), a frame with a row a series, or a list of (time,) or (time, channels); NaN where
            nothing was measured.

    Raises:
        DataError: it is none of these, or does not fit into columns.
    """
    if data is None or isinstance(data, str | Path):
        return None
    if isinstance(data, Mapping) and _is_dataset(next(iter(data.values()), None)):
        return InMemory({split: _of_dataset(data[split]) for split in SPLITS if split in data})
    if _is_dataset(data):
        return InMemory({"train": _of_dataset(data)})
    if _is_pair(data):
        return _labelled(*data)
    if (texts := texts_of(data)) is not None:
        return InMemory({"train": pa.table({TEXT_COLUMN: with_whole_characters(texts, "texts")})}, LANGUAGE)
    table, backend = table_of(data)
    return InMemory({"train": table}, backend=cast(Any, backend))


@dataclass(frozen=True, eq=False)
class NewData:
    """Data that a finished model predicts or scores."""

    source: Source
    """A file, or a table in memory; of series in memory, their numbers."""
    series: list[np.ndarray] | None = None
    """Series in memory, each (time, channels)."""
    labels: Sequence[str] | None = None
    """A label of each series, as text."""
    backend: str = "pandas"
    """The library that frames for this caller are of."""
    text_column: str | None = None
    """The column of texts, where the data are texts without a table."""


def new_data(data: Data) -> NewData:
    """A caller's data to be predicted or scored.

    Args:
        data: as `in_memory` takes them, with labels or without.

    Raises:
        DataError: as there.
    """
    if isinstance(data, str | Path):
        if " " in str(data) and not Path(data).suffix and not Path(data).exists():
            raise DataError(f"{str(data)[:SHOWN]!r}: no such file; a text is given in a list, as one of several")
        return NewData(Path(data))
    first, labels = data if _is_pair(data) else (data, None)
    if is_frame(first) and (labels is not None or _is_nameless(first)) and _texts_of_frame(first) is None:
        first = _rows_of_numbers(first)
    if is_series(first):
        numbers = Table({SERIES_COLUMN: list(range(len(first)))}, place=SERIES_COLUMN, name=SERIES_COLUMN)
        return NewData(numbers, as_series(first), None if labels is None else _as_text(label_array(labels)))
    held = in_memory(data)
    assert held is not None
    table = Table.of_arrow(next(iter(held.tables.values())))
    return NewData(table, backend=held.backend, text_column=None if held.task is None else TEXT_COLUMN)


@contextmanager
def called_the_data(files: Iterable[object]) -> Iterator[None]:
    """Leave the paths of these files out of errors: their content is a caller's, who knows of no file."""
    try:
        yield
    except DataError as error:
        for file in map(Path, map(str, files)):
            error.args = (str(error).replace(str(file), "the data").replace(file.name, "the data"),)
        raise


def is_frame(data: Data) -> bool:
    """Whether this is a frame of pandas, polars or pyarrow."""
    return type(data).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow") and hasattr(data, "columns")


def library_of(data: Data) -> str:
    """The library of a frame; pandas for all else."""
    return type(data).__module__.partition(".")[0] if is_frame(data) else "pandas"


def is_series(data: Data) -> bool:
    """Whether these are arrays, or a sequence of them."""
    return isinstance(data, np.ndarray | list | tuple) and len(data) > 0 and texts_of(data) is None


def _is_pair(data: Data) -> bool:
    """Whether these are examples with their labels, not two texts."""
    return isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str)


def texts_of(data: Data) -> list[str] | None:
    """Texts of a list, an array or a column, "" where one is missing; None where these are no texts.

    Example:
        >>> texts_of(np.array(["a", None])), texts_of([1.0, 2.0])
        (['a', ''], None)
    """
    if isinstance(data, str | Path | Mapping) or is_frame(data) or not hasattr(data, "__len__"):
        return None
    if getattr(getattr(data, "dtype", None), "kind", "O") not in "OUT" or np.ndim(data) != 1:
        return None
    as_list = next((of for name in ("tolist", "to_list", "to_pylist") if (of := getattr(data, name, None))), None)
    values = list(data) if as_list is None else as_list()
    if not any(isinstance(value, str) for value in values):
        return None
    return (
        ["" if _is_missing(value) else value for value in values]
        if all(isinstance(value, str) or _is_missing(value) for value in values)
        else None
    )


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    if value is None or isinstance(value, str):
        return value is None
    import pandas as pd

    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def _is_nameless(frame: Frame) -> bool:
    """Whether the columns of a frame have no names but a count, as those of an array have."""
    import pandas as pd

    counted = isinstance(getattr(frame, "index", None), pd.RangeIndex)
    return counted and list(frame.columns) == list(range(len(frame.columns)))


def _texts_of_frame(frame: Frame) -> list[str] | None:
    """The texts of a frame of one column; None where it is another."""
    table, _ = table_of(frame)
    return texts_of(table[0]) if table.num_columns == 1 else None


def _rows_of_numbers(frame: Frame) -> np.ndarray:
    """A frame with a row a series as an array, (series, time).

    Raises:
        DataError: a column holds something else than numbers.
    """
    table, _ = table_of(frame)
    for column in table.schema:
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise DataError(
                f"the data: column {column.name!r} holds {column.type}; a frame with a row a series holds numbers"
            )
    return np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])


def table_of(data: Data) -> tuple[pa.Table, str]:
    """A frame or a mapping of columns as a table, and the library that it is of.

    Raises:
        DataError: it is no frame, or a column has no type.
    """
    import narwhals as nw

    try:
        if isinstance(data, Mapping):
            columns = {str(name): _column(name, values) for name, values in data.items()}
            return pa.table(with_whole_characters(columns, "names of columns")), "pandas"
        if type(data).__module__.startswith("pandas"):
            data = _with_index(data)
            for name in [name for name in data.columns if _may_hold_texts(data[name])]:
                held = data[name].tolist()
                if (mended := with_whole_characters(held, f"column {name!r}")) is not held:
                    data = data.assign(**{name: mended})
        frame = nw.from_native(data)
    except TypeError as error:
        raise DataError(
            f"data of type {type(data).__name__} cannot be read: give a path, a frame of pandas, polars or pyarrow, "
            "a Hugging Face data set, (series, labels), (texts, labels), or a list of texts"
        ) from error
    except (pa.ArrowException, ValueError, nw.exceptions.NarwhalsError) as error:
        raise DataError(f"the frame cannot be read: {reason(error)}") from error
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    try:
        return without_periods(eager.to_arrow()), str(eager.implementation)
    except Exception as error:  # of pandas, polars or pyarrow, which name no column
        for name in eager.columns:
            _column(name, eager.select(name))
        raise DataError(f"the frame cannot be read: {reason(error)}") from error


def _may_hold_texts(column: Any) -> bool:
    """Whether a list, an array or a column of pandas may hold texts."""
    return isinstance(column, list | tuple) or getattr(getattr(column, "dtype", None), "kind", "") in ("O", "U")


def _column(name: object, values: Any) -> Any:
    """A column as pyarrow takes it.

    Raises:
        DataError: it does not, as where values are of several types; the column is named.
    """
    try:
        if hasattr(values, "to_arrow"):
            return values.to_arrow()
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if _may_hold_texts(values):
            values = with_whole_characters(list(values), f"column {str(name)!r}")
        return pa.array(values, from_pandas=True)
    except Exception as error:
        raise DataError(
            f"the data: column {str(name)!r} cannot be read: {reason(error)}; give it values of one type: numbers, "
            "texts or times"
        ) from error


def frame_of(columns: Mapping[str, Sequence[object]], types: Mapping[str, pa.DataType], backend: str) -> Frame:
    """Columns as a frame, with the types that some of them had in another.

    Args:
        columns: by name; names, times and labels may be written as text.
        types: of some columns.
        backend: the library of the frame.
    """
    import narwhals as nw

    arrays = {name: typed(values, types.get(name)) for name, values in columns.items()}
    frame = nw.from_arrow(pa.table(arrays), backend=cast(Any, backend)).to_native()
    if backend == "pandas":  # which makes arrays of lists
        for name, array in arrays.items():
            if pa.types.is_nested(array.type):
                frame[name] = list(columns[name])
    return frame


def typed(values: Sequence[object], kind: pa.DataType | None) -> pa.Array:
    """Values as an array of a type that they are written for as text: names of series, times, labels.

    Example:
        >>> typed(["1", "0"], pa.int8()).to_pylist(), typed(["True"], pa.bool_()).to_pylist()
        ([1, 0], [True])
    """
    while kind is not None and pa.types.is_dictionary(kind):
        kind = kind.value_type
    array = pa.array(values)
    if kind is None or array.type == kind or pa.types.is_time(kind) or isinstance(kind, pa.BaseExtensionType):
        return array  # times of a day are no type that goes past midnight
    if pa.types.is_list(array.type) and not pa.types.is_nested(kind):  # a label at every step
        return pa.ListArray.from_arrays(array.offsets, typed(array.values.to_pylist(), kind))
    if pa.types.is_temporal(kind) and not pa.types.is_temporal(array.type):
        import pandas as pd

        if pa.types.is_duration(kind):
            whole = [value if str(value).count(":") == 2 else f"{value}:00" for value in values]
            return pa.array(pd.to_timedelta(pd.Series(whole, dtype=object))).cast(kind, safe=False)
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None  # whose clock may change
        times = pd.to_datetime(pd.Series(values, dtype=object), format="ISO8601", utc=zoned)
        return pa.array(times).cast(kind, safe=False)
    return array.cast(kind)


def as_series(data: Data) -> list[np.ndarray]:
    """Series of numbers, each (time, channels), float64.

    Args:
        data: (series, time), (series, channels, time), or a sequence of (time,) or (time, channels).

    Raises:
        DataError: they are no numbers, have other dimensions, or unequal channels; the series is named.
    """
    if isinstance(data, np.ndarray) and data.dtype != object:
        if data.ndim not in (2, 3):
            raise DataError(f"series must be (series, time) or (series, channels, time), got {data.ndim} dimensions")
        steps = data[..., None] if data.ndim == 2 else data.swapaxes(1, 2)
        return list(np.asarray(steps, np.float64))
    series = []
    for number, one in enumerate(data):
        try:
            values = np.asarray(one, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"series {number}: holds something else than numbers: {reason(error)}") from error
        if values.ndim not in (1, 2) or not len(values):
            raise DataError(f"series {number}: must be (time,) or (time, channels), got the shape {values.shape}")
        series.append(values[:, None] if values.ndim == 1 else values)
    for number, values in enumerate(series):
        if values.shape[1] != series[0].shape[1]:
            raise DataError(f"series {number}: has {values.shape[1]} channels, the first has {series[0].shape[1]}")
    return series


def series_table(
    series: Sequence[np.ndarray], labels: Sequence[object] | None = None, *, classes: Sequence[str] | None = None,
    times: Sequence[np.ndarray] | None = None, weights: Sequence[float] | np.ndarray | None = None,
) -> pa.Table:  # fmt: skip
    """Series as a table with a row a step.

    Args:
        series: each (time, channels).
        labels: one each: numbers, or numbers of classes.
        classes: names of the classes.
        times: (time,) of each, rising; 0, 1, 2, … if None.
        weights: what each counts in training.

    Raises:
        DataError: there are not as many labels, times or weights as series, or times as steps.
    """
    for name, others in (("labels", labels), ("times", times), ("weights", weights)):
        if others is not None and len(others) != len(series):
            raise DataError(f"there are {len(series):,} series and {len(others):,} {name}")
    lengths = [len(values) for values in series]
    if times is not None:
        wrong = next((n for n, (own, steps) in enumerate(zip(times, lengths, strict=True)) if len(own) != steps), None)
        if wrong is not None:
            raise DataError(f"series {wrong}: has {lengths[wrong]:,} steps and {len(times[wrong]):,} times")
    columns: dict[str, Any] = {
        SERIES_COLUMN: np.repeat(np.arange(len(series)), lengths),
        TIME_COLUMN: np.concatenate([np.arange(steps) for steps in lengths] if times is None else list(times)),
    }
    whole = np.concatenate(list(series))
    several = whole.shape[1] > 1
    columns |= {f"channel_{n}" if several else "value": whole[:, n] for n in range(whole.shape[1])}
    if weights is not None:
        columns[_WEIGHT_COLUMN] = np.repeat(np.asarray(weights, np.float64), lengths)
    if labels is not None:
        columns[LABEL_COLUMN] = np.repeat(np.asarray(labels), lengths)
    return pa.table(columns) if classes is None else with_classes(pa.table(columns), classes)


_WEIGHT_COLUMN = "weight"


def with_classes(table: pa.Table, classes: Sequence[str], kind: str | None = None) -> pa.Table:
    """A table whose column of labels holds numbers of these classes, as `datasets` writes it.

    Args:
        kind: the type of the classes that are named, as `type_kept` calls it; None for text.
    """
    feature = {"names": list(classes), "_type": "ClassLabel"} | ({} if kind is None else {"type": kind})
    held = {"info": {"features": {LABEL_COLUMN: feature}}}
    return table.replace_schema_metadata({b"huggingface": json.dumps(held).encode()})


def label_array(labels: Data) -> pa.Array:
    """Return labels, one each, as an array of their type; of several types, as text.

    Args:
        labels: (examples,), a list, an array, a column, or a frame of one.

    Raises:
        DataError: they have another shape, or one is missing; its row is named.
    """
    if is_frame(labels):
        table, _ = table_of(labels)
        labels = table[0] if table.num_columns == 1 else np.empty((len(table), table.num_columns))
    if isinstance(labels, np.ma.MaskedArray):
        labels = labels.tolist()  # None where nothing is
    values = np.asarray(labels) if hasattr(labels, "__array__") else list(labels)
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    shape = values.shape if isinstance(values, np.ndarray) else None
    if shape is not None and len(shape) != 1:
        raise DataError(f"labels must be (examples,), one each, got the shape {shape}")
    if _may_hold_texts(values):
        values = with_whole_characters(list(values), "labels")
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError):  # of several types
        array = pa.array([None if _is_missing(value) else str(value) for value in values])
    if pa.types.is_nested(array.type):
        raise DataError(f"labels must be (examples,), one each, got {str(array[0].as_py())[:SHOWN]} for the first")
    if array.null_count:
        row = int(np.flatnonzero(array.is_null())[0]) + 1
        raise missing("label", "the data", row, LABEL_COLUMN)
    return array


def _as_text(labels: pa.Array) -> list[str]:
    return [str(label) for label in labels.to_pylist()]


def coded(labels: pa.Array) -> tuple[np.ndarray, list[str] | None]:
    """Labels as numbers, and the names of classes: None where they are numbers to be predicted, with a fraction.

    Example:
        >>> coded(pa.array(["b", "a", "b"]))
        (array([1, 0, 1]), ['a', 'b'])
    """
    if pa.types.is_floating(labels.type):
        values = labels.to_numpy()
        if (values != np.rint(values)).any():
            return values, None
    values = labels.to_pylist()
    names = sorted(set(values))
    number = {name: place for place, name in enumerate(names)}
    return np.array([number[value] for value in values]), [str(name) for name in names]


def _labelled(first: Any, labels: Any) -> InMemory:
    """Series or texts with a label each."""
    texts = _texts_of_frame(first) if is_frame(first) else texts_of(first)
    texts = texts if texts is None else with_whole_characters(texts, "texts")
    if texts is None and is_frame(first):
        first = _rows_of_numbers(first)
    if not len(first):
        raise DataError("there are no examples in the data")
    array = label_array(labels)
    values, classes = coded(array)
    if texts is not None:
        if len(texts) != len(values):
            raise DataError(f"there are {len(texts):,} texts and {len(values):,} labels")
        table, task = pa.table({TEXT_COLUMN: texts, LABEL_COLUMN: values}), TEXT if classes else TEXT_REGRESSION
    else:
        table = series_table(as_series(first), cast(Sequence[object], values))
        task = SERIES if classes else SERIES_REGRESSION
    kind = None if pa.types.is_string(array.type) else type_kept(array.type)
    return InMemory({"train": table if classes is None else with_classes(table, classes, kind)}, task)


def _is_dataset(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "datasets"


def _of_dataset(data: Any) -> pa.Table:
    """A `datasets.Dataset` as a table, with the names of its classes beside it."""
    from datasets import ClassLabel

    table = data.with_format("arrow")[:]
    classes = {
        name: {"names": of.names, "_type": "ClassLabel"}
        for name, of in data.features.items()
        if isinstance(of, ClassLabel)
    }
    metadata = {b"huggingface": json.dumps({"info": {"features": classes}}).encode()}
    return table.replace_schema_metadata(metadata if classes else None)


def _with_index(frame: Any) -> Any:
    """A frame of pandas with its index as columns, unless that counts the rows."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        frame = frame.to_frame("value" if frame.name is None else frame.name)
    index = frame.index
    if isinstance(index, pd.RangeIndex) or (index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"):
        return frame.rename(columns=str)
    names = list(_names_of(index))
    frame = frame.rename(columns=str)
    again = [place for place, name in enumerate(names) if name in frame.columns]  # as set_index(…, drop=False) leaves
    for place in again:
        if not index.get_level_values(place).equals(pd.Index(frame[names[place]])):
            raise DataError(f"the data: {names[place]!r} is a column and the name of the index, which differ; drop one")
    frame.index = index.set_names(names) if index.nlevels > 1 else index.rename(names[0])
    return frame.drop(columns=[names[place] for place in again]).reset_index()


def _names_of(index: Any) -> Iterator[str]:
    """Names of the levels of an index: their own, or by what they hold."""
    for number, name in enumerate(index.names):
        level = index.levels[number] if index.nlevels > 1 else index
        times = type(level).__name__ in ("DatetimeIndex", "PeriodIndex", "TimedeltaIndex")
        yield str(name) if name is not None else (TIME_COLUMN if times else SERIES_COLUMN)


_OUTPUTS = (".csv", ".tsv", ".jsonl", ".parquet")


def check_output(output: Path, place: str) -> None:
    """Check that predictions can be written there, before there are any.

    Args:
        place: the file that is read.

    Raises:
        DataError: the ending is of no kind of file that is written, or it is the file that is read.
    """
    if output.suffix.lower() not in _OUTPUTS:
        raise DataError(f"--output {output}: must end in one of {', '.join(_OUTPUTS)}, got {output.suffix or 'none'!r}")
    if output.resolve() == Path(place).resolve():
        raise DataError(f"--output {output}: is the file that is read; give another")
    if not output.parent.is_dir():
        raise DataError(f"--output {output}: there is no folder {output.parent}")


def write_predictions(
    output: Path, data: Table, added: dict[str, list[Json]], place: str, types: Mapping[str, pa.DataType]
) -> None:  # fmt: skip
    """All columns of `data`, then those that are added, row by row; the file is whole or as it was.

    Args:
        types: of some columns, in a file that has types.

    Raises:
        DataError: the data have a column of an added name already.
    """
    taken = [name for name in added if name in data.column_names]
    if taken:
        raise DataError(f"{place}: has a column {taken[0]!r} already, which would be overwritten; rename it first")
    ending = output.suffix.lower()
    with written_beside(output) as temporary:
        if ending == ".parquet":
            columns: dict[str, Sequence[object]] = {**data.lists(), **added}
            table = pa.table({name: typed(values, types.get(name)) for name, values in columns.items()})
            pq.write_table(table, temporary)
            return
        with temporary.open("w", encoding="utf-8", newline="") as file:
            if ending == ".jsonl":
                for row in _joined(data, added):
                    file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            else:
                rows = [[_field(value) for value in row.values()] for row in _joined(data, added)]
                _write_separated(file, ending, [[*data.column_names, *added], *rows], output)
                _warn_of_formulas(output, [[*data.column_names, *added], *rows])


_FORMULA = re.compile(r"[=+@\t\r-].", re.DOTALL)
"""The begin of a field that a spreadsheet takes for a formula, unless it is a number."""


def _warn_of_formulas(output: Path, rows: list[list[Any]]) -> None:
    """Say that a spreadsheet would run fields of a file that was written: labels, names and texts are anybody's. The
    file keeps them as they are, since it is data, which other programs read back."""
    fields = [field for row in rows for field in row if isinstance(field, str) and _FORMULA.match(field)]
    found = [field for field in fields if not is_number(field)]
    if found:
        LOG.warning(
            "%s: a spreadsheet takes fields that begin with =, +, - or @ for formulas: %s, the first %.60r; import its "
            "columns as text", output, f"{len(found):,} of them", found[0],
        )  # fmt: skip


def _write_separated(file: TextIO, ending: str, rows: list[list[Any]], output: Path) -> None:
    """CSV, or TSV without quotation marks, as it is read.

    Raises:
        DataError: a field of a TSV would hold a tab or a line break.
    """
    if ending == ".csv":
        csv.writer(file, lineterminator="\n").writerows(rows)
        return
    try:
        csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n").writerows(rows)
    except csv.Error as error:
        raise DataError(
            f"--output {output}: a field holds a tab or a line break, which no .tsv can; give a .csv, .jsonl or "
            ".parquet"
        ) from error


def _joined(data: Table, added: dict[str, list[Json]]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(data.rows()):
        yield row | {name: values[number] for name, values in added.items()}


def _field(value: Any) -> Any:
    """A value of a CSV file: lists and records as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value
