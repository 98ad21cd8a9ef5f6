"""Columns of a table as numbers. pyarrow reads those that are plain. The marks of people and spreadsheets are read
here: one mark before decimals and one between thousands a column. A column that can be read in two ways is asked about.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gatedrnn.errors import DataError, Question
from gatedrnn.tables.options import MISSING, PLAIN, Decimal, Fields
from gatedrnn.tables.table import Column, Table, listed
from gatedrnn.tables.units import split_unit, units_of

LARGEST = 3.4e38
"""The largest number that is read: models run, and are exported, with numbers of 32 bits too."""
SHOWN = 60
"""Characters of a field in a message, at most."""
_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Words of a column of flags, in small letters: as pandas and Excel write them."""
GROUPS = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}({re.escape(mark)}\d{{3}})+") for mark in ",.' "}
"""Whole numbers with a mark between thousands: 1,234 and 1,234,567."""
_THREE_DECIMALS = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
"""A field that may be 1.234 or 1234."""
_LOOSE_NUMBER = re.compile(r"[+-]?[\d.,' ]*\d[\d.,' ]*(e[+-]?\d+)?", re.IGNORECASE)
"""A field of digits and marks, whatever they mean."""
_MAX_WORDS = 4
"""Different words among the numbers of a column, at most, that may mean that nothing was measured."""
_AROUND = re.compile(r"^[$€£¥₩₹%\s]+|[$€£¥₩₹%\s;]+$")
"""Signs of currencies and of percent, and blanks, around a number; and the mark that ends lines of some recorders."""
_ALIKE = str.maketrans({"\u2212": "-", "\u2019": "'", "\u00a0": " ", "\u202f": " ", "\u2009": " "})
"""Marks that look alike: the minus sign, the apostrophe and the narrow blanks of typesetters."""
Place: TypeAlias = Callable[[int], str]
"""A function that locates the field of a row for messages: file, row, column."""


def numbers_of(values: Column, place: Place, fields: Fields = PLAIN) -> np.ndarray:
    """(rows,), float64; NaN where a field is empty or says that nothing was measured.

    Marks between thousands, signs of a currency and of percent are left out; a number in brackets, or with a minus
    behind it as SAP writes it, is negative; true and yes are 1, false and no are 0 in a column that holds nothing else.

    Args:
        values: a column of text or numbers.
        place: locates a row in messages.
        fields: what the caller says of the column.

    Raises:
        DataError: a field is no number, infinite, or too large; or a mark may be before decimals or between thousands.
    """
    column = _as_strings(values) if isinstance(values, pa.ChunkedArray) else _as_arrow(values)
    none = _missing_numbers(fields)
    if column is not None and pa.types.is_string(column.type):
        numbers = _of_texts(column, place, fields)
    elif column is not None and (pa.types.is_integer(column.type) or pa.types.is_float64(column.type)):
        numbers = np.array(column.cast(pa.float64(), safe=False).to_numpy())
    else:
        texts = [
            None if value is None else str(float(value)) if isinstance(value, bool) else value
            for value in listed(values)
        ]
        numbers = _of_fields(texts, place, fields)
    numbers = np.where(np.isin(numbers, none), np.nan, numbers) if none else numbers
    wrong = np.flatnonzero(~(np.abs(numbers) <= LARGEST) & ~np.isnan(numbers))
    if len(wrong):
        row = int(wrong[0])
        raise _beyond(numbers[row], listed(values[row : row + 1])[0], place, row)
    return numbers


def numbers_in_column(data: Table, column: str, fields: Fields) -> np.ndarray:
    """(rows,), float64; as `numbers_of`."""
    named = () if data.dialect is None else data.dialect.missing
    return numbers_of(data.columns[column], data.locate(column), fields._replace(missing=(*fields.missing, *named)))


def _beyond(number: float, written: object, place: Place, row: int) -> DataError:
    if math.isinf(number):
        return DataError(f"{place(row)}: {str(written)[:SHOWN]} is infinite")
    return DataError(f"{place(row)}: {number:g} is too large; numbers up to {LARGEST:g} are read")


def _as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts, in whatever form Arrow holds them, as plain strings; any other as it is."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_string(kind)
    return column.cast(kind).cast(pa.string()) if is_text else column


def _as_arrow(values: Sequence[object]) -> pa.ChunkedArray | None:
    """A list of texts as Arrow has it; None of others."""
    texts = all(value is None or isinstance(value, str) for value in values)
    return pa.chunked_array([pa.array(values, pa.string())]) if texts else None


