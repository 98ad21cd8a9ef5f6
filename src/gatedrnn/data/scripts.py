"""Scripts that are written without blanks between words, and whether texts are in them."""

import re
from collections.abc import Iterable

UNDIVIDED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u1950-\u19df\u1a20-\u1aaf\uaa80-\uaadf"  # Tai Le, New Tai Lue, Tai Tham, Tai Viet
    "\u3005-\u3007\u3041-\u3096\u3099-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # kana, and 々〆〇
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u2e80-\u2fd5\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Ranges of a regular expression's class: letters, vowel signs and digits of these scripts. Korean has blanks between
words, and Tibetan a mark between syllables: they are not among them."""
MIN_SHARE = 0.1
"""The least share of letters for which texts are read as their script has it: of these scripts letter by letter, of all
others by words and n-grams within words. It is low, so that texts of both kinds are read in both ways."""
_UNDIVIDED, _LETTERS = re.compile(f"[{UNDIVIDED}]"), re.compile(rf"[^\W\d_{UNDIVIDED}]")


def undivided_share(texts: Iterable[str]) -> float:
    """The share of letters that belong to scripts without blanks between words, 0 where there are no letters.

    It goes through the texts once and keeps none of them.

    Example:
        >>> undivided_share(["这本书很好", "good"])
        0.5555555555555556
    """
    undivided = others = 0
    for text in texts:
        undivided += len(_UNDIVIDED.findall(text))
        others += len(_LETTERS.findall(text))
    return undivided / max(1, undivided + others)
