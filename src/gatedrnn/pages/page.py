"""A page from a template and figures, and how figures look."""

from importlib.resources import files
from pathlib import Path

import plotly.graph_objects as go
from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape
from plotly.io import to_html

from gatedrnn.pages.words import latex, plural
from gatedrnn.records import Machine, write_whole

# After Okabe & Ito's, which colour-blind readers distinguish too; from the ninth on the same, darker.
COLOURS = (
    "#0072B2", "#A86400", "#007F5C", "#B3568A", "#6A51A3", "#C24A00", "#6E6E6E", "#7D7200",
    "#00456B", "#6B4400", "#004D38", "#7A2A5A", "#46307C", "#7F2E00", "#474747", "#544D00",
)  # fmt: skip
"""The colours of lines and marks on white."""
NIGHT = (
    "#56B4E9", "#E69F00", "#14B88A", "#E08FBD", "#A99BE0", "#FF7F3F", "#A3A3A3", "#D6C92E",
    "#A9D8F5", "#F7CF7F", "#84E0C4", "#F3C4DE", "#D3CBF5", "#FFB896", "#D0D0D0", "#EFE79A",
)  # fmt: skip
"""The colours of lines and marks on a dark page."""
GREY = COLOURS[6]
PLOTLY = "plotly-cartesian.min.js"
"""plotly.js with the two-dimensional traces alone, as npm has it: a third of what the Python package brings. Of the
version of the package in constraints.txt; MIT."""
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
    script = files(__package__).joinpath(PLOTLY).read_text(encoding="utf-8") if drawn else ""
    write_whole(
        path,
        render(
            package,
            template,
            **shown,
            figures=drawn,
            plotly=script,
            font=FONT,
            night=dict(zip(COLOURS, NIGHT, strict=True)),
        ),
    )


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
