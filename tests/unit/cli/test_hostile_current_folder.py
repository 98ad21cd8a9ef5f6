"""A current folder that somebody sent: no file of it is run or read that no command names, whatever it is called."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from finished import copy_of

from gatedrnn.cli.app import build_app
from gatedrnn.kernels.cpu import store
from gatedrnn.kernels.cpu.compile import source_hash

MODULES = (
    "conftest", "gatedrnn", "heapq", "llvmlite/__init__", "numba", "pickle", "queue", "random", "sitecustomize",
    "socket", "statistics", "token", "torch/__init__", "typing", "usercustomize", "yaml",
)  # fmt: skip
SETTINGS = {
    ".numba_config.yaml": "cache_dir: cache\nopt: '0'\ndisable_jit: 1\nthreading_layer: none\n",
    ".env": "NUMBA_CACHE_DIR=cache\nGATEDRNN_KERNEL_CACHE=cache\nPYTHONPATH=.\n",
    "pyproject.toml": "[tool.gatedrnn]\nhidden_size = 1000000\n",
    "matplotlibrc": "backend: module://random\nbad: key\n",
    "setup.cfg": "[gatedrnn]\nhidden_size = 1000000\n", "config.yaml": "hidden_size: 1000000\n",
}  # fmt: skip
SMALL = "--hidden-size 4 --total-steps 2 --threads 1"
ALONE = "--baselines none"
LINES = {
    "cache": "",
    "compare": f"--task digits --cells gru mingru --match layers --seeds 0 --jobs 2 {SMALL} --output out",
    "describe": "mingru", "diagnose": "{text}", "evaluate": "{digits}", "export": "{text} --output out.onnx",
    "forecast": f"table.csv --target y --horizon 3 {SMALL} {ALONE} --output out",
    "generate": "{text} --prompt the --length 5", "predict": "{series} {rising} --output out.csv",
    "probe": "lstmm --output out", "report": "{study}",
    "train": f"--train-file texts.csv {SMALL} {ALONE} --output out", "verify": "mingru --output out.json",
    "view": "{text} --html out.html",
}  # fmt: skip
"""Arguments of each command, in a folder of the tables below."""
TABLES = {
    "texts.csv": "text,label\n" + "".join(f"a {word} film {n},{word}\n" for n in range(40) for word in ("good", "bad")),
    "table.csv": "t,y\n" + "".join(f"2020-01-{day:02},{day % 7}\n" for day in range(1, 31)),
    "series.csv": "a,b,c,d\n1,2,3,4\n4,3,2,1\n",
}


class Evil:
    """A stranger's kernel: code that runs where it is loaded."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return exec, (f"open({self.mark!r}, 'w').close()",)


def compiled():
    """The kernels that the suite has compiled."""
    files = (file for location in store.locations()[:1] for file in location.folder.glob("*.compiled"))
    return [file for file in files if store.is_of(file, source_hash())]


def fill(folder, mark):
    """Make every file that Python, or a library, might take for its own; each leaves the mark when it is run."""
    for name in MODULES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write(__name__ + '\\n')\n")
    for name, text in SETTINGS.items():
        (folder / name).write_text(text)
    poisoned = folder / "cache" / store.locations()[0].folder.name
    poisoned.mkdir(parents=True)
    for file in compiled():
        content = store.packed(file.name, source_hash(), pickle.dumps((Evil(str(mark)),)))
        (poisoned / file.name).write_bytes(content)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory):
    """A user's cache with what the suite has compiled, signed: nothing is compiled for each command anew."""
    folder, key = tmp_path_factory.mktemp("user") / "gatedrnn" / "kernels", bytes(range(store._DIGEST))
    place = folder / store.locations()[0].folder.name
    for each in (folder.parent, folder, place):
        each.mkdir(mode=0o700)
    for path, content in [(folder / store._KEY, key)] + [
        (place / file.name, store.packed(file.name, source_hash(), file.read_bytes()[3 * store._DIGEST :], key))
        for file in compiled()
    ]:
        path.write_bytes(content)
        path.chmod(0o600)
    return folder.parents[1]


