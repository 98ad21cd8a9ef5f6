"""Finished runs of `gatedrnn train` that are kept, and a table of them.

    python results/runs.py keep RUN KEPT      the run's numbers, without any path
    python results/runs.py table KEPT…        Markdown, each against the first

Settings, data by sha256, every logged line, scores, curves and versions stand in KEPT; weights do not.
"""

import json
import shutil
import sys
from pathlib import Path

import yaml

from gatedrnn.compare.statistics import over_documents
from gatedrnn.records import environment
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
    """Perplexities with what they count; the last column is over test documents drawn anew."""
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    split = "test" if "test" in results[0]["documents"] else "validation"
    print(f"| run | cell | width | steps | validation | {split} | bits per byte | {split} to the first | training |")
    print("|---|---|---|---|---|---|---|---|---|")
    for folder, result in zip(folders, results, strict=True):
        apart = "–"
        if result is not results[0] and split == "test":
            ratio = over_documents([result], [results[0]])
            apart = f"{ratio['mean']:+.1%} [{ratio['low']:+.1%}, {ratio['high']:+.1%}]"
        minutes = result["measured"]["training_seconds"] / 60
        print(
            f"| `{folder.name}` | `{result['cell']}` | {result['hidden_size']} | {result['steps']:,} "
            f"| {result['validation_perplexity']:.2f} | {result[f'{split}_perplexity']:.2f} "
            f"| {result[f'{split}_bits_per_byte']:.3f} | {apart} | {minutes:.0f} min |"
        )


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "keep":
        keep(*map(Path, paths))
    else:
        table([Path(path) for path in paths])
