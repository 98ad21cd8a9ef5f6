"""Slides on one page that needs nothing else: texts in two languages, charts, and how both are written."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pictures
from jinja2 import Environment, FileSystemLoader, select_autoescape
from markupsafe import Markup, escape
from matplotlib.ticker import MaxNLocator

from gatedrnn import __version__
from gatedrnn.pages import FONT

Language = Literal["en", "ko"]
Kind = Literal["cell", "taken", "plain"]
"""The kind of a mark: a cell, the one that the slide recommends, or a baseline without a recurrent network."""
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
"""A picture says it as a file; within a page of HTML it is known, and the page names no address."""
MARGIN = 0.04
"""The margin of an axis beyond its first and last value."""
MAX_TICKS = 3
"""More labels would touch each other."""


class Words(NamedTuple):
    """One text in both languages, with code between backticks."""

    en: str
    ko: str


def same(text: str) -> Words:
    """A text that needs no translation."""
    return Words(text, text)


def joined(*parts: Words, by: str = " · ") -> Words:
    """Several texts as one."""
    return Words(by.join(part.en for part in parts), by.join(part.ko for part in parts))


class Axis(NamedTuple):
    """The values that a chart spans, and those that it labels."""

    low: float
    high: float
    ticks: list[float]

    def at(self, value: float) -> str:
        """The position of a value, as a part of the width."""
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"


class Mark(NamedTuple):
    """One line of a chart: a name, what is drawn, and the same in figures."""

    label: Words
    shown: Words
    value: float | None = None
    interval: tuple[float, float] | None = None
    seeds: Sequence[float] = ()
    kind: Kind = "cell"


class Chart(NamedTuple):
    """Values on one axis; as bars they begin at zero."""

    title: Words
    marks: Sequence[Mark]
    bars: bool = False

    @property
    def axis(self) -> Axis:
        """The axis, which holds all that is drawn."""
        drawn = [value for mark in self.marks for value in (mark.value, *(mark.interval or ()), *mark.seeds)]
        values = [value for value in drawn if value is not None]
        low, high = (0.0 if self.bars else min(values)), max(values)
        round_values = MaxNLocator(MAX_TICKS, steps=[1, 2, 5, 10]).tick_values(low, high)
        ticks = [value for value in round_values if low <= value <= high]
        margin = MARGIN * (high - low)
        return Axis(low if self.bars else low - margin, high + margin, ticks[:: -(-len(ticks) // MAX_TICKS)])

    @property
    def key(self) -> Words:
        """The meaning of the marks; bars need no words."""
        has_seeds, has_intervals = any(mark.seeds for mark in self.marks), any(mark.interval for mark in self.marks)
        has_means = has_seeds and any(mark.value is not None for mark in self.marks)
        parts = [
            (has_means, Words("dot: mean", "점: 평균")),
            (has_intervals, Words("line: 95 % interval", "선: 95% 신뢰구간")),
            (has_seeds, Words("rings: seeds", "작은 원: 시드")),
        ]
        return joined(*(words for drawn, words in parts if drawn), by=", ")


class Slide(NamedTuple):
    """One line of the decision table, and the slide behind it."""

    anchor: str
    need: Words
    take: Words
    cost: Words
    """The price of that choice."""
    reason: Words
    """A sentence on what was measured; also the title of the slide."""
    charts: Sequence[Chart]
    limits: Sequence[Words]
    """Limits of the evidence."""
    settings: Words
    records: Sequence[str]
    """Folders or files under results/."""
    holds: bool
    """Whether the records support what the texts say in words."""
    picture: str | None = None
    """A picture of the documentation that is shown beside the charts."""


def write(folder: Path, name: str, slides: Sequence[Slide]) -> None:
    """Write the slides as NAME.html in English and as NAME.ko.html in Korean.

    Raises:
        ValueError: the records do not support the words of a slide.
    """
    if refuted := [slide.anchor for slide in slides if not slide.holds]:
        raise ValueError(f"the records do not support the words of {', '.join(refuted)}")
    files: dict[Language, str] = {"en": f"{name}.html", "ko": f"{name}.ko.html"}
    folder.mkdir(parents=True, exist_ok=True)
    for language, file in files.items():
        templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=select_autoescape(["html"]),
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        templates.filters["said"] = lambda words, spoken=language: _marked(getattr(words, spoken))
        page = templates.get_template("slides.html").render(
            language=language,
            files=files,
            slides=slides,
            words=Words,
            font=FONT,
            version=__version__,
            drawn=lambda name, spoken=language: Markup(pictures.picture(name, 0, spoken).replace(NAMESPACE, "")),
        )
        (folder / file).write_text(page, encoding="utf-8")


def _marked(text: str) -> Markup:
    """A text as HTML, with what is between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))
