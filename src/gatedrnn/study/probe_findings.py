"""What a suite's numbers say, in words and in rows. Reads probes.json alone."""

from statistics import mean, median_low
from typing import Any

from gatedrnn.data.probes import scaled
from gatedrnn.inspect.tracking import tracking
from gatedrnn.registry import CELLS
from gatedrnn.study.statistics import FEWEST_SEEDS
from gatedrnn.study.summary import too_few

HOLDS = 0.9
"""The scaled accuracy from which a task counts as done. Not nearer to 1: one wrong turn, early in one of the 64 rows
of the test at `FAR`, costs 0.03, and would decide over a verdict."""
FAR = 4096
"""The length up to which a task must hold to count as solved."""
SOLVES, LEARNS, FAILS = "solves", "learns", "fails"


def curves(answers: dict[str, Any], cell: str) -> dict[str, dict[int, float]]:
    """Scaled accuracy by length, shortest first, of each seed."""
    return {
        seed: {int(length): scaled(value, answers["chance"]) for length, value in sorted(own.items(), key=_number)}
        for seed, own in answers["cells"][cell]["accuracy"].items()
    }


def _number(item: tuple[str, float]) -> int:
    return int(item[0])


def reach(curve: dict[int, float]) -> int:
    """The greatest length up to which a run is right at every tested one; 0 if not even at its training length."""
    reached = 0
    for length, value in curve.items():
        if value < HOLDS:
            break
        reached = length
    return reached


def far(answers: dict[str, Any]) -> int:
    """`FAR`, or the longest length that was tested, if that is less."""
    return min(FAR, max(int(length) for length in answers["labels"]))


def verdict(answers: dict[str, Any], cell: str) -> str:
    """Of the median seed: it solves the task, far beyond its training length, learns it at that length, or fails."""
    own = list(curves(answers, cell).values())
    middle = median_low([reach(curve) for curve in own])
    if middle >= far(answers):
        return SOLVES
    return LEARNS if middle else FAILS


def verdict_rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of text per task, a cell a column: how far it is right at the median seed, and how many seeds get there;
    the scaled accuracy at the training length, where it is not even there."""
    rows = []
    for task, answers in results["tasks"].items():
        row = {"task": task}
        for cell in answers["cells"]:
            by_seed = list(curves(answers, cell).values())
            own = [reach(curve) for curve in by_seed]
            middle = median_low(own)
            at_first = median_low([next(iter(curve.values())) for curve in by_seed])
            so_far = f"{middle:,} ({sum(length >= middle for length in own)}/{len(own)})"
            row[cell] = so_far if middle else f"{max(0.0, at_first):.2f}"
        rows.append(row)
    return rows


def accuracy_rows(answers: dict[str, Any]) -> list[dict[str, str]]:
    """One row of text per cell of a task: width, parameters, scaled accuracy at each length, training speed."""
    rows = []
    for cell, own in answers["cells"].items():
        by_seed = list(curves(answers, cell).values())
        row = {"cell": cell, "width": f"{own['hidden_size']:,}", "core": f"{own['core']:,}"}
        for length in by_seed[0]:
            values = [curve[length] for curve in by_seed]
            row[f"{length:,}"] = f"{mean(values):.3f} ({min(values):.3f})"
        row["tokens/s"] = f"{own['tokens_per_second']:,.0f}"
        rows.append(row)
    return rows


def tested(answers: dict[str, Any]) -> str:
    """How much stands behind the numbers of a task."""
    rows = (f"{count:,} ({answers['labels'][length]:,})" for length, count in answers["rows"].items())
    return f"Rows of the tests (labels in all of them): {', '.join(rows)}."


def sentences(results: dict[str, Any]) -> list[str]:
    """What was found, task by task, and why what failed had to."""
    found = []
    for task, answers in results["tasks"].items():
        by_verdict: dict[str, list[str]] = {}
        for cell in answers["cells"]:
            by_verdict.setdefault(verdict(answers, cell), []).append(cell)
        words = {
            SOLVES: f"right up to {far(answers):,} at least",
            LEARNS: "learned, but lost at length",
            FAILS: "not learned",
        }
        parts = [f"{words[kind]}: {', '.join(by_verdict[kind])}" for kind in words if kind in by_verdict]
        found.append(f"{task} (trained at {answers['trained_at']}; {answers['asks']}): {'; '.join(parts)}.")
    seeds = len(results["settings"]["seeds"])
    return [*found, too_few(seeds)] if seeds < FEWEST_SEEDS else found


def reasons(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of text for each class of cells that took part."""
    rows: dict[str, dict[str, str]] = {}
    for cell in results["settings"]["cells"]:
        kind = tracking(CELLS[cell].equations())
        row = rows.setdefault(
            kind.name,
            {"class": kind.name, "cells": "", "transition": kind.transition, "one layer can follow": kind.follows,
             "it cannot, at every length": kind.fails, "source": kind.source},
        )  # fmt: skip
        row["cells"] = f"{row['cells']}, {cell}".lstrip(", ")
    return list(rows.values())
