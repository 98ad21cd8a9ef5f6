"""Kernels round as they did: compiled for instructions that Intel's and AMD's processors have, they give the bits kept.

Of two kernels that are both within a tolerance of their equations this sees that they are two.
"""

import platform
import re

import pytest
from kernel_bits import LLVM, found, kept

from gatedrnn.registry import CELLS

FEW = ("product", "linear scan", "scan of mingru:activation=identity")
"""The fast suite has what loop cells multiply by, what drives every scan, and a generated function."""
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
pytestmark = pytest.mark.skipif(not ON_X86, reason="the bits are those of x86")


@pytest.fixture(scope="module")
def few():
    """Seconds of a machine where they are not compiled yet."""
    return found(*FEW)


def assert_as_kept(sums):
    of_llvm = kept().get(LLVM, {})
    moved = [
        f"{kernel}, of {', '.join(shape for shape in shapes if of_llvm.get(kernel, {}).get(shape) != shapes[shape])}"
        for kernel, shapes in sums.items()
        if of_llvm.get(kernel) != shapes
    ]
    assert not moved, (
        f"with {LLVM} other bits than those kept: {'; '.join(moved)}. Another rounding is a decision: if it is meant, "
        "run kernel_bits.py --write, and say why in the commit"
    )


def test_few_kernels_give_the_bits_that_are_kept(few):
    assert_as_kept(few)


def cell_of(kernel):
    """The name of the cell in "loop of mgu:keep=true, float32"; no cell's of a kernel without one."""
    return re.split(r" of |[:,]", kernel)[1]


@pytest.mark.slow
def test_every_kernel_gives_the_bits_that_are_kept():
    sums, written = found(), kept()[LLVM]
    assert written.keys() <= sums.keys(), "a kernel that is gone"
    assert_as_kept({kernel: sums[kernel] for kernel in written})
    new_cells = CELLS.keys() - {cell_of(kernel) for kernel in written}
    assert {cell_of(kernel) for kernel in sums.keys() - written.keys()} <= new_cells, "a new kernel of no new cell"