def _missing_numbers(fields: Fields) -> list[float]:
    """The words for missing values that are numbers: a table may write -9999 as -9999.0, or hold it as a number."""
    numbers = list[float]()
    for word in fields.missing:
        with suppress(ValueError):
            numbers.append(float(word))
    return numbers


def missing_words(fields: Fields) -> set[str]:
    """All fields that say that nothing was measured, in small letters."""
    return {*MISSING, *(word.lower() for word in fields.missing)}


def _of_texts(column: pa.ChunkedArray, place: Place, fields: Fields) -> np.ndarray:
    trimmed = pc.utf8_trim_whitespace(column)
    absent = pc.or_kleene(
        pc.is_null(trimmed), pc.is_in(pc.utf8_lower(trimmed), pa.array(sorted(missing_words(fields))))
    )
    there = pc.if_else(absent, None, trimmed)
    if fields.decimal is None and fields.thousands is None and not _may_be_thousands(there):
        with suppress(pa.ArrowInvalid):
            return np.array(there.cast(pa.float64()).to_numpy(), np.float64)  # a copy, which may be written
    return _of_fields(there.to_pylist(), place, fields)


def _may_be_thousands(column: pa.ChunkedArray) -> bool:
    """Whether every point of a column stands before three digits and some numbers have none: 1.195 beside 892, as is
    written of thousands, not of decimals."""
    pointed = pc.match_substring(column, ".")
    if not pc.any(pointed).as_py() or pc.all(pointed).as_py():
        return False
    return bool(pc.all(pc.match_substring_regex(column.filter(pointed), _THREE_DECIMALS)).as_py())


def _of_fields(values: Sequence[object], place: Place, fields: Fields) -> np.ndarray:
    """Fields one by one."""
    nothing = missing_words(fields)
    numbers, texts = np.full(len(values), np.nan), dict[int, str]()
    for row, value in enumerate(values):
        if isinstance(value, str):
            if value.strip().lower() not in nothing:
                texts[row] = _bare(value)
        elif value is not None:
            numbers[row] = _number(value, place, row)
    if texts and all(text.lower() in _TRUTH for text in texts.values()):
        numbers[list(texts)] = [_TRUTH[text.lower()] for text in texts.values()]
        return numbers
    words = {row: text for row, text in texts.items() if not _LOOSE_NUMBER.fullmatch(text)}
    factors = dict[int, float]()
    if words and (units := units_of(texts.values())) is not None:
        factors = {row: units.factors[split_unit(text)[1]] for row, text in texts.items()}
        texts, words = {row: split_unit(text)[0] for row, text in texts.items()}, {}
    if words and len(words) * 2 < len(texts) and len({*words.values()}) <= _MAX_WORDS:
        row = next(iter(words))
        asked = (
            f"{place(row)}: must be a number, got {values[row]!r:.{SHOWN}}, which may mean that nothing was measured"
        )
        raise Question(asked, [{"missing": sorted({str(values[row]).strip() for row in words})}])
    decimal = fields.decimal or _decimal(texts, place, fields)
    group = fields.thousands or ("." if decimal == "," else ",")
    for row, text in texts.items():
        mantissa, power = re.fullmatch(r"(.*?)([eE][+-]?\d+)?", text).groups(default="")  # type: ignore[union-attr]
        whole, mark, rest = mantissa.partition(decimal)
        for between in {group, "'", " "} - {decimal}:
            if GROUPS[between].fullmatch(whole):
                whole = whole.replace(between, "")
        if "." in whole or "," in whole:
            raise DataError(
                f"{place(row)}: must be a number with {decimal} before decimals, as other rows, got "
                f"{values[row]!r:.{SHOWN}}"
            )
        numbers[row] = _number(f"{whole}{'.' if mark else ''}{rest}{power}", place, row, values[row])
    for row, factor in factors.items():
        numbers[row] *= factor
    return numbers


def unit_of_column(values: Sequence[object], fields: Fields) -> str | None:
    """The unit in which a column with units is read; None of any other."""
    nothing = missing_words(fields)
    texts = [_bare(str(value)) for value in values if value is not None and str(value).strip().lower() not in nothing]
    units = units_of(texts)
    return None if units is None else units.unit


def _bare(field: str) -> str:
    """A field without what stands around its number, and with a minus before it."""
    text = _AROUND.sub("", field.translate(_ALIKE))
    sign = re.match(r"[+-]\s*[$€£¥₩₹]\s*", text)  # -$1
    text = text[0] + text[sign.end() :] if sign else text
    if text[:1] == "(" and text[-1:] == ")":
        text = f"-{_AROUND.sub('', text[1:-1])}"
    return f"-{text[:-1].strip()}" if re.fullmatch(r"\d.*-", text) else text


