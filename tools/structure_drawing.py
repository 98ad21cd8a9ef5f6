"""A picture of the package as SVG: a box for each package on its floor, and the two paths through them.

The lines and letters have the colour of the text around the picture; a browser that shows it alone follows the theme.
"""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import chain, pairwise
from textwrap import wrap
from typing import NamedTuple, TypeAlias

from imports import PACKAGE, Graph, Sources, arrows, floor_of, package_of

TENSOR = ("layers", "kinds", "kernels")
"""The packages that a tensor goes through, of which the existing are drawn; each imports the next one. In a layout
without kinds, operations are in their place."""
STUDY = ("cli", "studies", "study", "executors", "training", "train", "models")
"""The packages that a study goes through, likewise."""
TRAINING, DATA, REPORT, RECORDS = ("training", "train"), "data", "study", "records"
"""Training reads data and writes records, from which a study makes its report."""

COLUMNS = 3
WIDTH, LEFT, RIGHT = 560, 54, 44
"""Widths of the picture and of its margins: floors and one line at the left, two lines at the right."""
BOX_WIDTH, BOX_HEIGHT, ROW, COLUMN, TOP = 147, 32, 42, (WIDTH - LEFT - RIGHT) / COLUMNS, 12
STATION, NAME = 11, 20
"""Distances from a box's left edge to the line of a path, and to its name."""
_LETTER, DIGIT, LETTERS = 8.9, 7.6, 68
"""Widths of a letter of a name and of a digit, on average, in a wide font; letters in a line of the legend."""
STYLE = """
.structure { display: block; width: 100%; max-width: 46rem; height: auto; font-family: system-ui, sans-serif; }
svg.structure:root { color: #1b2430; background: #fff; }
@media (prefers-color-scheme: dark) { svg.structure:root { color: #dde3ea; background: #14181d; } }
.structure text { fill: currentColor; font-size: 14px; }
.structure .name { font-size: 15px; font-weight: 600; }
.structure .count, .structure .floor { font-size: 13px; text-anchor: end; }
.structure .box { fill: none; stroke: currentColor; stroke-opacity: .45; }
.structure .size { fill: currentColor; fill-opacity: .4; }
.structure .between { stroke: currentColor; stroke-opacity: .18; }
.structure .path { fill: none; stroke-width: 3; stroke-linejoin: round; }
.structure .back { stroke-dasharray: 5 4; }
.structure .tensor { stroke: #1f83c4; } .structure .tensor-end { fill: #1f83c4; }
.structure .study { stroke: #cc6a14; } .structure .study-end { fill: #cc6a14; }
"""


class Box(NamedTuple):
    """Row, from the top, and column of a box."""

    row: int
    column: int

    @property
    def left(self) -> float:
        return LEFT + self.column * COLUMN

    @property
    def right(self) -> float:
        return self.left + BOX_WIDTH

    @property
    def top(self) -> float:
        return TOP + self.row * ROW

    @property
    def middle(self) -> float:
        return self.top + BOX_HEIGHT / 2

    @property
    def station(self) -> float:
        """The x at which a path passes over the box."""
        return self.left + STATION


Boxes: TypeAlias = Mapping[str, Box]


def lines_of_code(sources: Sources) -> dict[str, int]:
    """The lines of each package that has a box."""
    lines: dict[str, int] = {}
    for module, source in sources.items():
        if module != PACKAGE:
            lines[package_of(module)] = lines.get(package_of(module), 0) + len(source.splitlines())
    return lines


def drawing(lines: Mapping[str, int], graph: Graph, floors: Mapping[str, int]) -> str:
    """The picture.

    Raises:
        ValueError: a path leads from a package to one that it does not import, or a package has no floor.
    """
    levels = {package: floor_of(package, floors) for package in sorted(lines, key=[*floors, *lines].index)}
    through = TENSOR if "kinds" in lines else tuple("ops" if name == "kinds" else name for name in TENSOR)
    tensor, study = ([name for name in path if name in lines] for path in (through, STUDY))
    check_steps([*pairwise(tensor), *pairwise(study), *asides(lines)], set(arrows(graph)))
    boxes = arrange(levels, tensor, study)
    meaning, below = legend(tensor, study)
    height = below + TOP + (1 + max(box.row for box in boxes.values())) * ROW
    parts = (
        head(height, levels, lines), meaning, [f'<g transform="translate(0 {below})">'], rectangles(boxes, lines),
        floor_marks(boxes, levels), tensor_path(boxes, tensor), study_path(boxes, study), ["</g>", "</svg>", ""],
    )  # fmt: skip
    return "\n".join(chain(*parts))


