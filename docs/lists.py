"""Lists and tables of the reference that follow from the package, as a Sphinx extension.

A line `.. cells::` becomes the table of all cells, `.. settings:: ModelSettings` that of these settings, `.. laws::`
that of the laws of all recurrent modules, and `.. verified:: FILE` that of a kept `gatedrnn verify`.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import cell_pages
from field_docstrings import docstrings

from gatedrnn.data.registry import all_settings
from gatedrnn.laws.laws import FIRST, GENERATION, LAWS
from gatedrnn.study.settings import ContenderSettings, ProbeSettings, SearchSettings
from gatedrnn.training.settings import CellSettings, ModelSettings, TrainSettings

RESULTS = Path(__file__).parents[1] / "results"

SETTINGS = {
    kind.__name__: kind
    for kind in (
        *all_settings().values(), CellSettings, ModelSettings, TrainSettings, ContenderSettings, SearchSettings,
        ProbeSettings,
    )
}  # fmt: skip


def listed(text: str) -> str:
    """A page with the directives and tables in the place of those lines."""
    text = re.sub(r"^\.\. cells::$", lambda line: "\n".join(cell_pages.table()), text, flags=re.M)
    text = re.sub(r"^\.\. laws::$", lambda line: "\n".join(laws()), text, flags=re.M)
    text = re.sub(r"^\.\. verified:: (\S+)$", lambda line: "\n".join(verified(line[1])), text, flags=re.M)
    return re.sub(r"^\.\. settings:: (\w+)$", lambda line: "\n".join(table(line[1])), text, flags=re.M)


def laws() -> list[str]:
    """The lines of a table of all laws, each in its sentence."""
    rows = ["| law | says | for gradients too |", "|---|---|---|"]
    for law in (*FIRST, *LAWS, *GENERATION):
        rows.append(f"| {law.name} | {law.says} | {'yes' if law.gradients else ''} |")
    return rows


def verified(name: str) -> list[str]:
    """The lines that name the subjects of a kept record that break no law, and a table of those that do."""
    record = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    sound = ", ".join(f"`{one['subject'].partition(':')[2]}`" for one in record["subjects"] if one["passed"])
    rows = [
        f"No law is broken by {sound}.",
        "",
        "| family | laws broken, with the error at the smallest case |",
        "|---|---|",
    ]
    for one in record["subjects"]:
        broken = [f"{each['law']} ({said(each)})" for each in one["others"] if each["verdict"] != "noted"]
        if broken:
            rows.append(f"| `{one['subject'].partition(':')[2]}` | {'; '.join(broken)} |")
    return rows


def said(broken: dict[str, object]) -> str:
    """The error of a law that fails, in two digits, or that it raises."""
    return "raises" if broken["error"] is None else f"{broken['error']:.2g}"


def table(name: str) -> list[str]:
    """The lines of a table in Markdown: keyword, default and description of each setting."""
    described, rows = docstrings(name), ["| setting | default | |", "|---|---|---|"]
    for field, info in SETTINGS[name].model_fields.items():
        if field != "task":
            factory = info.default_factory is not None
            default = "" if factory or info.is_required() or info.default is None else f"`{plain(info.default)}`"
            text = re.sub(r"(?<![`\w-])--[a-z][\w=-]*", r"`\g<0>`", " ".join(described[field].split()))
            rows.append(f"| `{field}` | {default} | {text} |")
    return rows


def plain(value: object) -> str:
    """A default as the command line takes it."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(app, name, content):
    """Complete a page of the reference."""
    content[0] = listed(content[0])


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
