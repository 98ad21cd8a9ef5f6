"""What is installed without extras: commands that need one name it in a line, the others work."""

import subprocess
import sys

import pytest
from commands import call

from gatedrnn.cli.app import main

EXTRAS = (
    "transformers accelerate datasets huggingface_hub tokenizers safetensors pydantic yaml jinja2 plotly matplotlib "
    "sklearn scipy psutil onnx onnxscript onnxruntime"
)
WITHOUT = """
import sys

missing = sys.argv[1].split()

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from gatedrnn.cli.app import main

for line in sys.argv[2:]:
    try:
        main(line.split())
        code = 0
    except SystemExit as stop:
        code = stop.code
    print(f"exit code of {line}: {code}", file=sys.stderr)
"""
CORE = ["--help", "describe mingru --hidden-size 8", "verify --help"]
OTHERS = ["train", "train --help", "compare --task digits", "compare --help", "probe", "evaluate run"]


@pytest.fixture(scope="module")
def said_without_extras() -> list[str]:
    command = [sys.executable, "-c", WITHOUT, EXTRAS, *CORE, *OTHERS]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


def test_commands_of_the_core_need_no_extra_and_others_name_it(said_without_extras: list[str]) -> None:
    said = said_without_extras
    assert said[: len(CORE)] == [f"exit code of {command}: 0" for command in CORE], said
    lines = said[len(CORE) :]
    for command, line, code in zip(OTHERS, lines[::2], lines[1::2], strict=True):
        assert line.endswith("is not installed; this command needs: pip install 'gatedrnn[train]'"), (command, line)
        assert code == f"exit code of {command}: 2"


def test_a_fault_of_our_own_import_is_not_taken_for_a_missing_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gatedrnn.cli.describe", None)
    call("--version")
    with pytest.raises(ImportError, match=r"gatedrnn\.cli\.describe"):
        main(["describe", "mingru"])
