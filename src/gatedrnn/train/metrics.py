"""metrics.jsonl: one line per log step and per evaluation, in the order of steps."""

import json
import logging
from pathlib import Path
from typing import Any

from gatedrnn.errors import Damaged
from gatedrnn.records import naming

LOG = logging.getLogger("gatedrnn")


class MetricsLog:
    """Appends lines to a run's metrics.jsonl; `step` is in every one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, **line: Any) -> None:
        """One line. What may differ between equal runs goes under `measured`."""
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep(self, folder: Path) -> None:
        """Put the lines so far into a checkpoint."""
        (folder / self.path.name).write_bytes(self.path.read_bytes() if self.path.exists() else b"")

    def go_back(self, step: int, folder: Path | None) -> None:
        """Go back to the lines of a checkpoint of that step; say so where one of them was changed or lost since."""
        kept = None if folder is None else folder / self.path.name
        if kept is None or not kept.exists():  # it was taken before checkpoints had lines
            self.cut_back(step)
            return
        lines = kept.read_bytes()
        if not (self.path.exists() and self.path.read_bytes().startswith(lines)):
            LOG.warning("%s: is damaged; its lines are taken from checkpoint %s", self.path, kept.parent.name)
        self._replace(lines)

    def cut_back(self, step: int) -> None:
        """Drop every line after `step`, and a last line that a kill left incomplete."""
        if step == 0:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            kept = [json.dumps(line) + "\n" for line in read_metrics(self.path) if line["step"] <= step]
            self._replace("".join(kept).encode())

    def _replace(self, lines: bytes) -> None:
        temporary = self.path.with_suffix(".writing")
        with naming(self.path):
            temporary.write_bytes(lines)
            temporary.replace(self.path)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines.

    Raises:
        Damaged: the file is missing, or a line of it is no JSON.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        # What follows the last newline is empty, or half a line.
        return [json.loads(line) for line in lines[:-1]]
    except FileNotFoundError as error:
        raise Damaged(f"{path}: is missing") from error
    except ValueError as error:  # of JSON, or of UTF-8
        raise Damaged(f"{path}: is damaged ({error})") from error
