"""Every exception of the package stands in one file, is caught by one clause, and knows the exit code of a command."""

import ast
import signal
from pathlib import Path

import pytest

import gatedrnn
from gatedrnn import errors
from gatedrnn.cli.app import main

ROOT = Path(gatedrnn.__file__).parent
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.Error)]


def test_no_other_file_defines_an_exception():
    names = {kind.__name__ for kind in KINDS} | {"Exception", "ValueError", "RuntimeError", "TypeError", "OSError"}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and path != ROOT / "errors.py":
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                assert not bases & names, f"{path.name}: {node.name} belongs into errors.py"


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_ends_with_the_code_of_its_error_and_one_line(kind, monkeypatch, capsys):
    def fails(*args, **kwargs):
        raise kind("the thing: the rule\nand what to do")

    monkeypatch.setattr("gatedrnn.cli.describe.describe_layer", fails)
    with pytest.raises(SystemExit) as stop:
        main(["describe", "gru"])
    wanted = kind.exit_code
    assert stop.value.code == wanted and wanted in (1, 2, 130)
    assert capsys.readouterr().err == "gatedrnn: the thing: the rule and what to do\n"


def test_an_interrupted_run_ends_with_its_signal():
    assert errors.Interrupted("kept", signal.SIGTERM).exit_code == 143
