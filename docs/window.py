"""Train the models of the window in the documentation, and write its pages: `python docs/window.py FOLDER`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = ("--hidden-size", "96", "--layers", "2", "--embedding-size", "64", "--block=false", "--total-steps", "400")
RUNS = {
    "lstm": ("--cell", "lstm", *SIZES),
    "mingru": ("--cell", "mingru", *SIZES),
    "parity": ("--task", "parity", "--cell", "signed-mingru"),
}
BUILT = Path(__file__).parents[1] / "view" / "build" / "forget-bias.html"
"""The page of the forget bias, which needs no trained model, as `make view` leaves it."""
PAGES = {"text.html": ("lstm", "mingru"), "parity.html": ("parity",)}


def gatedrnn(*words):
    """The command line."""
    subprocess.run([sys.executable, "-m", "gatedrnn", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def main(folder):
    """Characters of Python's own help by two cells, parity, and an LSTM whose forget bias is a slider."""
    with tempfile.TemporaryDirectory() as runs:
        for name, flags in RUNS.items():
            gatedrnn("train", *flags, "--output", Path(runs, name))
        folder.mkdir(parents=True, exist_ok=True)
        for page, models in PAGES.items():
            gatedrnn("view", *(Path(runs, name) for name in models), "--html", folder / page)
    shutil.copyfile(BUILT, folder / BUILT.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
