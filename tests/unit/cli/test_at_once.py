"""Help and errors of usage come before torch is imported: they answer at once."""

import json
import subprocess
import sys

import pytest

from gatedrnn.names import PROBES as NAMES
from gatedrnn.tasks.probes.suite import PROBES

HEAVY = ("torch", "transformers", "datasets", "pandas", "scipy", "matplotlib", "sklearn", "plotly", "numba")
COMMANDS = (
    "compare", "report", "train", "forecast", "evaluate", "predict", "generate", "export", "probe", "diagnose", "view",
    "describe", "verify", "cache",
)  # fmt: skip
CALLS = {
    "help": ["--help", "--version", *(f"{command} --help" for command in COMMANDS[:5])],
    "help of other commands": [f"{command} --help" for command in COMMANDS[5:]],
    "help of a task": ["train --task forecast --help-all", "compare --task text-classification --help"],
    "unknown command": ["trian", "forecats --horizon 3"],
    "unknown flag": [f"{command} --nonsense 3" for command in COMMANDS] + ["forecast --horizn 3", "train --horizon 3"],
    "unknown task": ["train --task nonsense", "compare --task nonsense"],
    "unknown cell": [
        "train --cell mingur", "compare --cells mingur gru", "probe lstmm", "verify mingur", "describe lstmm",
    ],
    "wrong value": ["train --hidden-size -3", "train --epochs many", "compare --jobs 0"],
}  # fmt: skip
PROGRAM = """
import contextlib, io, json, sys
from gatedrnn.cli.app import main
answers = {}
for call in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main(call.split())
            code = 0
        except SystemExit as end:
            code = end.code or 0
    answers[call] = code, sorted(set(sys.argv[2:]).intersection(sys.modules))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers():
    """The code of each call, and what is loaded after it, of one process: what one call imports stays for the next."""
    calls = json.dumps([call for of_kind in CALLS.values() for call in of_kind])
    return json.loads(subprocess.run([sys.executable, "-c", PROGRAM, calls, *HEAVY], capture_output=True).stdout)


@pytest.mark.parametrize("kind", CALLS)
def test_the_answer_imports_nothing_heavy(kind, answers):
    expected = 0 if kind.startswith("help") else 2
    assert {call: answers[call] for call in CALLS[kind]} == {call: [expected, []] for call in CALLS[kind]}


def test_the_names_that_are_known_without_numpy_are_those_of_the_probes():
    assert tuple(PROBES) == NAMES


@pytest.mark.parametrize(
    ("call", "code"), [(["--version"], 0), (["trian"], 2), (["describe", "mingru", "--kernel"], 0)]
)
def test_a_process_ends_with_its_code_and_all_that_it_printed(call, code):
    done = subprocess.run([sys.executable, "-m", "gatedrnn", *call], capture_output=True, text=True)
    assert done.returncode == code and (done.stdout or done.stderr).endswith("\n")
    assert "Exception ignored" not in done.stderr
