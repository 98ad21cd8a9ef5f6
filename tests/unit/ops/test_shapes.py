"""The shapes in the signatures of operations are those of every call that the operations' tests make."""

import subprocess
import sys
from pathlib import Path

import pytest

import gatedrnn

HERE, PACKAGE = Path(__file__).parent, Path(gatedrnn.__file__).parent
COMPILED = ("cpu", "loops", "step", "gpu")
"""Modules of a kind whose functions Numba or Triton reads: they take no decorator."""
FILES = [file.relative_to(PACKAGE).with_suffix("") for file in sorted((PACKAGE / "kinds").rglob("*.py"))]
KINDS = [".".join(("gatedrnn", *file.parts)) for file in FILES if file.name not in (*COMPILED, "__init__")]
PLUGIN = "jaxtyping._pytest_plugin"
CHECKED = f"--jaxtyping-packages={','.join(['gatedrnn.ops', *KINDS])},check_shapes.check_shapes"
LEFT_OUT = ("refused", "compiled", "derived", "registered", "torchs_own_check", "graph_in_onnx")
"""Words in the names of tests that pass what does not fit, or whose calls torch makes in its own way."""


def checked(*arguments):
    """Exit code and output of a suite in which each call of an operation checks its shapes, torch.compile aside."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, CHECKED, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[2])
    return ended.returncode, ended.stdout


@pytest.mark.slow
def test_every_call_has_the_shapes_of_the_signature():
    files = [file for file in sorted(HERE.glob("test_*.py")) if file != Path(__file__)]
    code, said = checked(*files, "-k", " and ".join(f"not {word}" for word in LEFT_OUT))
    assert code == 0, said[-2000:]


@pytest.mark.slow
def test_another_shape_is_seen():
    """The calls that the operation itself refuses are refused by their signature."""
    code, said = checked(HERE / "test_linear_scan.py", "-k", "refused_with_their_name")
    assert code == 1 and "TypeCheckError" in said and "Float[Tensor, 'batch time channels']" in said, said[-2000:]
