"""The shapes in the signatures of operations are those of every call that the operations' tests make."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKED = "--jaxtyping-packages=gatedrnn.ops,gatedrnn.equations,beartype.beartype"


def checked(*arguments: str) -> tuple[int, str]:
    """Exit code and output of a suite in which each call of an operation checks its shapes, torch.compile aside."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", CHECKED, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[2])
    return ended.returncode, ended.stdout


OPERATIONS = (
    "linear_scan", "block_scan", "gated_scan", "projected_scan", "loop_cells", "cross_entropy", "log_space",
    "masked_max",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("file", OPERATIONS)
def test_every_call_has_the_shapes_of_the_signature(file):
    code, said = checked(str(HERE / f"test_{file}.py"), "-k", "not refused and not compiled and not derived")
    assert code == 0, said[-2000:]


@pytest.mark.slow
def test_another_shape_is_seen():
    """The calls that the operation itself refuses are refused by their signature."""
    code, said = checked(str(HERE / "test_linear_scan.py"), "-k", "refused_with_their_name and reset_state")
    assert code == 1 and "TypeCheckError" in said and "Float[Tensor, 'channels']" in said, said[-2000:]
