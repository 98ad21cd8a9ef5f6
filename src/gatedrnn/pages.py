"""The base of all reports: one HTML file that makes no network request; and counts and differences in words."""

import re
from pathlib import Path

import plotly.graph_objects as go
from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from gatedrnn.records import Machine, write_whole

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


# After Okabe & Ito's, which colour-blind readers distinguish too; from the ninth on the same, darker.
COLOURS = (
    "#0072B2", "#A86400", "#007F5C", "#B3568A", "#6A51A3", "#C24A00", "#6E6E6E", "#7D7200",
    "#00456B", "#6B4400", "#004D38", "#7A2A5A", "#46307C", "#7F2E00", "#474747", "#544D00",
)  # fmt: skip
"""The colours of lines and marks on white."""
_NIGHT = (
    "#56B4E9", "#E69F00", "#14B88A", "#E08FBD", "#A99BE0", "#FF7F3F", "#A3A3A3", "#D6C92E",
    "#A9D8F5", "#F7CF7F", "#84E0C4", "#F3C4DE", "#D3CBF5", "#FFB896", "#D0D0D0", "#EFE79A",
)  # fmt: skip
"""The colours of lines and marks on a dark page."""
GREY = COLOURS[6]
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans KR', sans-serif"


def apply_style(figure: go.Figure) -> go.Figure:
    """Apply the colours, type and margins of all reports; the legend is at the bottom, below all titles on narrow
    screens too.
    """
    figure.update_layout(
        template="plotly_white", paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 13}, margin={"l": 10, "r": 10, "t": 20, "b": 10},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"}, hovermode="closest",
    )  # fmt: skip
    return figure


def write_page(package: str, template: str, path: Path, figures: dict[str, go.Figure], **shown: object) -> None:
    """Write `path` from a template of `package` (or of this one): figures by title, and the values it shows."""
    config = {"displaylogo": False, "responsive": True}
    drawn = {
        title: to_html(apply_style(figure), include_plotlyjs=False, full_html=False, config=config)
        for title, figure in figures.items()
    }
    script = get_plotlyjs() if drawn else ""  # begins with its notice
    night = dict(zip(COLOURS, _NIGHT, strict=True))
    write_whole(path, render(package, template, **shown, figures=drawn, plotly=script, font=FONT, night=night))


def render(package: str, template: str, **shown: object) -> str:
    """A template of `package` (or of this one) with the values it shows.

    Templates have the filters `plural`, where `{{ 2 | plural("seed") }}` is "2 seeds", and `latex`, which escapes.
    """
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=select_autoescape(["html"]), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters |= {"plural": plural, "latex": latex}
    return templates.get_template(template).render(**shown)


def environment_rows(date: str, environment: Machine) -> list[tuple[str, str]]:
    """The date and the machine of a measurement, as names and values."""
    return [
        ("date", date),
        *([("commit", commit)] if (commit := environment.get("commit")) else []),
        ("processor", f"{environment['processor']}, {plural(environment['cores'] or 0, 'core')}"),
        ("system", environment["system"]),
        ("python", environment["python"]),
        *environment["versions"].items(),
    ]