def started(command, folder, cache):
    """Exit code, output and complaints of a process, without numbers, which may be times, and without its progress."""
    environment = {name: value for name, value in os.environ.items() if name not in store.VARIABLES}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "XDG_CACHE_HOME": str(cache), "COLUMNS": "100"},
        capture_output=True, text=True,
    )  # fmt: skip
    answer = [line for line in done.stdout.splitlines() if not PROGRESS.search(line)]
    complaints = [line for line in done.stderr.splitlines() if COMPLAINT.search(line)]
    said = "\n".join([*answer, *complaints]).replace(str(folder), "FOLDER")
    return done.returncode, " ".join(re.sub(r"[\d.,:]+( (ms|s|min)\b)?|[─━]+", "#", said).split())


PROGRESS = re.compile(
    r"\bfor [\d.]+ (s|min)\b|\bs left|tokens/s|^(starting|fitting|tokenising|compiling)\b|the cheapest of them"
)
COMPLAINT = re.compile(r"gatedrnn:|Error|Warning|Traceback|Exception|ignored|matplotlib|numba")
"""Patterns of lines that depend on time, and of those on the error stream that do not."""


GATEDRNN = str(Path(sys.executable).with_name("gatedrnn"))


def test_no_command_is_forgotten_here():
    assert LINES.keys() == {name for name in build_app() if not name.startswith("-")}


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_a_command_does_in_a_hostile_folder_what_it_does_in_an_empty_one(
    command, own_cache, text_run, digits_run, series_run, rising, comparison, tmp_path
):
    outcomes, mark = [], tmp_path / "EXECUTED"
    for name in ("empty", "hostile"):
        folder = tmp_path / name
        folder.mkdir()
        for table, rows in TABLES.items():
            (folder / table).write_text(rows)
        if name == "hostile":
            fill(folder, mark)
        opened = {"text": copy_of(text_run, tmp_path / f"{name}-text"), "digits": digits_run, "series": series_run}
        opened["rising"] = rising
        opened["study"] = comparison.copy(tmp_path / f"{name}-study")
        typed = [GATEDRNN, command, *LINES[command].format(**opened).split()]
        code, said = started(typed, folder, own_cache)
        outcomes.append((code, said.replace(f"{name}-", "")))
        assert not mark.exists(), mark.read_text()
    # No flag makes a probe short: it is refused, by all that it imports before it runs.
    assert outcomes[0] == outcomes[1] and outcomes[0][0] == (2 if command == "probe" else 0), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("start", [["-m", "gatedrnn"], ["-E", "-m", "gatedrnn"]], ids=" ".join)
def test_started_as_a_module_it_runs_nothing_of_the_folder_either(start, own_cache, tmp_path):
    """Python itself runs a `gatedrnn.py` of the current folder then, before this package could say anything."""
    folder, mark = tmp_path / "hostile", tmp_path / "EXECUTED"
    folder.mkdir()
    fill(folder, mark)
    (folder / "gatedrnn.py").unlink()
    code, said = started([sys.executable, *start, "compare", *LINES["compare"].split()], folder, own_cache)
    assert code == 0 and not mark.exists(), said


NUMBA = "import gatedrnn, numba; c = numba.config; c.reload_config(); print([c.CACHE_DIR, c.DISABLE_JIT, c.OPT == 3])"


@pytest.mark.parametrize("before", ["", "import numba; "], ids=["imported by us", "imported before"])
def test_numba_reads_no_file_of_the_current_folder(before, tmp_path):
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: cache\nopt: '1'\ndisable_jit: 1\n")
    assert started([sys.executable, "-c", before + NUMBA], tmp_path, tmp_path / "cache") == (0, "[''# # True]")


def test_in_a_process_of_its_own_matplotlib_reads_no_file_of_the_current_folder(tmp_path):
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 77\nbad: key\n")
    code = "import gatedrnn, matplotlib; print(matplotlib.rcParams['lines.linewidth'] == 77)"
    assert started([sys.executable, "-P", "-c", code], tmp_path, tmp_path / "cache") == (0, "False")
    assert "True" in started([sys.executable, "-c", code], tmp_path, tmp_path / "cache")[1]  # a user's own folder


def test_a_process_that_was_started_without_the_current_folder_finds_its_libraries_too(tmp_path):
    """Such a process hides the files of matplotlib twice: once by itself, once as a command."""
    code = (
        "import gatedrnn, gatedrnn.current_folder as c; c.ignore_matplotlib_file(); import matplotlib; print('found')"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "found\n", done.stderr
