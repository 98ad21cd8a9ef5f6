"""Whether the words of a tuned comparison hold when its search is repeated with another seed, on validation alone.

    python tools/repeat_search.py results/ag_news-tuned DATA RUNS --seed 1 --trials 10 --jobs 2

The winners of the new search run with the seeds of the comparison, as its own winners did; nothing reads the test
split. The words of both are given on the validation outcomes and written into KEPT/repeated.json. Stopped, the same
command resumes.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from cyclopts import App

from gatedrnn.executors import executor_for
from gatedrnn.progress import RunsDisplay
from gatedrnn.records import environment
from gatedrnn.study.experiment import Comparison
from gatedrnn.study.results import ComparisonResults, run_name
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.terminal import Console
from gatedrnn.training.outcomes import OUTCOMES, Outcomes, read_outcomes
from gatedrnn.training.result import read_record
from gatedrnn.training.score import outcomes_of

app = App(help=__doc__)
OPPOSITE = {"better", "worse"}


@app.default
def repeat(kept: Path, data: Path, runs: Path, *, seed: int, trials: int, jobs: int = 1) -> None:
    """Search again and compare the words.

    Args:
        kept: folder of the kept comparison.
        data: folder of the files that it names.
        runs: folder of the new runs.
        seed: of the new search.
        trials: of each contender.
    """
    first = read_record(kept / ComparisonResults.FILE, ComparisonResults)
    comparison = Comparison(_settings(first, data, seed, trials), runs)
    comparison.folder.mkdir(parents=True, exist_ok=True)
    with executor_for(jobs=jobs) as executor, RunsDisplay(Console(), "repeat") as display:
        comparison.prepare(executor, display.show)
        winners = {name: run.model_copy(update={"trial": True}) for name, run in comparison.runs.items()}
        _, diverged = executor.run_all(winners, runs / "winners", display.show)
    if diverged:
        raise diverged[0]
    assert comparison.found is not None
    before = read_outcomes(kept / OUTCOMES)
    again = {name: outcomes_of(runs / "winners" / name, comparison.data)["validation"] for name in winners}
    again |= {row.name: before[f"{row.name}/validation"] for row in first.baseline.plain}
    words = (
        _words(first, {name.removesuffix("/validation"): trial for name, trial in before.items()}),
        _words(first, again),
    )
    pairs = [
        {"contender": pair[0], "other": pair[1], "words": [word, words[1][pair]]} for pair, word in words[0].items()
    ]
    changed = [pair for pair in pairs if len(set(pair["words"])) > 1]
    reversed_ = [pair for pair in pairs if set(pair["words"]) == OPPOSITE]
    repeated = {
        **environment(), "seed": seed, "trials": trials, "split": "validation", "pairs": pairs, "changed": len(changed),
        "reversed": len(reversed_), "best": {name: trial.values for name, trial in comparison.found.best.items()},
        "accuracy": {
            name: [round(again[run_name(name, s)].rate, 6) for s in first.settings.contenders.seeds]
            for name in comparison.found.best
        },
    }  # fmt: skip
    (kept / "repeated.json").write_text(json.dumps(repeated, indent=1) + "\n")
    print(f"{len(pairs)} pairs, {len(changed)} with another word, {len(reversed_)} reversed")
    for pair in changed:
        print(f"{pair['contender']} against {pair['other']}: {' -> '.join(pair['words'])}")


def _settings(first: ComparisonResults, data: Path, seed: int, trials: int) -> CompareSettings:
    asked: dict[str, Any] = first.settings.model_dump()
    files = {k: str(data / v) for k, v in asked["data"].items() if k.endswith("_file") and v}
    return CompareSettings.model_validate(
        {**asked, "data": asked["data"] | files, "search": asked["search"] | {"seed": seed, "trials": trials}}
    )


def _words(first: ComparisonResults, outcomes: dict[str, Outcomes]) -> dict[tuple[str, str], str]:
    """Verdicts on these outcomes, by pair; names are of runs, or of plain baselines."""
    fixed = [row.name for row in first.baseline.plain]
    names = [row.name for row in first.contenders] + fixed
    samples = []
    for name in names:
        runs = [name] if name in fixed else [run_name(name, seed) for seed in first.settings.contenders.seeds]
        outcomes_of_runs = [outcomes[run] for run in runs]
        values = np.array([outcome.values for outcome in outcomes_of_runs])
        samples.append(Sample(values, outcomes_of_runs[0].counts, first.metric.score, name in fixed))
    return {(pair.contender, pair.other): pair.verdict for pair in Table(samples, names).pairs(first.margin)}


if __name__ == "__main__":
    app()
