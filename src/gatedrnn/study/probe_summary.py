"""Verdicts of a suite of probes in sentences and tables, from its record alone."""

from statistics import mean, median_low

from gatedrnn.pages import plural
from gatedrnn.study.results import ProbeResults, TaskAnswers
from gatedrnn.tasks.probes.suite import scaled

HOLDS = 0.9
"""The scaled accuracy at which a task counts as solved. Not nearer to 1: one wrong step, early in one of the 64 rows of
the test at `FAR`, costs 0.03, and would decide the verdict."""
FAR = 4096
"""The length up to which a task must be solved for the verdict `SOLVES`."""
_MIN_SEEDS = 3
"""The fewest seeds of a median: of fewer it is one seed's, or lies between two."""
SOLVES, LEARNS, FAILS = "solves", "learns", "fails"


def curves(answers: TaskAnswers, cell: str) -> dict[int, dict[int, float]]:
    """Scaled accuracy by length, shortest first, of each seed."""
    return {
        seed: {length: scaled(value, answers.chance) for length, value in sorted(by_length.items())}
        for seed, by_length in answers.cells[cell].accuracy.items()
    }


def reach(curve: dict[int, float]) -> int:
    """The greatest length up to which every tested length is solved; 0 if not even the training length is."""
    reached = 0
    for length, value in curve.items():
        if value < HOLDS:
            break
        reached = length
    return reached


def far(answers: TaskAnswers) -> int:
    """`FAR`, or the longest tested length, if that is less."""
    return min(FAR, max(answers.labels))


def verdict(answers: TaskAnswers, cell: str) -> str:
    """The verdict on the median seed: it solves the task far beyond its training length, learns it at that length, or
    fails.
    """
    middle = median_low([reach(curve) for curve in curves(answers, cell).values()])
    if middle >= far(answers):
        return SOLVES
    return LEARNS if middle else FAILS


def verdict_rows(results: ProbeResults) -> list[dict[str, str]]:
    """One row of text per task, a cell a column: the reach of the median seed and how many seeds have it; the scaled
    accuracy at the training length, where that is not solved."""
    rows = []
    for task, answers in results.tasks.items():
        row = {"task": task}
        for cell in answers.cells:
            by_seed = list(curves(answers, cell).values())
            reaches = [reach(curve) for curve in by_seed]
            middle = median_low(reaches)
            at_first = median_low([next(iter(curve.values())) for curve in by_seed])
            reached = f"{middle:,} ({sum(length >= middle for length in reaches)}/{len(reaches)})"
            row[cell] = reached if middle else f"{max(0.0, at_first):.2f}"
        rows.append(row)
    return rows


def accuracy_rows(answers: TaskAnswers) -> list[dict[str, str]]:
    """One row of text per cell of a task: width, parameters, scaled accuracy at each length, training speed."""
    rows = []
    for cell, results_of_cell in answers.cells.items():
        by_seed = list(curves(answers, cell).values())
        row = {"cell": cell, "width": f"{results_of_cell.hidden_size:,}", "core": f"{results_of_cell.core:,}"}
        for length in by_seed[0]:
            values = [curve[length] for curve in by_seed]
            row[f"{length:,}"] = f"{mean(values):z.3f} ({min(values):z.3f})"
        row["tokens/s"] = f"{results_of_cell.tokens_per_second:,.0f}"
        rows.append(row)
    return rows


def tested(answers: TaskAnswers) -> str:
    """The size of a task's tests."""
    rows = (f"{count:,} ({answers.labels[length]:,}) at {length:,}" for length, count in answers.rows.items())
    return f"Test rows (labels in all of them) by length: {', '.join(rows)}."


def sentences(results: ProbeResults) -> list[str]:
    """The verdicts, task by task."""
    lines = []
    for task, answers in results.tasks.items():
        by_verdict: dict[str, list[str]] = {}
        for cell in answers.cells:
            by_verdict.setdefault(verdict(answers, cell), []).append(cell)
        words = {
            SOLVES: f"solved up to length {far(answers):,} at least",
            LEARNS: "learned, but not at greater lengths",
            FAILS: "not learned",
        }
        parts = [f"{words[kind]}: {', '.join(by_verdict[kind])}" for kind in words if kind in by_verdict]
        lines.append(f"{task} (trained at {answers.trained_at}; {answers.asks}): {'; '.join(parts)}.")
    seeds = len(results.settings.seeds)
    if seeds < _MIN_SEEDS:
        few = f"too few to distinguish a difference from chance; give {_MIN_SEEDS} or more with --seeds."
        lines.append(f"{plural(seeds, 'seed')}: {few}")
    return lines


def reasons(results: ProbeResults) -> list[dict[str, str]]:
    """One row of text for each class of cells that took part."""
    kinds = {kind.name: kind for kind in results.classes.values()}
    return [
        {
            "class": kind.name,
            "cells": ", ".join(cell for cell, tracking in results.classes.items() if tracking.name == kind.name),
            "transition": kind.transition,
            "one layer can track": kind.follows,
            "it cannot, at every length": kind.fails,
            "source": kind.source,
        }
        for kind in kinds.values()
    ]
