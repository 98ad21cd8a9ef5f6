"""Cells as boxes that grow gate by gate.

The state runs along the top. Below lie two lines, h and x, which everything above them reads; a gate that reads the
input alone has a line to x only. A circle is a product or a sum, channel by channel.
"""

from collections.abc import Callable

from pictures.drawing import ACCENT, Drawing

TOP, MIDDLE, GATES, H, X = 44, 94, 146, 196, 216
"""Heights: state, operations between, gates, and the lines that gates read."""
RIGHT = 440


class CellDrawing(Drawing):
    """A cell's picture as far as a stage, which is the one that is new; 0 for the whole of it, with nothing new."""

    def __init__(self, words: dict[str, str], stage: int, width: float = 480) -> None:
        super().__init__(width, 236, words)
        self.stage = stage

    def at(self, stage: int) -> bool:
        """Whether that stage is drawn; what follows then has its colour."""
        if self.stage and stage > self.stage:
            return False
        self.colour = ACCENT if stage == self.stage else "currentColor"
        return True

    def state(self, name: str) -> None:
        """The line along the top."""
        self.line((52, TOP), (RIGHT - 10, TOP), arrow=True, width=2.5)
        self.text(44, TOP, f"{name}_t−1", "end")
        self.text(RIGHT - 4, TOP, f"{name}_t", "start")

    def reads(self, last: float, h: bool, from_state: bool = False) -> None:
        """The lines of the input, and of the state where gates read it, as far as the last gate."""
        self.text(44, X, "x_t", "end")
        self.line((52, X), (last + 10, X))
        if h and from_state:
            self.dot(66, TOP)
            self.line((66, TOP), (66, H), (last - 10, H))
        elif h:
            self.text(44, H, "h_t−1", "end")
            self.line((52, H), (last - 10, H))

    def gate(self, x: float, name: str, h: bool = True, width: float = 56) -> None:
        """A box that reads both lines, or the input alone."""
        if h:
            self.dot(x - 10, H)
            self.line((x - 10, H), (x - 10, GATES + 16), arrow=True)
        self.dot(x + 10, X)
        self.line((x + 10, X), (x + 10, GATES + 16), arrow=True)
        self.box(x, GATES, name, width)

    def up(self, x: float, to: float = TOP) -> None:
        """An arrow from a gate to what stands above it."""
        self.line((x, GATES - 16), (x, to + 10), arrow=True)


def lstm(draw: CellDrawing) -> None:
    """Keep, write, show."""
    if draw.at(1):
        draw.state("c")
        draw.reads(100 if draw.stage == 1 else 256 if draw.stage == 2 else 330, h=True)
        draw.gate(100, "σ f")
        draw.up(100)
        draw.operation(100, TOP, "×")
        draw.text(114, MIDDLE - 14, "keep", "start", 13)
    if draw.at(2):
        draw.gate(182, "σ i")
        draw.gate(256, "tanh g", width=62)
        draw.line((182, GATES - 16), (182, MIDDLE), (209, MIDDLE), arrow=True)
        draw.line((256, GATES - 16), (256, MIDDLE), (229, MIDDLE), arrow=True)
        draw.operation(219, MIDDLE, "×")
        draw.line((219, MIDDLE - 10), (219, TOP + 10), arrow=True)
        draw.operation(219, TOP, "+")
        draw.text(233, MIDDLE - 24, "write", "start", 13)
    if draw.at(3):
        draw.gate(330, "σ o")
        draw.line((358, GATES), (380, GATES), arrow=True)
        draw.operation(390, GATES, "×")
        draw.dot(390, TOP)
        draw.line((390, TOP), (390, MIDDLE - 13))
        draw.box(390, MIDDLE, "tanh", 46, 26)
        draw.line((390, MIDDLE + 13), (390, GATES - 10), arrow=True)
        draw.line((400, GATES), (RIGHT - 10, GATES), arrow=True, width=2.5)
        draw.text(RIGHT - 4, GATES, "h_t", "start")
        draw.text(416, GATES + 18, "show", "middle", 13)


