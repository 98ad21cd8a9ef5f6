"""Finished runs of `gatedrnn train` that are kept, and a table of them.

    python tools/keep_runs.py keep RUN KEPT      the run's numbers, without any path
    python tools/keep_runs.py table KEPT…        Markdown, each against the first

Settings, data by sha256, every logged line, scores, curves and versions stand in KEPT; weights do not.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from gatedrnn.records import environment
from gatedrnn.study.statistics import over_documents
from gatedrnn.train.report import write_report
from gatedrnn.train.settings import RunSettings


def keep(run: Path, kept: Path) -> None:
    """Copy what a reader of the repository needs."""
    kept.mkdir(parents=True, exist_ok=True)
    write_report(run)
    for name in ("result.json", "data.json", "metrics.jsonl", "curves.svg"):
        shutil.copyfile(run / name, kept / name)
    settings = RunSettings.from_flat(yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))).shown()
    (kept / "settings.yaml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    (kept / "environment.json").write_text(json.dumps(environment(), indent=1))


def table(folders: list[Path]) -> None:
    """Scores with what they count. With a test split, perplexities, the last column over test documents drawn anew;
    else the loss on validation.
    """
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    tested = "test" in results[0]["documents"]
    scores = (
        "validation | test | bits per byte | test to the first" if tested else "validation loss, nats | bits per byte"
    )
    print(f"| run | cell | width | steps | {scores} | training |")
    print("|---" * (9 if tested else 7) + "|")
    for folder, result in zip(folders, results, strict=True):
        minutes = result["measured"]["training_seconds"] / 60
        shown = (
            _tested(result, results[0]) if tested else [f"{result['validation_loss']:.3f}", _bits(result, "validation")]
        )
        start = [f"`{folder.name}`", f"`{result['cell']}`", f"{result['hidden_size']}", f"{result['steps']:,}"]
        print(f"| {' | '.join([*start, *shown])} | {minutes:.0f} min |")


def _tested(result: dict[str, Any], first: dict[str, Any]) -> list[str]:
    apart = "–"
    if result is not first:
        ratio = over_documents([result], [first])
        apart = f"{ratio['mean']:+.1%} [{ratio['low']:+.1%}, {ratio['high']:+.1%}]"
    return [f"{result['validation_perplexity']:.2f}", f"{result['test_perplexity']:.2f}", _bits(result, "test"), apart]


def _bits(result: dict[str, Any], split: str) -> str:
    return f"{result[f'{split}_bits_per_byte']:.3f}"


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "keep":
        keep(*map(Path, paths))
    else:
        table([Path(path) for path in paths])
