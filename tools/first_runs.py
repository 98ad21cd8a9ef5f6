"""First runs of the README: default flags on data of several kinds, beside plain methods on the same test split.

    python tools/first_runs.py DATA KEPT       writes KEPT/NAME.json for each, and prints the table of the README

DATA is a folder with the published files that are named here. Scores are of one seed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from gatedrnn.records import environment
from gatedrnn.training.result import Standing, read_record

RUNS = {
    "weekly carbon dioxide": ["forecast"],
    "airline passengers": ["forecast", "tables/jb_airline-passengers.csv"],
    "film-review sentences (MR)": ["train", "--train-file", "text-sets/mr.parquet"],
    "customer reviews (CR)": ["train", "--train-file", "text-sets/cr.parquet"],
    "handwritten digits": ["train", "--task", "digits"],
    "spoken vowels (JapaneseVowels)": [
        "train", "--train-file", "ucr/JapaneseVowels/JapaneseVowels_TRAIN.ts.gz",
        "--test-file", "ucr/JapaneseVowels/JapaneseVowels_TEST.ts.gz",
    ],
}  # fmt: skip
"""Commands, with files in DATA."""


def first_run(arguments: list[str], data: Path) -> Standing:
    """The standing of a run with these arguments."""
    words = [str(data / word) if (data / word).is_file() else word for word in arguments]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([sys.executable, "-m", "gatedrnn", *words, "--output", str(run)], check=True)
        return read_record(run / "standing.json", Standing)


def file_of(name: str) -> str:
    """The file of a kept run."""
    return f"{name.partition(' (')[0].replace(' ', '-')}.json"


def row_of(name: str, standing: Standing) -> str:
    """The row of the table: the run, and the best plain method."""
    best = standing.ranked()[0]
    return f"| {name} | {standing.metric} | {standing.score:.3f} | {best.score:.3f} | {best.name} |"


if __name__ == "__main__":
    data, kept = Path(sys.argv[1]), Path(sys.argv[2])
    kept.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, arguments in RUNS.items():
        found = first_run(arguments, data)
        record = {"name": name, "arguments": arguments, "standing": json.loads(found.text())}
        (kept / file_of(name)).write_text(json.dumps(record | environment(), indent=1) + "\n")
        rows.append(row_of(name, found))
    print("\n".join(rows))