def asides(names: Iterable[str]) -> list[tuple[str, str]]:
    """The steps of a study that lead out of its column."""
    pairs = [(training, name) for training in TRAINING for name in (DATA, RECORDS)] + [(REPORT, RECORDS)]
    existing = set(names)
    return [pair for pair in pairs if existing.issuperset(pair)]


def check_steps(steps: Iterable[tuple[str, str]], imports: set[tuple[str, str]]) -> None:
    """Refuse a step from a package to one that it does not import."""
    for step in steps:
        if step not in imports:
            raise ValueError(f"the picture leads from {step[0]} to {step[1]}, but {step[0]} imports nothing from it")


def arrange(floors: Mapping[str, int], tensor: list[str], study: list[str]) -> dict[str, Box]:
    """A box for each package, the highest floor on top; nothing else is in a path's column between its ends."""
    fixed = dict.fromkeys(tensor, 0) | dict.fromkeys([*study, RECORDS], COLUMNS - 1) | {DATA: COLUMNS - 2}
    levels = sorted(set(floors.values()), reverse=True)
    ends = {column: [floors[name] for name in path] for column, path in ((0, tensor), (COLUMNS - 1, study))}
    above = {level: higher for higher, level in pairwise(levels)}
    ends[0] += [above.get(level, level) for level in ends[0]]  # where the tensor comes from
    boxes: dict[str, Box] = {}
    row = 0
    for level in levels:
        waiting = sorted((name for name in floors if floors[name] == level), key=lambda name: name not in fixed)
        taken = {column for column, of in ends.items() if of and min(of) <= level <= max(of)}
        while waiting:
            free = [column for column in range(COLUMNS) if column not in taken]
            for name in list(waiting):
                column = fixed.pop(name) if name in fixed else next(iter(free), None)
                if column is not None:
                    boxes[name] = Box(row, column)
                    waiting.remove(name)
                    free = [other for other in free if other != column]
            row += 1
    return boxes


def head(height: float, floors: Mapping[str, int], lines: Mapping[str, int]) -> Iterator[str]:
    """The beginning of the file, with its text for those who do not see it."""
    texts = []
    for level in sorted(set(floors.values()), reverse=True):
        names = [f"{name} ({shown(lines[name])})" for name in floors if floors[name] == level]
        texts.append(f"Floor {level}: {', '.join(names)}.")
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="structure" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        'aria-labelledby="structure-title structure-text">'
    )
    yield '<title id="structure-title">The packages on their floors, and two paths through them</title>'
    yield f'<desc id="structure-text">Packages with their lines of code. {" ".join(texts)}</desc>'
    yield f"<style>{STYLE}</style>"
    yield "<defs>"
    for path in ("tensor", "study"):
        yield (
            f'<marker id="structure-{path}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="3.4" markerHeight="3.4" '
            f'orient="auto"><path class="{path}-end" d="M0 0L8 4L0 8z"/></marker>'
        )
    yield "</defs>"


def legend(tensor: list[str], study: list[str]) -> tuple[list[str], int]:
    """The meaning of lines and boxes, and the height that it takes."""
    *names, last = study
    words = {
        "tensor": ("A tensor", f"layer(x) → {' → '.join(tensor)} → output, state"),
        "study": ("A study", f"{' → '.join(names)} → {DATA}, {last} → {RECORDS} → report"),
    }
    shapes, y = [], 20
    for path, (title, text) in words.items():
        shapes += [line(path, f"M8 {y - 5}H{LEFT - 14}"), f'<text class="name" x="{LEFT}" y="{y}">{title}</text>']
        for row in wrap(text, LETTERS):
            y += 18
            shapes.append(f'<text x="{LEFT}" y="{y}">{escape(row)}</text>')
        y += 24
    shapes.append(
        f'<text x="{LEFT}" y="{y}">Boxes: packages, lines of code; each imports from lower floors only</text>'
    )
    return shapes, y


