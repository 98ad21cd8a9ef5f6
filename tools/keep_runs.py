"""Keep runs of `gatedrnn train` in the repository, and print a table of them.

    python tools/keep_runs.py keep RUN KEPT      the run's records, without any path
    python tools/keep_runs.py table KEPT…        Markdown; language models also against the first

KEPT holds settings, data by sha256, scores, versions and the compressed log (metrics.jsonl.gz); no weights.
"""

import gzip
import json
import shutil
import sys
from pathlib import Path

import yaml

from gatedrnn.pages import signed
from gatedrnn.records import environment
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.training.model import scores_in_words
from gatedrnn.training.outcomes import Outcomes, read_outcomes
from gatedrnn.training.result import RunResult, read_record
from gatedrnn.training.settings import RunSettings


def keep(run: Path, kept: Path) -> None:
    """Copy what a reader of the repository needs."""
    kept.mkdir(parents=True, exist_ok=True)
    for name in ("result.json", "data.json", "outcomes.npz"):
        shutil.copyfile(run / name, kept / name)
    (kept / "metrics.jsonl.gz").write_bytes(gzip.compress((run / "metrics.jsonl").read_bytes(), mtime=0))
    settings = RunSettings.from_flat(yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))).shown()
    (kept / "settings.yaml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    here = environment()
    here["environment"]["commit"] = read_record(run / "result.json", RunResult).measured.commit
    (kept / "environment.json").write_text(json.dumps(here, indent=1))


def table(folders: list[Path]) -> None:
    """One row a run: its scores by split and, with a test text, its perplexity over the first run's."""
    results = {folder.name: read_record(folder / "result.json", RunResult) for folder in folders}
    kept = {folder.name: folder / "outcomes.npz" for folder in folders}
    tests = {name: read_outcomes(path).get("test") if path.exists() else None for name, path in kept.items()}
    first = next(iter(tests.values()))
    language = all(result.scores["validation"].perplexity is not None for result in results.values())
    rows = []
    for name, result in results.items():
        row = {"run": f"`{name}`", "cell": f"`{result.cell}`", "width": str(result.hidden_size)}
        row["steps"] = f"{result.steps:,}"
        for split, scores in scores_in_words(result).items():
            row |= {f"{split} {score}": _number(value) for score, value in scores.items() if score != "tokens"}
        test = tests[name]
        if language and first is not None and test is not None and len(results) > 1:
            row["test perplexity over the first's"] = "–" if test is first else _over(test, first)
        row["training"] = f"{result.measured.training_seconds / 60:.0f} min"
        rows.append(row)
    print(f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(row.get(column, '–') for column in rows[0])} |")


def _number(value: float) -> str:
    return f"{value:.4f}" if value < 10 else f"{value:.2f}"


def _over(test: Outcomes, first: Outcomes) -> str:
    """A perplexity over another's, less one, with an interval over other texts of the kind for these very models."""
    samples = [Sample(outcome.values[None], outcome.counts, "perplexity", fixed=True) for outcome in (test, first)]
    ratio = Table(samples).pairs()[0].difference
    if ratio.low is None or ratio.high is None:
        return signed(ratio.mean, ".1%")
    return f"{signed(ratio.mean, '.1%')} [{signed(ratio.low, '.1%')}, {signed(ratio.high, '.1%')}]"


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "keep":
        keep(*map(Path, paths))
    else:
        table([Path(path) for path in paths])
