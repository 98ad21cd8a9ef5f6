"""A page of the reference for each cell, `api/cells/NAME.md`, from the registry, as a Sphinx extension.

A page has what is the cell's own; what all layers have in common is in `api/layers.md`.
"""

import inspect
import os
import re
from pathlib import Path

from pictures import cells as drawn_cells

from gatedrnn.equations import option_word
from gatedrnn.inspect.describe import describe
from gatedrnn.kinds import kind_of
from gatedrnn.registry import CELLS
from gatedrnn.study.settings import LADDERS

DOCS = Path(__file__).parent
OF_ALL = re.compile(r"\n\n(?=(?:Equations|Args|Inputs|Outputs|Raises|Example)\b)")

OURS = [made for record in CELLS.values() for made in (record.layer, record.single_step) if made]

GREEK = "beta", "delta", "gamma", "nu", "theta"
FUNCTIONS = {"sigmoid": r"\sigma", **{name: rf"\{name}" for name in ("tanh", "exp", "log", "max")}}
WORD = re.compile(r"(?P<letters>[A-Za-z]+)(?:_(?P<index>\w+))?")
REMARK = re.compile(r"(?<=\)) {4,}(?=\w)")


def written(name: str) -> str:
    """A name of an equation in LaTeX."""
    if name in GREEK:
        return rf"\{name}"
    return FUNCTIONS.get(name) or (name if len(name) == 1 else rf"\operatorname{{{name}}}")


def rooted(text: str) -> str:
    """An equation with square roots in LaTeX: the bracket that a root opens is closed by its own."""
    while (at := text.find("sqrt(")) >= 0:
        depth, end = 1, at + 5
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = f"{text[:at]}\0{{{text[at + 5 : end - 1]}}}{text[end:]}"
    return text.replace("\0", r"√")


def formula(equation: str) -> str:
    """An equation of a docstring in LaTeX; what is none stays text."""
    if "=" not in equation:
        return rf"&\quad\text{{{equation}}}"

    def word(found: re.Match[str]) -> str:
        index = found["index"]
        return written(found["letters"]) + (f"_{{{written(index) if index in GREEK else index}}}" if index else "")

    text = WORD.sub(word, rooted(equation.strip()))
    text = text.replace("√", r"\sqrt").replace(" * ", r" \odot ").replace("·", r"\,")
    return text.replace(" = ", " &= ", 1)


def rendered(lines: str) -> str:
    """A paragraph of equations as a block of LaTeX, several on a line apart by a comma and two blanks; below it, by
    number, the remarks that stand behind some of them."""
    rows, remarks = [], []
    for line in lines.splitlines():
        said, *remark = REMARK.split(line, maxsplit=1)
        made = [formula(each) for each in re.split(r",\s{2,}", said)]
        if remark:
            remarks += remark
            made[-1] += rf"\qquad\text{{({len(remarks)})}}"
        rows += made
    block = "$$\n\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}\n$$"
    return "\n".join([block, *(f"\n({number}) {as_markdown(remark)}" for number, remark in enumerate(remarks, 1))])


def parts(docstring: str) -> tuple[str, str, str]:
    """The summary, the equations and the notes of a docstring of equations."""
    summary, lines, *notes = inspect.cleandoc(docstring).split("\n\n")
    return summary, lines, "\n\n".join(notes)


def own(docstring: str) -> str:
    """A docstring without the arguments and shapes of all: the cell's summary, options and example."""
    sections = OF_ALL.split(inspect.cleandoc(docstring))
    before = sections[: next(i for i, part in enumerate(sections) if part.startswith("Equations"))]
    example = [part for part in sections if part.startswith("Example")]
    return "\n\n".join([*before, *example])


def related(name: str) -> list[str]:
    """Cells beside it in a ladder, then those whose state moves in the same way."""
    beside = [
        steps[at]
        for steps in LADDERS.values()
        if name in steps
        for at in (steps.index(name) - 1, steps.index(name) + 1)
        if 0 <= at < len(steps)
    ]
    transition = tracking(name).name
    return [*dict.fromkeys([*beside, *(other for other in CELLS if tracking(other).name == transition)])]


def tracking(name: str):
    """The class of tasks that a cell can track."""
    equations = CELLS[name].equations()
    return kind_of(equations).tracking(equations)


