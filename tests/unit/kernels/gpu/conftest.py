"""The Triton kernels run on the GPU if there is one, else in Triton's interpreter."""

import numpy as np
import pytest
import torch


def scanned_in_a_tree(scan, values):
    """The interpreter's scan along the first axis, by doubling steps and whole rows at a time.

    Its own goes number by number from the first row on: far slower, and blind to a combination that is not associative,
    which a GPU, combining neighbours first, would get wrong.
    """
    assert scan.axis == 0
    rows = [value.handle.data for value in values]
    step = 1
    while step < len(rows[0]):
        earlier, later = (
            [scan.to_tensor(row, value.dtype) for row, value in zip(moved, values, strict=True)]
            for moved in ([np.roll(row, step, axis=0) for row in rows], rows)
        )
        combined = scan.combine_fn.fn(*earlier, *later)
        for row, new in zip(rows, combined, strict=True):
            row[step:] = new.handle.data[step:]
        step *= 2
    return [scan.to_tensor(row, value.dtype) for row, value in zip(rows, values, strict=True)]


@pytest.fixture(scope="session")
def device():
    triton = pytest.importorskip("triton", reason="triton is not installed")
    if not triton.knobs.runtime.interpret:
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device, and TRITON_INTERPRET is not 1")
        yield torch.device("cuda")
        return
    if not type(triton.language.standard.sum).__name__.startswith("Interpreted"):
        pytest.skip("triton was imported before TRITON_INTERPRET was set to 1")
    from triton.runtime.interpreter import ScanOps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScanOps, "generic_scan", scanned_in_a_tree)
        yield torch.device("cpu")
