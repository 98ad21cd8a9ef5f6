"""A run that ends its whole process group at a point of saving: `killed_while_saving.py POINT NUMBER ARGUMENTS…`."""

import os
import shutil
import signal
import sys
from pathlib import Path

from gatedrnn.cli import main
from gatedrnn.train import checkpoint

point, number, *arguments = sys.argv[1:]
left = int(number)


def reached(name: str) -> None:
    global left
    if name == point:
        left -= 1
        if left == 0:
            os.killpg(os.getpgid(0), signal.SIGKILL)


rename, remove, write_text = Path.rename, shutil.rmtree, Path.write_text


def watched_rename(self: Path, target: Path) -> Path:
    ours = target.name.startswith("step-")
    if ours:
        reached("before the rename")
    found = rename(self, target)
    if ours:
        reached("after the rename")
    return found


def watched_remove(path: Path, *rest: object, **named: object) -> None:
    if Path(path).name.startswith("step-"):
        reached("before the removal")
    remove(path, *rest, **named)


def watched_text(self: Path, *rest: object, **named: object) -> int:
    if self.name == checkpoint.MANIFEST:
        reached("temporary written")
    return write_text(self, *rest, **named)


Path.rename, shutil.rmtree, Path.write_text = watched_rename, watched_remove, watched_text
main(arguments)
