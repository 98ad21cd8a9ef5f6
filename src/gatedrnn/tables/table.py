"""A table as it stands in a file or a frame: Arrow columns by name, and their values as Python has them."""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa

from gatedrnn.tables.dialect import Dialect
from gatedrnn.tables.options import COLUMN

LOG = logging.getLogger("gatedrnn")
_IN_MEMORY = "the data"
"""The name of a table that comes from no file, in messages."""
Column: TypeAlias = pa.ChunkedArray | Sequence[Any]


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table by name, all of one length, as they stand in it.

    Example:
        >>> table = Table({"text": pa.chunked_array([["a", "b"]]), "label": [1, 0]})
        >>> table["text"], len(table), table.column_names
        (['a', 'b'], 2, ['text', 'label'])
    """

    columns: Mapping[str, Column]
    """Columns of Arrow, or lists where one was made of others."""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of classes by column, where a column holds numbers of classes."""
    sha256: str = ""
    """The sum of the file, or of all files of a folder."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The type of each column, where the file has types; of a column of classes, the type of their names."""
    dialect: Dialect | None = None
    """How a CSV or TSV file writes it."""
    place: str = _IN_MEMORY
    """The path of its file, for messages."""
    name: str = _IN_MEMORY
    """The name of its file."""
    _values: dict[str, list[Any]] = field(default_factory=dict, init=False, repr=False)
    """Columns that have been asked for, as lists."""

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._values:
            column = self.columns[name]
            self._values[name] = listed(column)
        return self._values[name]

    @classmethod
    def of_arrow(
        cls, table: pa.Table, *, sha256: str = "", place: str = _IN_MEMORY, name: str = _IN_MEMORY
    ) -> "Table":  # fmt: skip
        """A table of Arrow, with the names of classes where `datasets` writes them beside their numbers.

        Args:
            table: the columns; blanks around their names are left out.
            sha256, place, name: of its file, if there is one.
        """
        table = without_periods(table)
        classes = {name.strip(): of for name, of in classes_in(table.schema.metadata).items()}
        types = {column.name.strip(): column.type for column in table.schema}
        types |= {name: type_named(str(of.get("type", "string"))) for name, of in classes.items()}
        return cls(
            {name.strip(): column for name, column in zip(table.column_names, table.columns, strict=True)},
            {name: tuple(cast(list[str], of["names"])) for name, of in classes.items()},
            sha256, types, place=place, name=name,
        )  # fmt: skip

    def head(self, name: str, rows: int = 100) -> list[object]:
        """The first values of a column; the others stay as Arrow has them."""
        return self._values[name][:rows] if name in self._values else listed(self.columns[name][:rows])

    def holds(self, name: str, check: Callable[[list[object]], bool]) -> bool:
        """Whether a check holds of the first values of a column, and then of all: few columns of a large table are
        looked at as a whole.
        """
        return check(self.head(name)) and check(self[name])

    def lists(self) -> dict[str, list[object]]:
        """All columns as lists."""
        return {name: self[name] for name in self.columns}

    def without_header(self) -> "Table":
        """The table whose first line is a row, with the numbers of its columns as names."""
        named = {f"{COLUMN} {n}": [name, *self[name]] for n, name in enumerate(self.columns, start=1)}
        return replace(self.with_columns(named), class_names={}, types={})

    def with_columns(self, columns: Mapping[str, Column]) -> "Table":
        """The table of the same file with other columns."""
        return replace(self, columns=columns)

    def locate(self, column: str) -> Callable[[int], str]:
        """A function that locates a row of a column in messages: file, row from 1 on, column."""
        return lambda row: f"{self.place}: row {row + 1}, column {column!r}"

    def rows(self) -> Iterator[dict[str, object]]:
        lists = self.lists()
        return (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))


def listed(column: Column) -> list[object]:
    """Return the values of a column as Python has them."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in values_of_column(chunk)]
    return list(column)


def is_number_of_column(name: str) -> bool:
    """Whether a column bears its number, for want of a name."""
    word, _, number = name.partition(" ")
    return word == COLUMN and number.isdecimal()


Held = TypeVar("Held")
HALF = re.compile("[\ud800-\udfff]")
"""Half of a character, which is left where a text was cut in the middle of an emoji: no encoding holds it."""
WRITTEN_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""One as JSON writes it, or the begin of a whole character."""


