"""Counts and differences in words, the same in every report."""

import re

_LATEX = {sign: "\\" + sign for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "×": r"$\times$",
}  # fmt: skip


def plural(count: int, noun: str) -> str:
    """A count with its noun, whatever follows "of" in it.

    Example:
        >>> plural(1, "seed"), plural(2, "process"), plural(3, "block of 100 tokens"), plural(4, "series")
        ('1 seed', '2 processes', '3 blocks of 100 tokens', '4 series')
    """
    noun, of, rest = noun.partition(" of ")
    ending = "es" if noun.endswith(("s", "x", "ch")) else "s"
    return f"{count:,} {noun}{'' if count == 1 or noun == 'series' else ending}{of}{rest}"


def signed(value: float, form: str = ".4f") -> str:
    """A difference with its sign; zero, and what rounds to it, has none.

    Example:
        >>> signed(0.0312), signed(-0.00001), signed(0.25, ".1%")
        ('+0.0312', '0.0000', '+25.0%')
    """
    text = f"{value:+{form}}"
    return text if any(digit in text for digit in "123456789") else text[1:]


def latex(text: str) -> str:
    r"""Text for LaTeX, with what means something else there escaped; a minus before a digit as one.

    Example:
        >>> latex("gru-params, 0.5 %"), latex("-0.02")
        ('gru-params, 0.5 \\%', '$-$0.02')
    """
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
