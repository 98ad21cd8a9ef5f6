"""Sequences: the ladder of cells, a scan in rounds, lanes of a text, and what cuts time."""

from collections.abc import Sequence

from pictures.drawing import Drawing

LADDERS = {
    "lstm": (
        ("LSTM", ""), ("NoOutputGateLSTM", "no output gate"), ("InputGatedLSTM", "gates read x alone"),
        ("NormalizedLSTM", "i and f share one whole"), ("MinLSTM", "no tanh"),
    ),
    "gru": (
        ("GRU", ""), ("NoResetGateGRU", "no reset gate"), ("InputGatedGRU", "gates read x alone"),
        ("MinGRU", "no tanh"),
    ),
}  # fmt: skip
"""Cells from the top, and what goes with each step."""


def ladder(name: str, words: dict[str, str]) -> Drawing:
    """A staircase: each step names what goes."""
    steps = LADDERS[name]
    width, height = 180.0, 62.0
    draw = Drawing(width * len(steps) + 20, height * len(steps) + 24, words)
    for number, (cell, gone) in enumerate(steps):
        x, y = 10 + number * width, 20 + number * height
        draw.line((x, y + 20), (x + width, y + 20), width=2.5)
        draw.text(x + width / 2, y, cell, size=15, bold=True)
        if number:
            draw.line((x, y + 20 - height), (x, y + 20), width=2.5)
            with draw.new():
                draw.line((x - 12, y - 30), (x - 12, y + 8), arrow=True)
                draw.text(x - 20, y - 2, gone, "end", 14)
    return draw


DECAYS = 1.0, 0.5, 1.0, 0.0, 1.0, 2.0, 0.5, 1.0
DRIVES = 2.0, 1.0, 0.0, 3.0, 1.0, 0.0, 2.0, 1.0
"""A worked example: eight steps, h = a h + b."""


def rounds_of_scan(decays: Sequence[float], drives: Sequence[float]) -> list[list[tuple[float, float]]]:
    """Pairs (a, b) before the first round and after each: a step joins with the one 1, 2, 4, … before it."""
    rows = [list(zip(decays, drives, strict=True))]
    distance = 1
    while distance < len(decays):
        before = rows[-1]
        rows.append(
            [
                (a, b) if t < distance else (a * before[t - distance][0], a * before[t - distance][1] + b)
                for t, (a, b) in enumerate(before)
            ]
        )
        distance *= 2
    return rows


def scan(words: dict[str, str]) -> Drawing:
    """Eight steps in three rounds."""
    rows, width, height = rounds_of_scan(DECAYS, DRIVES), 74.0, 84.0
    draw = Drawing(118 + width * len(DECAYS), 40 + height * len(rows) - 10, words)
    for t in range(len(DECAYS)):
        draw.text(118 + t * width + 32, 12, f"t={t + 1}", size=13)
    for number, row in enumerate(rows):
        y, distance = 44 + number * height, 2 ** (number - 1)
        draw.text(0, y, f"round {number}" if number else "steps", "start", 14)
        for t, (a, b) in enumerate(row):
            x = 118 + t * width + 32
            known = number and t < 2**number and not t < distance
            if number and t >= distance:
                with draw.faint():
                    draw.line((x - distance * width, y - height + 15), (x, y - 15))
                draw.line((x, y - height + 15), (x, y - 15), arrow=True)
            elif number:
                with draw.faint():
                    draw.line((x, y - height + 15), (x, y - 15), dashed=True)
            with draw.new(bool(number) and (known or t < distance)):
                draw.box(x, y, f"{a:g}, {b:g}", 64, 28, filled=bool(number) and t < 2**number)
    return draw


CELL = 30.0
"""The width of a time step."""


def _row(draw: Drawing, x: float, y: float, texts: Sequence[str], shaded: Sequence[bool] | None = None) -> None:
    for number, text in enumerate(texts):
        draw.box(x + number * CELL + CELL / 2, y, text, CELL - 4, 26, filled=bool(shaded and shaded[number]))


def lanes(words: dict[str, str]) -> Drawing:
    """A text of three documents in two lanes, read window by window."""
    draw = Drawing(560, 236, words)
    letters = [*"AAAAAAA", *"BBBBB", *"CCCC"]
    draw.text(0, 20, "a text of documents", "start", 14)
    _row(draw, 0, 50, letters, [letter != "B" for letter in letters])
    draw.text(0, 94, "two lanes, read in windows of 4 steps", "start", 14)
    for lane in range(2):
        y, part = 134 + lane * 62, letters[lane * 8 : lane * 8 + 8]
        before = letters[lane * 8 - 1] if lane else None
        draw.text(0, y, f"lane {lane + 1}", "start", 14)
        for window in range(2):
            x = 84 + window * 210
            _row(draw, x, y, part[window * 4 : window * 4 + 4], [letter != "B" for letter in part[window * 4 :][:4]])
            for place in range(4):
                number = window * 4 + place
                if part[number] != (part[number - 1] if number else before):
                    with draw.new():
                        draw.line((x + place * CELL, y - 22), (x + place * CELL, y + 22), width=3)
        draw.line((84 + 4 * CELL + 4, y), (84 + 206, y), arrow=True)
        draw.text(84 + 165, y - 14, "state", size=13)
    with draw.new():
        draw.line((452, 120), (452, 148), width=3)
        draw.text(462, 134, "reset", "start", 14)
    return draw


def cuts(words: dict[str, str]) -> Drawing:
    """A mask, a reset and a packed sequence: where the state moves, and where it begins again."""
    draw = Drawing(600, 330, words)
    rows = (
        ("mask", "x_1 x_2 x_3 – – –", (3, 4, 5), None, "the state stands still at padding; h_n is that of x_3"),
        ("resets", "x_1 x_2 x_3 y_1 y_2 y_3", (), 3, "two sequences in one row: the state begins again"),
    )
    for number, (name, texts, idle, cut, said) in enumerate(rows):
        y = 40 + number * 104
        draw.text(0, y, name, "start", 15, bold=True)
        for t, text in enumerate(texts.split(" ")):
            x = 110 + t * 62
            with draw.faint() if t in idle else draw.new(t == cut):
                draw.box(x, y, text, 44, 28)
            if t and t != cut:
                with draw.faint() if t in idle else draw.new(False):
                    draw.line((x - 40, y), (x - 22, y), arrow=True, dashed=t in idle)
            elif t:
                with draw.new():
                    draw.line((x - 31, y - 20), (x - 31, y + 20), width=3)
        draw.text(88, y + 36, said, "start", 13)
    y = 248
    draw.text(0, y, "packed", "start", 15, bold=True)
    for t, texts in enumerate((("x_1", "y_1"), ("x_2", "y_2"), ("x_3", "y_3"), ("x_4",))):
        for sequence, text in enumerate(texts):
            draw.box(110 + t * 62, y + sequence * 34, text, 44, 28)
            if t:
                draw.line((110 + t * 62 - 40, y + sequence * 34), (110 + t * 62 - 22, y + sequence * 34), arrow=True)
    draw.text(88, y + 68, "sequences of 4 and 3 steps: step 4 has a batch of one", "start", 13)
    return draw
