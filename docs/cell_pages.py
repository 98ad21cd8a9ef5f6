"""A page of the reference for each cell, `api/cells/NAME.md`, from the registry, as a Sphinx extension.

A page is made from the docstring of the cell's layer; shared arguments at length are in `api/layers.md`.
"""

import inspect
import os
import re
from pathlib import Path
from textwrap import dedent

from pictures import cells as drawn_cells

from gatedrnn.equations import option_word
from gatedrnn.inspect.describe import describe
from gatedrnn.kinds import kind_of
from gatedrnn.registry import CELLS
from gatedrnn.study.settings import LADDERS

DOCS = Path(__file__).parent
FEATURES, HIDDEN = 6, 12
"""Sizes of a layer that differ, so that a shape tells which it has; every block size divides the second."""

GREEK = "beta", "delta", "gamma", "nu", "theta"
FUNCTIONS = {"sigmoid": r"\sigma", **{name: rf"\{name}" for name in ("tanh", "exp", "log")}}
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


def parts(name: str) -> tuple[str, str, str, str]:
    """The summary, the equations, the notes and the sections of the docstring of a cell's layer."""
    before, _, sections = inspect.cleandoc(CELLS[name].layer.__doc__).partition("\n\nArgs:")
    said, equations, *notes = before.split("\n\n")
    return said, dedent(equations.removeprefix("Equations:\n")), "\n\n".join(notes), f"Args:{sections}"


def related(name: str) -> list[str]:
    """Four cells: those beside it in a ladder, then those of its family, with the same transition first."""
    beside = [
        steps[at]
        for steps in LADDERS.values()
        if name in steps
        for at in (steps.index(name) - 1, steps.index(name) + 1)
        if 0 <= at < len(steps)
    ]
    order = list(CELLS)

    def distance(other: str) -> tuple[bool, bool, int]:
        alike = tracking(other).name == tracking(name).name
        return family(other) != family(name), not alike, abs(order.index(other) - order.index(name))

    others = sorted(order, key=distance)
    return [other for other in dict.fromkeys([*beside, *others]) if other != name][:4]


def family(name: str) -> str:
    """The classic cell that a cell's name recalls, or none."""
    return next((classic for classic in ("lstm", "gru") if classic in CELLS[name].layer.__name__.lower()), "")


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


def state(name: str, layer) -> str:
    """The form, the shapes and the beginning of a cell's state."""
    section = re.search(r"\n\nState:\n(.*?)\n\n", parts(name)[3], re.S)[1]
    tensors = [f"`{key}` {shape}" for key, shape in re.findall(r"^ {4}(\w): (\(.*?\))", section, re.M)]
    form = "one tensor, " if len(tensors) == 1 else "a tuple: "
    learned = any(key.startswith("initial_state") for key, _ in layer.named_parameters())
    begins = "a learned value, `initial_state_l0`" if learned else "zeros"
    return f"{form}{'; '.join(tensors)}; L = layers · directions. It begins with {begins}"


def facts(name: str) -> list[tuple[str, str]]:
    """Rows of a table of what the cell is."""
    layer, square = CELLS[name].layer(FEATURES, HIDDEN), CELLS[name].layer(64, 64)
    described, class_, gaps = describe(square), tracking(name), kind_of(layer.cell).facts(layer.cell).gaps
    names = ", ".join(f"`{key}` {tuple(weight.shape)}" for key, weight in square.named_parameters())
    options = [f"`{name}:{key}={option_word(value)}`" for key, value in CELLS[name].options.items()]
    takes_gaps = "yes: it learns what a gap does" if gaps and gaps.features else "yes: its decay is raised to them"
    scales = "yes" if takes(name, longest_time_scale=1000) else "refused: no gate of it sets a decay by itself"
    return [
        ("on the command line", f"`--cell {name}`" + (f"; options {', '.join(options)}" if options else "")),
        ("state, `hx` and `h_n`", state(name, layer)),
        ("gates, in the order of the rows of `weight_ih_l0`", ", ".join(described.gates)),
        ("initialisation", described.initialisation),
        ("parameters, 64 features to 64 channels", f"{described.total:,}: {names}"),
        ("multiply-adds a step, the same size", f"{described.multiply_adds:,}"),
        ("[runs on](../../kernels.md) a CPU in training", f"{square.runs_on(training=True).name}"),
        ("[transition](../../expressivity.md)", f"{class_.transition}; follows {class_.follows}"),
        ("[`gaps`](../../use-a-cell.md#uneven-time)", takes_gaps if gaps else "refused"),
        ("`longest_time_scale`", scales),
        ("`proj_size`", "yes" if takes(name, proj_size=2) else "none"),
        ("`zoneout`", "yes" if takes(name, zoneout=0.1) else "refused"),
    ]


def page(name: str) -> str:
    """The page of a cell."""
    record = CELLS[name]
    layer, step = record.layer.__name__, record.single_step
    title = f"{layer} ({name})" if "-" in name else layer
    _, equations, notes, _ = parts(name)
    drawn = [f"```{{picture}} {name}\n```", DRAWN.get(name, "")] if name in drawn_cells.CELLS else []
    table = [f"| {key} | {value} |" for key, value in facts(name)]
    others = [f"- [`{CELLS[other].layer.__name__}`]({other}.md): {summary(other)}" for other in related(name)]
    inline = f"```{{eval-rst}}\n.. autoclass:: gatedrnn.{layer}\n```"
    chunks = [
        "---\nnosearch: true\n---",  # its title and names are found; its text is much like that of other cells
        f"# {title}", inline, *drawn, "## Equations", rendered(equations), as_markdown(notes),
        "## At a glance", "\n".join(["| | |", "|---|---|", *table]),
        "## Arguments and calls",
        "Arguments at length, {py:meth}`forward <gatedrnn.RecurrentLayer.forward>` with `mask`, `resets` and `gaps`, "
        "{py:meth}`step <gatedrnn.RecurrentLayer.step>`, {py:meth}`runs_on <gatedrnn.RecurrentLayer.runs_on>` and the "
        "rest are those of [every layer](../layers.md).",
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
    learnt = [f"- In the course: {', '.join(found)}"] if (found := lessons(layer)) else []
    chunks += ["## See also", "\n".join([*others, *SEE, *learnt])]
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


def summary(name: str) -> str:
    """The first paragraph of a layer's docstring."""
    return parts(name)[0]


def table() -> list[str]:
    """The lines of a table of all cells, with links to their pages."""
    rows = ["| layer | single step | command line | |", "|---|---|---|---|"]
    for name, record in CELLS.items():
        step = f"`{record.single_step.__name__}`" if record.single_step else ""
        rows.append(f"| [`{record.layer.__name__}`](cells/{name}.md) | {step} | `{name}` | {summary(name)} |")
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
    """Leave out of a layer's docstring the equations and notes, which the page has as formulas below."""
    for cell, record in CELLS.items():
        if obj is record.layer:
            said, *_, sections = parts(cell)
            lines[:] = [*f"{said}\n\n{sections}".split("\n"), ""]


def setup(app):
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", shorten, priority=300)
    return {"parallel_read_safe": True}