def with_whole_characters(value: Held, place: str) -> Held:
    """A text, or a list or record with texts anywhere in it, with U+FFFD for each half of a character, and a warning.

    Example:
        >>> with_whole_characters(["a", "b \\ud83d"], "texts") == ["a", "b \\ufffd"]
        True
    """
    found = 0

    def mend(part: Any) -> Any:
        nonlocal found
        if isinstance(part, str):
            text, count = HALF.subn("\ufffd", part)
            found += count
            return text if count else part
        if isinstance(part, list):
            return [mend(each) for each in part]
        return {mend(name): mend(each) for name, each in part.items()} if isinstance(part, dict) else part

    mended = mend(value)
    if found:
        LOG.warning("%s: half a character, as of an emoji that was cut, is read as U+FFFD: %d times", place, found)
    return cast(Held, mended) if found else value


def values_of_column(column: pa.Array) -> list[object]:
    """The values of a column, those of a dictionary each once in memory; 0.1 in 32 bits is 0.1, as it was written, and
    a duration is written as 31:15:00."""
    if pa.types.is_dictionary(column.type):
        values = column.dictionary.to_pylist()
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    if pa.types.is_duration(column.type):
        return [None if value is None else _clock(value) for value in column.to_pylist()]
    if not pa.types.is_float32(column.type):
        return list(column.to_pylist())
    return [None if value is None else float(str(np.float32(value))) for value in column.to_pylist()]


def _clock(value: timedelta) -> str:
    """A duration as hours, minutes and seconds."""
    nanoseconds = int(getattr(value, "value", value // timedelta(microseconds=1) * 1000))  # pandas' own has nanoseconds
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    sign, fraction = "-" if nanoseconds < 0 else "", f".{rest:09}" if rest else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def without_periods(table: pa.Table) -> pa.Table:
    """A table in which each period of pandas, such as a month, is the timestamp at which it begins."""
    for number, column in enumerate(table.schema):
        told = column.metadata or {}
        name, said = told.get(b"ARROW:extension:name", b"").decode(), told.get(b"ARROW:extension:metadata", b"")
        ordinals = table[number]
        if isinstance(column.type, pa.ExtensionType):  # where pandas has said to pyarrow what they are
            name, said = column.type.extension_name, column.type.__arrow_ext_serialize__()
            ordinals = ordinals.cast(column.type.storage_type)
        if name == "pandas.period":
            import pandas as pd

            numbers = ordinals.fill_null(pd.NaT.value).to_numpy()
            begins = pd.PeriodIndex.from_ordinals(numbers, freq=json.loads(said)["freq"]).to_timestamp()
            table = table.set_column(number, column.name, pa.array(begins, from_pandas=True))
    return table


def type_kept(kind: pa.DataType | None) -> str | None:
    """The name of the type of a column of labels, or of each label of its lists; None of text, and of what a name does
    not tell.

    Example:
        >>> type_kept(pa.int8()), type_kept(pa.list_(pa.bool_())), type_kept(pa.string())
        ('int8', 'bool', None)
    """
    while kind is not None and (pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        kind = kind.value_type
    are_plain = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_date,
        pa.types.is_duration, pa.types.is_decimal128,
    )  # fmt: skip
    return str(kind) if kind is not None and any(is_plain(kind) for is_plain in are_plain) else None


def type_named(name: str) -> pa.DataType:
    """The type that has a name: the inverse of `type_kept`."""
    if zoned := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", name):
        return pa.timestamp(zoned[1], zoned[2])
    digits = re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", name)
    return pa.type_for_alias(name) if digits is None else pa.decimal128(int(digits[1]), int(digits[2]))


_JSON_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def type_of_json(values: Sequence[object]) -> pa.DataType | None:
    """The type of a column that holds values of one type, or lists of them; None of text and of several types."""
    kinds = {type(item) for value in values for item in (value if isinstance(value, list) else (value,))}
    kinds.discard(type(None))
    return _JSON_TYPES.get(kinds.pop()) if len(kinds) == 1 else None


def classes_in(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[str, object]]:
    """The classes that `datasets` writes beside a column of their numbers, by column: their `names`, and where this
    package wrote them the `type` of the names."""
    features = json.loads((metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    held = {
        name: feature.get("feature", feature) if isinstance(feature, dict) else {} for name, feature in features.items()
    }
    return {name: of for name, of in held.items() if isinstance(of, dict) and of.get("_type") == "ClassLabel"}
