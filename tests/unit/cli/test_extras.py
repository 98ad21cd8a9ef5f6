"""What is installed without extras: commands that need one name it in a line, the others work."""

import subprocess
import sys

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


def test_commands_name_the_extra_that_they_need() -> None:
    commands = ["train", "train --help", "compare --task digits", "compare --help", "probe", "evaluate run"]
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT, EXTRAS, *commands], capture_output=True, text=True, check=True
    )
    lines = process.stderr.splitlines()
    assert len(lines) == 2 * len(commands), process.stderr
    for command, said, code in zip(commands, lines[::2], lines[1::2], strict=True):
        assert said.endswith("is not installed; this command needs: pip install 'gatedrnn[train]'"), (command, said)
        assert code == f"exit code of {command}: 2"


def test_commands_of_the_core_need_no_extra() -> None:
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT, EXTRAS, "--help", "describe mingru --hidden-size 8", "verify --help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line.rsplit(": ")[1] for line in process.stderr.splitlines()] == ["0"] * 3, process.stderr


def test_a_fault_of_our_own_import_is_not_taken_for_a_missing_extra() -> None:
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT, "gatedrnn.cli.describe", "--version"], capture_output=True, text=True
    )
    assert process.returncode == 0
    script = WITHOUT.replace('name.split(".")[0] in missing', "name in missing")
    process = subprocess.run(
        [sys.executable, "-c", script, "gatedrnn.cli.describe", "describe mingru"], capture_output=True, text=True
    )
    assert "Traceback" in process.stderr and "pip install" not in process.stderr