def lessons(layer: str) -> list[str]:
    """Links to the notebooks of the course that use a layer."""
    found = []
    for path in sorted((DOCS / "learn").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        if re.search(rf"\b{layer}(?:Cell)?\b", text):
            title = re.search(r"^# (.*)$", text, re.M)[1]
            found.append(f"[{title}](../../learn/{path.name})")
    return found


def takes(name: str, **options: object) -> bool:
    """Whether a layer of the cell can be made with these options."""
    try:
        CELLS[name].layer(4, 4, **options)
    except ValueError:
        return False
    return True


def facts(name: str) -> list[tuple[str, str]]:
    """Rows of a table of what the cell is."""
    layer = CELLS[name].layer(64, 64)
    described, class_, gaps = describe(layer), tracking(name), kind_of(layer.cell).gaps(layer.cell)
    states = ", ".join(f"`{state}`" for state in layer.state_names)
    form = "one tensor" if len(layer.state_names) == 1 else "a tuple"
    ending = " It takes `gap_features` times a step too." if gaps and gaps.features else ""
    says = "its decay is raised to them" if gaps and not gaps.features else "it learns what a gap does"
    names = ", ".join(f"`{key}` {tuple(weight.shape)}" for key, weight in layer.named_parameters())
    options = [f"`{name}:{key}={option_word(value)}`" for key, value in CELLS[name].options.items()]
    return [
        ("on the command line", f"`--cell {name}`" + (f"; options {', '.join(options)}" if options else "")),
        ("state, `hx` and `h_n`", f"{form} ({states}), each (layers · directions, batch, hidden_size)"),
        ("parameters, 64 features to 64 channels", f"{described.total:,}"),
        ("their names and shapes", names),
        ("multiply-adds a step, the same size", f"{described.multiply_adds:,}"),
        ("[runs on](../../use-a-cell.md#the-cells) a CPU in training", f"{layer.runs_on(training=True).name}"),
        ("[transition](../../expressivity.md)", f"{class_.transition}; follows {class_.follows}"),
        ("[`gaps`](../../use-a-cell.md#uneven-time)", f"yes: {says}.{ending}" if gaps else "refused"),
        ("`proj_size`", "yes" if takes(name, proj_size=2) else "none"),
        ("`zoneout`", "yes" if takes(name, zoneout=0.1) else "refused"),
    ]


def page(name: str) -> str:
    """The page of a cell."""
    record = CELLS[name]
    layer, step = record.layer.__name__, record.single_step
    _, equations, notes = parts(record.equations.__doc__)
    drawn = [f"```{{picture}} {name}\n```", DRAWN.get(name, "")] if name in drawn_cells.CELLS else []
    table = [f"| {key} | {value} |" for key, value in facts(name)]
    others = ", ".join(f"[`{CELLS[other].layer.__name__}`]({other}.md)" for other in related(name) if other != name)
    inline = f"```{{eval-rst}}\n.. autoclass:: gatedrnn.{layer}\n```"
    chunks = [
        f"# {layer}", inline, *drawn, "## Equations", rendered(equations), as_markdown(notes),
        "## At a glance", "\n".join(["| | |", "|---|---|", *table]),
        "## Arguments and calls",
        "All arguments that are not described above, `forward` with `mask`, `resets` and `gaps`, `step`, `runs_on` and "
        "the other methods are those of [every layer](../layers.md).",
        EXAMPLE.format(layer=layer),
    ]  # fmt: skip
    file = Path(inspect.getfile(record.layer))
    shown = Path(os.path.relpath(file, DOCS / "api" / "cells")).as_posix()
    if step:
        chunks += ["## Single step", f"```{{eval-rst}}\n.. autoclass:: gatedrnn.{step.__name__}\n```"]
    chunks += [
        "## Source",
        f":::{{dropdown}} `gatedrnn/cells/{file.name}`: equations, layer and a step in numpy\n"
        f"```{{literalinclude}} {shown}\n:language: python\n```\n:::",
    ]  # fmt: skip
    chunks += ["## See also", f"- Cells near it: {others}" if others else "", *SEE]
    if learnt := lessons(layer):
        chunks.append("- In the course: " + ", ".join(learnt))
    return "\n\n".join(chunk for chunk in chunks if chunk) + "\n"


DRAWN = {"gru": "The picture has `reset_after=False`: r acts before the product."}
"""Remarks on pictures that are not of the default cell."""
EXAMPLE = """```python
import torch
from gatedrnn import {layer}

layer = {layer}(8, 16, num_layers=2, batch_first=True)
x = torch.randn(4, 20, 8)  # (batch, time, features)
mask = torch.arange(20) < torch.tensor([20, 12, 5, 1])[:, None]  # True = real step
output, h_n = layer(x, mask=mask)  # output: (4, 20, 16), 0 at padding
resets = torch.zeros(4, 20, dtype=torch.bool)
resets[:, 10] = True  # a new document begins at step 10
output, h_n = layer(x, resets=resets)
y, state = layer.step(x[:, 0])  # a stream: y (4, 16); hand the state to the next call
```"""
SEE = (
    "- [Which cell when](../../which-cell.md), [masks, resets, streams and initialisation](../../use-a-cell.md), "
    "[export](../../export.md), [the laws it keeps](../../verify.md)",
)


def as_markdown(text: str) -> str:
    """A docstring's paragraphs in Markdown."""
    return re.sub(r"(?<![\w*])\*(?=[ .])|(?<=\w)_(?=\()", r"\\\g<0>", text)


def table() -> list[str]:
    """The lines of a table of all cells, with links to their pages."""
    rows = ["| layer | single step | command line | |", "|---|---|---|---|"]
    for name, record in CELLS.items():
        summary = " ".join(own(record.layer.__doc__).split("\n\n")[0].split())
        step = f"`{record.single_step.__name__}`" if record.single_step else ""
        rows.append(f"| [`{record.layer.__name__}`](cells/{name}.md) | {step} | `{name}` | {summary} |")
    return rows


def write(app) -> None:
    """Write the pages, those that changed."""
    folder = Path(app.srcdir) / "api" / "cells"
    if not folder.parent.is_dir():  # the Korean course has no reference
        return
    folder.mkdir(exist_ok=True)
    for name in CELLS:
        path, text = folder / f"{name}.md", page(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def shorten(app, what, name, obj, options, lines):
    """Leave out of a cell's docstring what is said of all."""
    if obj in OURS and "Equations:" in lines:
        lines[:] = [*own("\n".join(lines)).split("\n"), ""]


def setup(app):
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", shorten, priority=300)
    return {"parallel_read_safe": True}
