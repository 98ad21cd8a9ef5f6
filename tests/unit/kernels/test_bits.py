"""Kernels round as they did: compiled for instructions that Intel's and AMD's processors have, they give the bits kept.

Of two kernels that are both within a tolerance of their equations this sees that they are two.
"""

import platform

import pytest
from kernel_bits import LLVM, found, kept

FEW = ("product", "linear scan", "scan of mingru:activation=identity")
"""For the fast suite: what loop cells multiply by, what drives every scan, and a generated function."""
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
pytestmark = pytest.mark.skipif(not ON_X86, reason="the bits are those of x86")


@pytest.fixture(scope="module")
def few():
    """On a machine where they are not compiled yet, some seconds."""
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


@pytest.mark.slow
def test_every_kernel_gives_the_bits_that_are_kept():
    sums = found()
    assert_as_kept(sums)
    assert sums.keys() == kept()[LLVM].keys(), "a kernel that is gone, or a new one"
