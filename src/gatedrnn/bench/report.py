"""The tables of a run, from its record alone."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

TITLES = {
    "layers": "Layers", "scan": "The bare scan", "memory": "Memory", "loops": "Loop cells", "step": "Streaming",
    "length": "Time against length", "model": "Whole models", "language": "Language models",
    "drop-in": "In the place of torch's",
}  # fmt: skip


def print_report(record: dict[str, Any], console: Console) -> None:
    """Times, ratios and counts by section; what was wrong or left out; the bars."""
    for section, title in TITLES.items():
        for way in _modes(record, section):
            _times(record, section, way, f"{title}, {way}: milliseconds, and quartiles", console)
            _ratios(record, section, way, f"{title}, {way}: ratios, and quartiles", console)
        for way, unit in dict.fromkeys((row["way"], row["unit"]) for row in record["counts"] if _of(row, section)):
            rows = [row for row in record["counts"] if _of(row, section) and row["way"] == way]
            cells = {(row["contender"], _shape(row["shape"])): _number(row["value"]) for row in rows}
            _matrix(f"{title}, {way}: {unit}", "contender", cells, console)
    _bars(record, console)
    for row in record["left_out"]:
        console.print(f"left out: {row['what']}: {row['why']}", highlight=False, markup=False, soft_wrap=True)
    for row in record["wrong"]:
        console.print(f"WRONG: {_wrong(row)}", style="bold red", highlight=False, markup=False, soft_wrap=True)


def verdict(record: dict[str, Any]) -> str:
    """One sentence."""
    measured = [bar for bar in record["bars"] if bar["holds"] is not None]
    short = sum(not bar["holds"] for bar in measured)
    passed = f"{len(record['wrong'])} results are WRONG" if record["wrong"] else "every result is right"
    bars = f"{len(measured) - short} of {len(measured)} bars hold" if measured else "no bar was measured"
    return f"{passed}; {bars}"


def _times(record: dict[str, Any], section: str, way: str, title: str, console: Console) -> None:
    rows = [row for row in record["timings"] if _of(row, section) and row["way"] == way]
    cells = {(row["contender"], _shape(row["shape"])): _time(row) for row in rows}
    wrong = [row for row in record["wrong"] if _of(row, section) and way in row["modes"]]
    cells |= {(row["contender"], _shape(row["shape"])): "[bold red]WRONG[/bold red]" for row in wrong}
    _matrix(title, "contender", cells, console)


def _ratios(record: dict[str, Any], section: str, way: str, title: str, console: Console) -> None:
    rows = [row for row in record["ratios"] if _of(row, section) and row["way"] == way]
    cells = {}
    for row in rows:
        other = row["denominator_shape"]
        shape = _shape(row["shape"]) + ("" if other is None else f" ÷ {_shape(other)}")
        cells[f"{row['numerator']} ÷ {row['denominator']}", shape] = _spread(row["ratio"], row["low"], row["high"])
    _matrix(title, "ratio", cells, console)


def _bars(record: dict[str, Any], console: Console) -> None:
    bars = [bar for bar in record["bars"] if bar["holds"] is not None]
    if not bars:
        return
    table = _table("Bars", "measure", ("at", "bound", "measured", ""))
    for bar in bars:
        bound = f"≤ {bar['at_most']:g}" if bar["at_most"] is not None else f"≥ {bar['at_least']:g}"
        holds = "holds" if bar["holds"] else "[bold red]falls short[/bold red]"
        table.add_row(bar["measure"], _shape(bar["shape"]), bound, _number(bar["value"]), holds)
    console.print(table)


def _matrix(title: str, first: str, cells: dict[tuple[str, str], str], console: Console) -> None:
    """A line for each contender, a column for each shape."""
    if not cells:
        return
    columns = _once(column for _, column in cells)
    table = _table(title, first, columns)
    for line in _once(line for line, _ in cells):
        table.add_row(line, *(cells.get((line, column), "") for column in columns))
    console.print(table)


def _table(title: str, first: str, others: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in others:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _time(row: Row) -> str:
    rate: Callable[[float], str] = {"B/s": lambda v: f"\n{v / 1e9:.3g} GB/s", None: lambda _: ""}.get(
        row["unit"], lambda v: f"\n{v:,.0f} {row['unit']}"
    )
    part = "" if row["times"] == 1 else f"\n× {row['times']:g}, from a part"
    return _spread(row["median_ms"], row["low_ms"], row["high_ms"]) + rate(row["rate"]) + part


def _spread(value: float, low: float, high: float) -> str:
    return f"{_number(value)}\n[dim]{_number(low)}–{_number(high)}[/dim]"


def _number(value: float) -> str:
    """Three digits or, from a thousand up, all."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _wrong(row: Row) -> str:
    where = f"{row['section']}, {row['contender']} at {_shape(row['shape'])}: {row['what']}"
    return where if row["error"] is None else f"{where} off by {row['error']:.1e}, allowed {row['allowed']:.1e}"


def _modes(record: dict[str, Any], section: str) -> list[str]:
    timed = [row["way"] for row in record["timings"] if _of(row, section)]
    return _once(timed + [way for row in record["wrong"] if _of(row, section) for way in row["modes"]])


def _of(row: Row, section: str) -> bool:
    return bool(row["section"] == section)


def _once(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _shape(shape: Iterable[int] | None) -> str:
    return "" if shape is None else "(" + ", ".join(str(size) for size in shape) + ")"