def gru(draw: CellDrawing) -> None:
    """Mix old and new; read the old only as far as the reset gate lets it."""
    if draw.at(1):
        draw.state("h")
        draw.reads(350, h=True, from_state=True)
        draw.gate(124, "σ z")
        draw.up(124)
        draw.operation(124, TOP, "×")
        draw.text(138, MIDDLE - 24, "keep", "start", 13)
        draw.dot(124, MIDDLE)
        draw.line((124, MIDDLE), (204, MIDDLE))
        draw.box(226, MIDDLE, "1 −", 44, 26)
        draw.line((248, MIDDLE), (340, MIDDLE), arrow=True)
        _candidate(draw, "tanh n", 350)
    if draw.at(2):
        draw.gate(226, "σ r")
        _reset(draw, 254)


def mgu(draw: CellDrawing) -> None:
    """One gate in both places."""
    if draw.at(1):
        draw.state("h")
        draw.reads(350, h=True, from_state=True)
        _replacing(draw, "σ f", 130, h=True)
        _candidate(draw, "tanh n", 350)
    if draw.at(2):
        draw.dot(206, GATES)
        _reset(draw, 206)


def mingru(draw: CellDrawing) -> None:
    """Both read the input alone."""
    if draw.at(1):
        draw.state("h")
        draw.reads(130 if draw.stage == 1 else 350, h=False)
        _replacing(draw, "σ z", 130, h=False, whole=draw.stage != 1)
    if draw.at(2):
        if draw.stage == 2:
            draw.line((158, GATES), (206, GATES), (206, MIDDLE), (340, MIDDLE), arrow=True)
        _candidate(draw, "g v", 350, h=False)


def minlstm(draw: CellDrawing) -> None:
    """Two gates that share one whole, and read the input alone."""
    if draw.at(1):
        draw.state("h")
        draw.reads(196 if draw.stage == 1 else 350, h=False)
        for x, name in ((110, "σ f"), (196, "σ i")):
            draw.gate(x, name, h=False)
            draw.line((x, GATES - 16), (x, MIDDLE + 14), arrow=True)
        draw.box(153, MIDDLE, "f / (f + i)  i / (f + i)", 172, 28)
        draw.line((110, MIDDLE - 14), (110, TOP + 10), arrow=True)
        draw.operation(110, TOP, "×")
        draw.text(124, TOP + 22, "keep", "start", 13)
    if draw.at(2):
        draw.line((239, MIDDLE), (340, MIDDLE), arrow=True)
        _candidate(draw, "g v", 350, h=False)


def _reset(draw: CellDrawing, x: float) -> None:
    """A gate that holds down the state that the candidate reads."""
    draw.line((x, GATES), (290, GATES), (290, H - 10), arrow=True)
    draw.operation(290, H, "×")
    draw.text(284, GATES + 22, "reset", "end", 13)


def _candidate(draw: CellDrawing, name: str, x: float, h: bool = True) -> None:
    """A value to write, and the sum that writes it."""
    draw.gate(x, name, h, width=66)
    draw.up(x, MIDDLE)
    draw.operation(x, MIDDLE, "×")
    draw.line((x, MIDDLE - 10), (x, TOP + 10), arrow=True)
    draw.operation(x, TOP, "+")
    draw.text(x + 14, MIDDLE - 24, "write", "start", 13)


def _replacing(draw: CellDrawing, name: str, x: float, h: bool, whole: bool = True) -> None:
    """A gate that replaces: what is kept is the rest."""
    draw.gate(x, name, h)
    draw.line((x, GATES - 16), (x, MIDDLE + 13), arrow=True)
    draw.box(x, MIDDLE, "1 −", 44, 26)
    draw.line((x, MIDDLE - 13), (x, TOP + 10), arrow=True)
    draw.operation(x, TOP, "×")
    draw.text(x + 14, TOP + 22, "keep", "start", 13)
    if whole:
        draw.line((x + 28, GATES), (206, GATES), (206, MIDDLE), (340, MIDDLE), arrow=True)


CELLS: dict[str, tuple[Callable[[CellDrawing], None], int]] = {
    "lstm": (lstm, 3), "gru": (gru, 2), "mgu": (mgu, 2), "mingru": (mingru, 2), "minlstm": (minlstm, 2),
}  # fmt: skip
"""Functions that draw a cell, and its number of stages."""


def cell(name: str, stage: int, words: dict[str, str]) -> Drawing:
    """The picture of a cell as far as a stage; 0 for all of it."""
    build, _ = CELLS[name]
    draw = CellDrawing(words, stage)
    build(draw)
    return draw
