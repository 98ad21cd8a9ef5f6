"""Simulate how often intervals cover the truth, and how often a table of verdicts has a false one.

    python tools/simulate_coverage.py KEPT [REPLICATES]      writes coverage.json, coverage.svg and report.md into KEPT

Contenders answer the examples of a test split: whether one is right depends on the example, on the contender, on both,
on the seed, and on chance. The latent scale is a probit's, on which the mean over all seeds and examples is known
exactly. A replicate draws how good the contenders are, how far they differ (not at all, by just more than the margin,
or by up to two points), how much seeds matter, alike for all or not, and whether the last one is a plain baseline,
which has one run.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from gatedrnn.pages import COLOURS, plural
from gatedrnn.study.statistics import MARGINS, Estimate, Pair, Sample, Table

CONTENDERS, SEEDS, EXAMPLES, REPLICATES = (1, 4, 20), (2, 3, 5, 10), (200, 2000, 10_000), 2000
OF_EXAMPLES, OF_BOTH = 1.0, 0.5
"""Standard deviations on the latent scale: of how hard an example is, and of how hard it is for one contender."""
MARGIN = MARGINS["accuracy"]


@dataclass(frozen=True)
class Cell:
    """One size of comparison."""

    contenders: int
    seeds: int
    examples: int
    replicates: int
    covered: float
    """The share of intervals of scores that hold the truth."""
    differences_covered: float | None
    """The share of differences that intervals cover; None with one contender, as what follows."""
    tables_covered: float | None
    """The share of tables all of whose differences are held together."""
    false_tables: float | None
    """The share of tables with a false verdict."""
    taken: float | None
    """The share of tables that name one to take."""
    falsely_taken: float | None
    """The share of tables that name one, though another is better by more than the margin."""
    decided: float | None
    """The share of pairs with a verdict."""


def simulate(contenders: int, seeds: int, examples: int, replicates: int) -> Cell:
    """One cell; the same every time."""
    random = np.random.default_rng([contenders, seeds, examples])
    covered, of_pairs, decided = list[bool](), list[bool](), list[bool]()
    whole, false, taken, falsely = list[bool](), list[bool](), list[bool](), list[bool]()
    for _ in range(replicates):
        truth, right = draw(random, contenders, seeds, examples)
        table = Table([Sample(values, np.ones(examples), "accuracy", fixed=len(values) == 1) for values in right])
        covered += [holds(estimate, value) for estimate, value in zip(table.estimates(), truth.tolist(), strict=True)]
        if contenders > 1:
            pairs = table.pairs(MARGIN)
            differences = [float(truth[int(pair.contender)] - truth[int(pair.other)]) for pair in pairs]
            held = [holds(pair.difference, value) for pair, value in zip(pairs, differences, strict=True)]
            of_pairs += held
            whole.append(all(held))
            false.append(any(is_false(pair, value) for pair, value in zip(pairs, differences, strict=True)))
            decided += [pair.verdict != "cannot tell" for pair in pairs]
            best, rivals = table.rivals(MARGIN)
            taken.append(not rivals)
            falsely.append(not rivals and truth.max() > truth[int(best)] + MARGIN)
    shares = [of_pairs, whole, false, taken, falsely, decided]
    of_tables = [float(np.mean(share)) if share else None for share in shares]
    return Cell(contenders, seeds, examples, replicates, float(np.mean(covered)), *of_tables)


def draw(
    random: np.random.Generator, contenders: int, seeds: int, examples: int
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """True accuracies, (contenders,), and what is right, (seeds, examples) of each contender."""
    base = random.uniform(0.55, 0.97)
    apart = [
        np.zeros(contenders), random.choice([0.0, 1.02, -1.02], contenders) * MARGIN,
        random.uniform(-0.02, 0.02, contenders),
    ]  # fmt: skip
    truth = base + apart[random.integers(3)]
    of_seeds = random.uniform(0.02, 0.1) * np.exp(random.choice([0.0, 0.5]) * random.standard_normal(contenders))
    is_plain = np.arange(contenders) >= (
        contenders if contenders < 2 else random.integers(contenders - 1, contenders + 1)
    )
    of_seeds[is_plain] = 0
    spread = np.sqrt(1 + of_seeds**2 + OF_EXAMPLES**2 + OF_BOTH**2)
    latent = (norm.ppf(truth) * spread)[:, None] + of_seeds[:, None] * random.standard_normal((contenders, seeds))
    hardness = OF_EXAMPLES * random.standard_normal(examples, dtype=np.float32)
    hardness = hardness + OF_BOTH * random.standard_normal((contenders, examples), dtype=np.float32)
    chance = random.standard_normal((contenders, seeds, examples), dtype=np.float32)
    right = latent[:, :, None].astype(np.float32) + hardness[:, None] + chance > 0
    return truth, [
        values.astype(np.float64)[: 1 if plain else seeds] for values, plain in zip(right, is_plain, strict=True)
    ]


def holds(estimate: Estimate, truth: float) -> bool:
    """Whether an interval holds the truth."""
    assert estimate.low is not None and estimate.high is not None
    return estimate.low <= truth <= estimate.high


def is_false(pair: Pair, difference: float) -> bool:
    """Whether a verdict says what is not so."""
    if pair.verdict == "equivalent":
        return abs(difference) > MARGIN
    return (pair.verdict == "better" and difference <= 0) or (pair.verdict == "worse" and difference >= 0)


def report(cells: list[Cell]) -> str:
    """Markdown."""
    lines = [
        "| contenders | seeds | examples | scores covered | differences covered | all of a table | false tables "
        "| pairs decided | one is taken | falsely |",
        f"|{'---|' * 10}",
    ]
    for cell in cells:
        shares = (
            cell.covered, cell.differences_covered, cell.tables_covered, cell.false_tables, cell.decided, cell.taken,
            cell.falsely_taken,
        )  # fmt: skip
        shown = ["–" if share is None else f"{share:.1%}" for share in shares]
        lines.append(f"| {cell.contenders} | {cell.seeds} | {cell.examples:,} | {' | '.join(shown)} |")
    replicates = f"{cells[0].replicates:,} replicates of each size"
    return (
        f"# How often intervals cover the truth\n\n{replicates}; nominal coverage 95 %.\n\n" + "\n".join(lines) + "\n"
    )


def draw_figure(cells: list[Cell], path: Path) -> None:
    """Coverage against seeds, a panel for each number of contenders and a line for each size of the test split."""
    figure, panels = plt.subplots(1, len(CONTENDERS), figsize=(9.6, 3.4), sharey=True)
    for panel, contenders in zip(panels, CONTENDERS, strict=True):
        for colour, examples in zip(COLOURS, EXAMPLES, strict=False):
            chosen = [cell for cell in cells if (cell.contenders, cell.examples) == (contenders, examples)]
            seeds = [cell.seeds for cell in chosen]
            panel.plot(seeds, [cell.covered for cell in chosen], "o-", color=colour, label=f"scores, {examples:,}")
            if contenders > 1:
                of_tables = [cell.tables_covered for cell in chosen]
                panel.plot(seeds, of_tables, "s--", color=colour, label=f"all differences, {examples:,}", alpha=0.7)
        panel.axhline(0.95, color="#777", linewidth=1)
        panel.axhline(0.93, color="#777", linewidth=1, linestyle=":")
        panel.set(title=plural(contenders, "contender"), xlabel="seeds", xticks=SEEDS, ylim=(0.9, 1.0))
    panels[0].set_ylabel("intervals that hold the truth")
    panels[-1].legend(fontsize=7, frameon=False, title="of examples", title_fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    kept, replicates = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else REPLICATES
    sizes = sorted(product(CONTENDERS, SEEDS, EXAMPLES), key=np.prod, reverse=True)  # the long ones first
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(simulate, *zip(*sizes, strict=True), [replicates] * len(sizes)))
    found.sort(key=lambda cell: (cell.contenders, cell.seeds, cell.examples))
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "coverage.json").write_text(json.dumps([asdict(cell) for cell in found], indent=1))
    (kept / "report.md").write_text(report(found))
    draw_figure(found, kept / "coverage.svg")
