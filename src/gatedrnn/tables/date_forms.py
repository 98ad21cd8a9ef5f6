"""Dates as tables write them: the patterns that a column may follow, a date read and written by one, and the forms of
grid operators, loggers and spreadsheets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, get_args

import numpy as np

from gatedrnn.tables.options import Order

if TYPE_CHECKING:
    import pandas as pd

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH_WORDS = ("Month", "MONTH", "Mon", "MON", "mon", "Monat", "Mrz", "Mär")
"""The fields that name a month."""
_MONATE = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LAST_OF_2000S, LAST_OF_2000S_IN_C = 29, 68
"""Years of two digits up to here follow 2000, the others 1900, as Excel and as C have it."""
_BEFORE_FIRST = 2000
"""The number added to a year that counts from the first one of a table, 1-01: a year that dates can have."""


WORDS: Mapping[str, tuple[str, ...]] = {
    "Month": MONTHS, "MONTH": tuple(map(str.upper, MONTHS)), "Mon": tuple(name[:3] for name in MONTHS),
    "MON": tuple(name[:3].upper() for name in MONTHS), "mon": tuple(name[:3].lower() for name in MONTHS),
    "Monat": _MONATE, "Mär": tuple(name[:3] for name in _MONATE),
    "Mrz": tuple("Mrz" if name == "März" else name[:3] for name in _MONATE),
    "Weekday": WEEKDAYS, "Wkd": tuple(name[:3] for name in WEEKDAYS), "HALF": ("AM", "PM"), "half": ("am", "pm"),
}  # fmt: skip
"""Fields that are words, in their order."""
NUMBERS: Mapping[str, tuple[str, str]] = {
    "year": (r"(?:1[789]|2[01])\d\d", "YYYY"), "yy": (r"\d\d", "YY"), "nth": (r"\d{1,3}", "Y"),
    "month": (r"0[1-9]|1[0-2]", "MM"), "m": (r"0?[1-9]|1[0-2]", "M"), "day": (r"0[1-9]|[12]\d|3[01]", "DD"),
    "d": (r"0?[1-9]|[12]\d|3[01]", "D"), "hour": (r"[01]\d|2[0-3]", "HH"), "h": (r"[01]?\d|2[0-3]", "H"),
    "h12": (r"0?[1-9]|1[0-2]", "H"), "minute": (r"[0-5]\d", "MM"), "second": (r"[0-5]\d", "SS"),
    "week": (r"0[1-9]|[1-4]\d|5[0-3]", "WW"), "quarter": (r"[1-4]", "Q"),
    "halfyear": (r"[12]", "H"),
    "yearday": (r"00[1-9]|0[1-9]\d|[12]\d\d|3[0-5]\d|36[0-6]", "DDD"),
}  # fmt: skip
"""Fields that are numbers: what each may be, and how a message shows it."""
SHOWN: Mapping[str, str] = {name: field[1] for name, field in NUMBERS.items()} | {name: name for name in WORDS}
PATTERNS = (
    "{year}{month}{day}{hour}{minute}{second}", "{year}{month}{day}{hour}{minute}", "{year}{month}{day}{hour}",
    "{year}{month}{day}", "{year}{yearday}", "{year}{month}", "{year}{week}", "{year}{quarter}", "{year}.{month}",
    "{year}.{quarter}",
)  # fmt: skip
"""Dates that are numbers, which nothing parts; of two that fit, the first."""
CLOCK = re.compile(r"(?P<gap>[T ]+)(?P<hour>\d{1,2}):\d\d(?P<second>:\d\d)?(?:(?P<space> ?)(?P<half>[AP]M|[ap]m))?$")
TOKEN = re.compile(r"\d+|[^\W\d_]+|[\W_]+")
_PREFIXES: Mapping[str, str] = {"Q": "quarter", "W": "week", "M": "month", "H": "halfyear"}
"""Letters beside a number that say what it is."""
_LITERALS = ("년", "월", "일", "FY", "CY")
_UNPADDED: Mapping[str, str] = {"month": "m", "day": "d", "hour": "h"}


def patterns_of(text: str) -> Iterator[str]:
    """Every pattern that a date such as this one may follow, those with the most zeros first."""
    clock = CLOCK.search(text)
    whole, end = text, ""
    if clock is not None:
        whole = text[: clock.start()]
        hour = "{h12}" if clock["half"] else "{hour}" if len(clock["hour"]) == 2 else "{h}"
        end = clock["gap"] + hour + ":{minute}" + (":{second}" if clock["second"] else "")
        end += clock["space"] + ("{HALF}" if clock["half"].isupper() else "{half}") if clock["half"] else ""
    tokens = TOKEN.findall(whole)
    for fields in _fields_of(tokens):
        variants = [
            (field, _UNPADDED[field]) if field is not None and field in _UNPADDED else (field,) for field in fields
        ]
        for choice in product(*variants):
            parts = (token if field is None else f"{{{field}}}" for token, field in zip(tokens, choice, strict=True))
            pattern = "".join(parts) + end
            yield pattern
            if "{hour}" in end:
                yield pattern.replace("{hour}", "{h}")


def _fields_of(tokens: list[str]) -> Iterator[list[str | None]]:
    """The fields that each piece of a date may be: the name of a field, or None for itself."""
    fields: list[str | None] = [None] * len(tokens)
    free, words = list[int](), dict[int, list[str]]()
    for index, token in enumerate(tokens):
        if token.isdecimal():
            before = tokens[index - 1] if index else ""
            after = tokens[index + 1] if index + 1 < len(tokens) else ""
            marked = next((_PREFIXES[mark.upper()] for mark in (before, after) if mark.upper() in _PREFIXES), None)
            if marked is not None and len(token) <= 2:
                fields[index] = marked
            else:
                free.append(index)
        elif token[0].isalpha() and token not in _LITERALS and token.upper() not in _PREFIXES:
            words[index] = [name for name, known in WORDS.items() if token in known]  # Jan is a month in two languages
    for names in product(*words.values()):
        for index, name in zip(words, names, strict=True):
            fields[index] = name
        months = sum(field in (*_MONTH_WORDS, *_PREFIXES.values()) for field in fields)
        for roles in _orders(len(free), months > 0) if months < 2 else ():
            named = list(fields)
            for index, role in zip(free, roles, strict=True):
                named[index] = role
            if all(_may_be(tokens[index], named[index]) for index in free):
                yield named


def _orders(count: int, has_month: bool) -> Iterator[tuple[str, ...]]:
    """Fields of the numbers that no letter names, in the orders in which they are written."""
    for year in ("year", "yy", "nth"):
        orders: list[tuple[str, ...]] = [(year, "month")]
        if year != "nth":
            orders += [("month", year), ("month", "day", year), ("day", "month", year), (year, "month", "day")]
        for order in orders:
            roles = tuple(role for role in order if role != "month") if has_month else order
            if len(roles) == count:
                yield roles


def _may_be(token: str, role: str | None) -> bool:
    assert role is not None
    return re.fullmatch(NUMBERS[_UNPADDED.get(role, role)][0], token) is not None


def order_of(pattern: str) -> tuple[str, ...]:
    """The order of year, month and day, as far as they are numbers."""
    names = {"yy": "year", "nth": "year", "m": "month", "d": "day"}
    parts = (names.get(name, name) for name in re.findall(r"\{(\w+)\}", pattern))
    return tuple(name for name in parts if name in ("year", "month", "day"))


def full_order(pattern: str | None) -> Order | None:
    """The order of a date whose parts are numbers; None of others."""
    read_order = () if pattern is None else order_of(pattern)
    return next((order for order in get_args(Order) if tuple(order.split("-")) == read_order), None)


def has_order(pattern: str, order: Order) -> bool:
    """Whether a pattern is of an order; one without a day, of any that has year and month so."""
    order_read = order_of(pattern)
    return order_read == tuple(name for name in order.split("-") if name in order_read)


def shown(pattern: str) -> str:
    """A pattern as a message has it, YYYY-MM."""
    return pattern.format_map(SHOWN)


def follows(pattern: str, text: str) -> bool:
    """Whether a text is a date by a pattern."""
    return _expression(pattern).fullmatch(text) is not None and dates_by(pattern, [text]) is not None


def dates_by(pattern: str, texts: Sequence[str]) -> np.ndarray | None:
    """(rows,), datetime64[ns]; None where a text is no date by a pattern. Years of two digits are in the centuries in
    which times rise most.
    """
    dates = _dates_by(pattern, texts)
    if dates is None or "{yy}" not in pattern:
        return dates
    falls = int((np.diff(dates) < np.timedelta64(0)).sum())
    for last in (LAST_OF_2000S_IN_C, 99) if falls else ():
        others = _dates_by(pattern, texts, last)
        if others is not None and (fewer := int((np.diff(others) < np.timedelta64(0)).sum())) < falls:
            dates, falls = others, fewer
    return dates


def _dates_by(pattern: str, texts: Sequence[str], last_of_2000s: int = LAST_OF_2000S) -> np.ndarray | None:
    expression, days = _expression(pattern), []
    if pattern == "{year}.{month}" and any(re.fullmatch(r"\d{4}\.0\d", text) for text in texts):
        texts = [f"{text}0" if re.fullmatch(r"\d{4}\.1", text) else text for text in texts]  # October, as a number
    for text in texts:
        match = expression.fullmatch(text)
        if match is None:
            return None
        try:
            days.append(np.datetime64(_moment(match.groupdict(), last_of_2000s), "ns"))
        except ValueError:  # 30 February, week 53 of a year that has 52
            return None
    return np.array(days, "datetime64[ns]")


@lru_cache
def _expression(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{\w+\})", pattern)
    fields = {name: field[0] for name, field in NUMBERS.items()} | {n: "|".join(words) for n, words in WORDS.items()}
    parts = (f"(?P<{piece[1:-1]}>{fields[piece[1:-1]]})" if piece[:1] == "{" else re.escape(piece) for piece in pieces)
    return re.compile("".join(parts))


def _moment(fields: dict[str, str], last_of_2000s: int) -> str:
    """A date with its time of day, as numpy reads it; years of two digits follow 2000 up to the last, else 1900."""
    if "year" in fields:
        year = int(fields["year"])
    elif "yy" in fields:
        year = int(fields["yy"]) + (2000 if int(fields["yy"]) <= last_of_2000s else 1900)
    else:
        year = int(fields["nth"]) + _BEFORE_FIRST
    if "week" in fields:
        return date.fromisocalendar(year, int(fields["week"]), 1).isoformat()
    if "yearday" in fields:
        return datetime.strptime(f"{year:04} {fields['yearday']}", "%Y %j").date().isoformat()
    month = int(fields.get("month") or fields.get("m") or 1)
    month = 3 * int(fields["quarter"]) - 2 if "quarter" in fields else month
    month = 6 * int(fields["halfyear"]) - 5 if "halfyear" in fields else month
    for name in _MONTH_WORDS:
        month = WORDS[name].index(fields[name]) + 1 if name in fields else month
    hour = int(fields.get("hour") or fields.get("h") or 0)
    if "h12" in fields:
        hour = int(fields["h12"]) % 12 + (12 if (fields.get("half") or fields.get("HALF") or "").lower() == "pm" else 0)
    day = int(fields.get("day") or fields.get("d") or 1)
    clock = f"{hour:02}:{fields.get('minute', '00')}:{fields.get('second', '00')}"
    return f"{year:04}-{month:02}-{day:02}T{clock}"


def written_by(pattern: str, moment: "pd.Timestamp") -> str:
    """A date by a pattern."""
    year = moment.isocalendar().year if "{week}" in pattern else moment.year
    fields = {name: f"{getattr(moment, name):02}" for name in ("month", "day", "hour", "minute", "second", "week")}
    fields |= {"m": moment.month, "d": moment.day, "h": moment.hour, "h12": (moment.hour - 1) % 12 + 1}
    fields |= {
        "yearday": f"{moment.day_of_year:03}",
        "year": f"{year:04}",
        "yy": f"{year % 100:02}",
        "nth": year - _BEFORE_FIRST,
        "quarter": moment.quarter,
        "halfyear": (moment.month + 5) // 6,
    }
    places = {**dict.fromkeys(_MONTH_WORDS, moment.month - 1), **dict.fromkeys(("HALF", "half"), moment.hour // 12)}
    words = {name: names[places.get(name, moment.day_of_week)] for name, names in WORDS.items()}
    return pattern.format_map(fields | words)


_SPANS = (" - ", " – ", " — ", " to ", "/", "–")
"""Marks between the begin and the end of a span of time."""
_MIN_DIGITS = 6
"""Digits of a date at least, so that 1/2 is no span."""
_HALVES = {"오전": "AM", "오후": "PM", "上午": "AM", "下午": "PM", "午前": "AM", "午後": "PM"}
"""Words for the halves of a day that stand before the hour."""
_HALF_FIRST = re.compile(rf"({'|'.join(_HALVES)})\s*(\d{{1,2}}:\d\d(?::\d\d)?)")
_ZONES = {
    "GMT": "+00:00", "WET": "+00:00", "WEST": "+01:00", "CET": "+01:00", "CEST": "+02:00", "MEZ": "+01:00",
    "MESZ": "+02:00", "EET": "+02:00", "EEST": "+03:00", "MSK": "+03:00", "KST": "+09:00", "JST": "+09:00",
    "AEST": "+10:00", "AEDT": "+11:00", "NZST": "+12:00", "NZDT": "+13:00", "EST": "-05:00", "EDT": "-04:00",
    "CDT": "-05:00", "MDT": "-06:00", "PST": "-08:00", "PDT": "-07:00",
}  # fmt: skip
"""Offsets of the abbreviations that mean one zone alone; CST, IST, BST and MST mean several, and are no dates here."""
_NAMED_ZONE = re.compile(rf"(.*\d) ?({'|'.join(_ZONES)})")
_ZONE_IN_BRACKETS = re.compile(rf" ?(?:\((?:{'|'.join(_ZONES)})\)|\[\w+/[\w/+-]+\])")
_MIDNIGHT = re.compile(r"(.*[T ])24(:00(?::00(?:\.0+)?)?)(.*)")
"""The end of a day as 24:00."""
_QUARTER_FIRST = re.compile(r"Q([1-4])(\d{4})")
DAYS = re.compile(r"(-?)(\d+) days? \+?(\d\d):(.*)")
"""A duration as pandas writes it."""


def plain_texts(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Times as text in plain forms, and the rows that lie a day later than their text says.

    Of a span its begin is taken; 24:00 is 00:00 of the next day; the half of a day stands behind the hour; an
    abbreviation of a zone is its offset; days of a duration are hours; Q42010 is 2010Q4.

    Example:
        >>> plain_texts(["2024-01-01 23:00 - 2024-01-01 24:00", "2024-01-01 24:00 - 2024-01-02 01:00"])
        (['2024-01-01 23:00', '2024-01-01 00:00'], array([False,  True]))
    """
    first = texts[0] if texts else ""
    plain = list(texts)
    if any(_ZONE_IN_BRACKETS.search(text) for text in plain):  # of the hours alone that come twice
        plain = [_ZONE_IN_BRACKETS.sub("", text) for text in plain]
        first = plain[0]
    for mark in _SPANS:
        if _is_span(first, mark):
            if all(_is_span(text, mark) for text in plain):
                plain = [text.split(mark)[0].strip() for text in plain]
            break
    if _HALF_FIRST.search(first):
        plain = [_HALF_FIRST.sub(lambda found: f"{found[2]} {_HALVES[found[1]]}", text) for text in plain]
    if _NAMED_ZONE.fullmatch(plain[0] if plain else ""):
        plain = [_NAMED_ZONE.sub(lambda found: found[1] + _ZONES[found[2]], text) for text in plain]
    if DAYS.fullmatch(plain[0] if plain else ""):
        plain = [DAYS.sub(_in_hours, text) for text in plain]
    if _QUARTER_FIRST.fullmatch(first):
        plain = [_QUARTER_FIRST.sub(r"\2Q\1", text) for text in plain]
    late = np.array([" 24:00" in text or "T24:00" in text for text in plain], bool)
    if late.any():
        plain = [
            _MIDNIGHT.sub(r"\g<1>00\2\3", text) if after else text for text, after in zip(plain, late, strict=True)
        ]
    return plain, late


def _in_hours(found: re.Match[str]) -> str:
    return f"{found[1]}{24 * int(found[2]) + int(found[3]):02}:{found[4]}"


def _is_span(text: str, mark: str) -> bool:
    parts = [re.sub(r"\d", "0", part.strip()) for part in text.split(mark)]
    return len(parts) == 2 and parts[0] == parts[1] and parts[0].count("0") >= _MIN_DIGITS
