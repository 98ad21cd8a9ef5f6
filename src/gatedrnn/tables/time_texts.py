"""Times as grid operators, loggers and spreadsheets write them, in the forms that `times` reads."""

import re
from collections.abc import Sequence

import numpy as np

SPANS = (" - ", " – ", " — ", " to ", "/", "–")
"""Marks between the begin and the end of a span of time."""
MIN_DIGITS = 6
"""Digits of a date at least, so that 1/2 is no span."""
HALVES = {"오전": "AM", "오후": "PM", "上午": "AM", "下午": "PM", "午前": "AM", "午後": "PM"}
"""Words for the halves of a day that stand before the hour."""
HALF_FIRST = re.compile(rf"({'|'.join(HALVES)})\s*(\d{{1,2}}:\d\d(?::\d\d)?)")
ZONES = {
    "GMT": "+00:00", "WET": "+00:00", "WEST": "+01:00", "CET": "+01:00", "CEST": "+02:00", "MEZ": "+01:00",
    "MESZ": "+02:00", "EET": "+02:00", "EEST": "+03:00", "MSK": "+03:00", "KST": "+09:00", "JST": "+09:00",
    "AEST": "+10:00", "AEDT": "+11:00", "NZST": "+12:00", "NZDT": "+13:00", "EST": "-05:00", "EDT": "-04:00",
    "CDT": "-05:00", "MDT": "-06:00", "PST": "-08:00", "PDT": "-07:00",
}  # fmt: skip
"""Offsets of the abbreviations that mean one zone alone; CST, IST, BST and MST mean several, and are no dates here."""
NAMED_ZONE = re.compile(rf"(.*\d) ?({'|'.join(ZONES)})")
MIDNIGHT = re.compile(r"(.*[T ])24(:00(?::00(?:\.0+)?)?)(.*)")
"""The end of a day as 24:00."""
DAYS = re.compile(r"(-?)(\d+) days? \+?(\d\d):(.*)")
"""A duration as pandas writes it."""


def plain_texts(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Times as text in plain forms, and the rows that lie a day later than their text says.

    Of a span its begin is taken; 24:00 is 00:00 of the next day; the half of a day stands behind the hour; an
    abbreviation of a zone is its offset; days of a duration are hours.

    Example:
        >>> plain_texts(["2024-01-01 23:00 - 2024-01-01 24:00", "2024-01-01 24:00 - 2024-01-02 01:00"])
        (['2024-01-01 23:00', '2024-01-01 00:00'], array([False,  True]))
    """
    first = texts[0] if texts else ""
    plain = list(texts)
    for mark in SPANS:
        if _is_span(first, mark):
            if all(_is_span(text, mark) for text in plain):
                plain = [text.split(mark)[0].strip() for text in plain]
            break
    if HALF_FIRST.search(first):
        plain = [HALF_FIRST.sub(lambda found: f"{found[2]} {HALVES[found[1]]}", text) for text in plain]
    if NAMED_ZONE.fullmatch(plain[0] if plain else ""):
        plain = [NAMED_ZONE.sub(lambda found: found[1] + ZONES[found[2]], text) for text in plain]
    if DAYS.fullmatch(plain[0] if plain else ""):
        plain = [DAYS.sub(_in_hours, text) for text in plain]
    late = np.array([" 24:00" in text or "T24:00" in text for text in plain], bool)
    if late.any():
        plain = [MIDNIGHT.sub(r"\g<1>00\2\3", text) if after else text for text, after in zip(plain, late, strict=True)]
    return plain, late


def _in_hours(found: re.Match[str]) -> str:
    return f"{found[1]}{24 * int(found[2]) + int(found[3]):02}:{found[4]}"


def _is_span(text: str, mark: str) -> bool:
    parts = [re.sub(r"\d", "0", part.strip()) for part in text.split(mark)]
    return len(parts) == 2 and parts[0] == parts[1] and parts[0].count("0") >= MIN_DIGITS