def _decimal(texts: dict[int, str], place: Place, fields: Fields) -> Decimal:
    """The mark before decimals of a column, which all its fields have.

    Raises:
        DataError: no field shows it, though one may be read in two ways.
    """
    if fields.thousands is not None:
        return "," if fields.thousands == "." else "."
    mantissas = {row: re.split("[eE]", text)[0] for row, text in texts.items()}
    marked = {row: text for row, text in mantissas.items() if "," in text or "." in text}
    for text in marked.values():
        last: Decimal = "," if text.rfind(",") > text.rfind(".") else "."
        other = "." if last == "," else ","
        if text.count(last) > 1:
            return other  # type: ignore[return-value]
        if other in text or not GROUPS[last].fullmatch(text):
            return last
    points = [row for row, text in marked.items() if "." in text]
    plain = len(marked) < len(texts)
    row = next((row for row, text in marked.items() if "," in text), points[0] if points and plain else None)
    if row is None:
        return "."
    whole, rest = re.split("[.,]", marked[row])
    raise Question(
        f"{place(row)}: {texts[row]} may be {whole}{rest} or {whole}.{rest}", [{"decimal": ["."]}, {"decimal": [","]}]
    )


def sentinels_of(numbers: np.ndarray) -> list[str]:
    """Numbers of nines, such as 9999 or -99.9, that come again and lie far from all other numbers of a column: files
    write them where nothing was measured.

    Args:
        numbers: (rows,), NaN where a value is missing.

    Example:
        >>> sentinels_of(np.array([9999.9, 20.5, 9999.9, 21.0, 19.5]))
        ['9999.9']
    """
    found = list[str]()
    there = numbers[~np.isnan(numbers)]
    for extreme in (there.max(initial=-np.inf), there.min(initial=np.inf)):
        others = there[there != extreme]
        written = f"{extreme:.10g}"
        if len(others) < 2 or len(there) - len(others) < 2 or not _NINES.fullmatch(written):
            continue
        middle = float(np.median(others))
        if abs(extreme - middle) > _FAR * float(np.abs(others - middle).max()):
            found.append(written)
    return found


_NINES = re.compile(r"-?99+(\.9+)?")
_FAR = 3.0
"""The distance from the median, in units of that of the farthest other number, from which a number is far away."""


def holds_words(values: Sequence[object], fields: Fields) -> bool:
    """Whether most fields of a column that say something are no numbers."""
    nothing = missing_words(fields)
    there = [value for value in values if value is not None and str(value).strip().lower() not in nothing]
    words = [
        value for value in there
        if isinstance(value, str) and value.strip().lower() not in _TRUTH and not _LOOSE_NUMBER.fullmatch(_bare(value))
    ]  # fmt: skip
    return len(words) * 2 > len(there) and unit_of_column(there, fields) is None


def holds_flags(values: Sequence[object], fields: Fields) -> bool:
    """Whether a column holds 0 and 1, true and false, or one value alone: what is known of a time, not measured."""
    words = missing_words(fields)
    different = {str(value).strip().lower() for value in values if value is not None} - words
    return len(different) < 2 or different <= {*_TRUTH, "0", "1", "0.0", "1.0"}


def number_of(value: object, place: Place, row: int) -> float:
    """A field that is there as a number.

    Raises:
        DataError: it is none, infinite, or larger than `LARGEST`.
    """
    number = _number(value, place, row)
    if not abs(number) <= LARGEST and not math.isnan(number):
        raise _beyond(number, value, place, row)
    return number


def _number(value: object, place: Place, row: int, written: object = None) -> float:
    """A field as a number.

    Args:
        written: as the table has it, for messages.

    Raises:
        DataError: it is none.
    """
    try:
        if isinstance(value, str) and "_" in value:  # which Python reads in numbers
            raise ValueError
        return float(value) if isinstance(value, int | float) else float(str(value))
    except OverflowError:  # an integer of hundreds of digits
        return math.inf
    except (TypeError, ValueError):
        shown = repr(value if written is None else written)
        raise DataError(f"{place(row)}: must be a number, got {shown[:SHOWN]}") from None


def is_number(field: object) -> bool:
    """Whether a field is a finite number."""
    try:
        return math.isfinite(float(str(field)))
    except ValueError:
        return False