def shown(lines: int) -> str:
    """A number of lines with two significant digits, so that the picture seldom changes."""
    return f"{rounded(lines):,}"


def rounded(lines: int) -> int:
    """The first two digits, then zeros."""
    return round(lines, min(0, 2 - len(str(lines))))


def rectangles(boxes: Boxes, lines: Mapping[str, int]) -> Iterator[str]:
    """The packages, with a bar as long as they have lines."""
    most, room = rounded(max(lines.values())), BOX_WIDTH - NAME - 6
    for name, box in boxes.items():
        x, y, count = box.left + NAME, box.top, shown(lines[name])
        fits = room - DIGIT * len(count) - 6
        squeezed = f' textLength="{fits:g}" lengthAdjust="spacingAndGlyphs"' if _LETTER * len(name) > fits else ""
        yield f'<rect class="box" x="{box.left:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
        bar = room * rounded(lines[name]) / most
        yield f'<rect class="size" x="{x:g}" y="{y + BOX_HEIGHT - 7:g}" width="{bar:.1f}" height="3"/>'
        yield f'<text class="name" x="{x:g}" y="{y + 19:g}"{squeezed}>{name}</text>'
        yield f'<text class="count" x="{box.right - 6:g}" y="{y + 19:g}">{count}</text>'


def floor_marks(boxes: Boxes, floors: Mapping[str, int]) -> Iterator[str]:
    """The number of each floor, and a line above it."""
    for level in sorted(set(floors.values()), reverse=True):
        top = min(boxes[name].top for name in floors if floors[name] == level)
        y = top - (ROW - BOX_HEIGHT) / 2
        yield f'<path class="between" d="M8 {y:g}H{WIDTH - 8}"/>'
        yield f'<text class="floor" x="26" y="{top + 20:g}">{level}</text>'


def line(path: str, steps: str, classes: str = "", end: bool = False) -> str:
    """A line of a path, through the points of `steps`."""
    marker = f' marker-end="url(#structure-{path})"' if end else ""
    return f'<path class="{" ".join(filter(None, ["path", path, classes]))}" d="{steps}"{marker}/>'


def down(path: str, boxes: Boxes, names: list[str]) -> Iterator[str]:
    """Draw a line from each box to the next one, and a dot in each."""
    for before, after in pairwise(boxes[name] for name in names):
        yield line(path, f"M{before.station:g} {before.middle:g}V{after.middle - 6:g}", end=True)
    for name in names:
        yield dot(path, boxes[name])


def dot(path: str, box: Box) -> str:
    """A mark where a path passes over a box."""
    return f'<circle class="{path}-end" cx="{box.station:g}" cy="{box.middle:g}" r="5"/>'


def tensor_path(boxes: Boxes, names: list[str]) -> Iterator[str]:
    """Down to the kernel, and back at the left."""
    if names:
        first, last, lane = boxes[names[0]], boxes[names[-1]], LEFT - 14
        above = first.middle - ROW
        yield f'<text x="{first.station + 10:g}" y="{above + 2:g}">layer(x)</text>'
        yield line("tensor", f"M{first.station:g} {above - 6:g}V{first.middle - 6:g}", end=True)
        yield line("tensor", f"M{last.left:g} {last.middle:g}H{lane}V{above - 6:g}", "back", end=True)
        yield from down("tensor", boxes, names)


def study_path(boxes: Boxes, names: list[str]) -> Iterator[str]:
    """Down to the model; aside to the data; at the right to the records, and from those back to the report."""
    for importer, imported in asides(boxes):
        source, target = boxes[importer], boxes[imported]
        if imported == DATA:
            bend = target.top - (ROW - BOX_HEIGHT) / 2
            steps = f"M{source.station:g} {source.middle:g}V{bend:g}H{target.station:g}V{target.middle - 6:g}"
            yield line("study", steps, end=True)
            yield dot("study", target)
        elif importer == REPORT:
            steps = f"M{target.right:g} {target.middle + 7:g}H{WIDTH - 12}V{source.middle:g}H{source.right + 2:g}"
            yield line("study", steps, "back", end=True)
        else:
            lane = WIDTH - RIGHT + 8
            steps = f"M{source.right:g} {source.middle:g}H{lane:g}V{target.middle - 7:g}H{target.right + 2:g}"
            yield line("study", steps, end=True)
    yield from down("study", boxes, names)
