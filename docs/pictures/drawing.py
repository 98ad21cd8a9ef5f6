"""Lines, boxes and words of a picture, as SVG in the colour of the text around it.

What a picture has had before is drawn in that colour, and what it shows for the first time in the site's accent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

ACCENT = "var(--color-brand-content, #2f7fd6)"
FONT = "font-family:system-ui,sans-serif;font-size:15px"
SUBSCRIPT = '<tspan dy="4" font-size="11">{}</tspan><tspan dy="-4" font-size="1">&#8203;</tspan>'
Point = tuple[float, float]


class Drawing:
    """Shapes, in the order in which they are drawn.

    Args:
        width, height: of the picture, in units of which a letter has 15.
        words: translations of labels.
    """

    def __init__(self, width: float, height: float, words: dict[str, str]) -> None:
        self.width, self.height, self.words = width, height, words
        self.shapes: list[str] = []
        self.colour, self.strength = "currentColor", 1.0

    @contextmanager
    def new(self, shown: bool = True) -> Iterator[None]:
        """Draw in the colour of new shapes, where `shown`."""
        before, self.colour = self.colour, ACCENT if shown else self.colour
        yield
        self.colour = before

    @contextmanager
    def faint(self) -> Iterator[None]:
        """Draw shapes that are not read, or wait."""
        before, self.strength = self.strength, 0.4
        yield
        self.strength = before

    def _add(self, element: str, attributes: str, inner: str = "") -> None:
        faint = "" if self.strength == 1 else f' opacity="{self.strength}"'
        self.shapes.append(f"<{element} {attributes}{faint}>{inner}</{element}>")

    def line(self, *points: Point, arrow: bool = False, width: float = 1.5, dashed: bool = False) -> None:
        """A line through points, with a head at its end if it is an arrow."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._add("polyline", f'points="{path}" fill="none" stroke="{self.colour}" stroke-width="{width}"{dashes}')
        if arrow:
            (x0, y0), (x, y) = points[-2:]
            length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            a, b = (x - x0) / length, (y - y0) / length
            corners = (x, y), (x - 8 * a + 4 * b, y - 8 * b - 4 * a), (x - 8 * a - 4 * b, y - 8 * b + 4 * a)
            self._add("polygon", f'points="{" ".join(f"{p:g},{q:g}" for p, q in corners)}" fill="{self.colour}"')

    def dot(self, x: float, y: float) -> None:
        """A joint of two lines."""
        self._add("circle", f'cx="{x:g}" cy="{y:g}" r="2.5" fill="{self.colour}"')

    def operation(self, x: float, y: float, sign: str) -> None:
        """A sum or a product, in a circle."""
        self._add("circle", f'cx="{x:g}" cy="{y:g}" r="10" fill="none" stroke="{self.colour}" stroke-width="1.5"')
        for dx, dy in ((5, 0), (0, 5)) if sign == "+" else ((3.5, 3.5), (3.5, -3.5)):
            self.line((x - dx, y - dy), (x + dx, y + dy))

    def box(self, x: float, y: float, text: str, width: float = 52, height: float = 32, filled: bool = False) -> None:
        """A box around a middle."""
        fill = f'fill="{self.colour}" fill-opacity="{0.18 if filled else 0.08}"'
        place = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="6"'
        self._add("rect", f'{place} {fill} stroke="{self.colour}" stroke-width="1.5"')
        self.text(x, y, text)

    def text(self, x: float, y: float, text: str, anchor: str = "middle", size: float = 15, bold: bool = False) -> None:
        """Words, or a formula whose indices follow an underscore: `c_t−1`; in the language of the picture."""
        parts = self.words.get(text, text).split(" ")
        written = " ".join(
            escape(stem) + (SUBSCRIPT.format(escape(index)) if mark else "")
            for stem, mark, index in (part.partition("_") for part in parts)
        )
        weight = ' font-weight="600"' if bold else ""
        style = f'font-size="{size:g}" text-anchor="{anchor}" dominant-baseline="central" stroke="none"{weight}'
        self._add("text", f'x="{x:g}" y="{y:g}" fill="{self.colour}" {style}', written)

    def svg(self, description: str, own_file: bool = False) -> str:
        """The picture; a file of its own takes the colour of the system's theme.

        Args:
            description: what a reader hears who does not see it.
        """
        own = (
            "<style>svg{color:#1f2328;--color-brand-content:#0b5cad}"
            "@media(prefers-color-scheme:dark){svg{color:#e6edf3;--color-brand-content:#6cb2ff}}</style>"
        )
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" {size} role="img" style="{FONT}" '
            f'aria-label="{escape(description)}">{own if own_file else ""}{"".join(self.shapes)}</svg>'
        )
