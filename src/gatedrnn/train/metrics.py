"""metrics.jsonl: one line per log step and per evaluation, in the order of steps."""

import json
from pathlib import Path
from typing import Any


class MetricsLog:
    """Appends lines to a run's metrics.jsonl; `step` is in every one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, **line: Any) -> None:
        """One line. What may differ between equal runs goes under `measured`."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def cut_back(self, step: int) -> None:
        """Drop every line after `step`, and a last line that a kill left incomplete."""
        if self.path.exists():
            kept = [json.dumps(line) + "\n" for line in read_metrics(self.path) if line["step"] <= step]
            temporary = self.path.with_suffix(".writing")
            temporary.write_text("".join(kept), encoding="utf-8")
            temporary.replace(self.path)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines."""
    lines = path.read_text(encoding="utf-8").split("\n")
    # What follows the last newline is empty, or half a line.
    return [json.loads(line) for line in lines[:-1]]
