"""Code that costs seconds at its first call is called before the tests: it is none of theirs."""

import pytest
import torch

from gatedrnn.kernels.cpu.cross_entropy import cross_entropy
from gatedrnn.ops import dropout, masked_max


@pytest.fixture(scope="session", autouse=True)
def kernels_of_no_layer():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        cross_entropy(torch.zeros(1, 2, dtype=dtype), torch.zeros(1, dtype=torch.int64), None)
        dropout(torch.zeros(2, dtype=dtype), 0.5)
        masked_max(torch.zeros(2, 3, 4, dtype=dtype, requires_grad=True)).sum().backward()


@pytest.fixture
def set_threads():
    """`torch.set_num_threads`; after the test their number is as before."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def torchs_compiler():
    """Import what `torch.compile` and `opcheck` need."""

    @torch.library.custom_op("gatedrnn_tests::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    same.register_fake(torch.empty_like)
    same.register_autograd(lambda _, gradient: gradient)
    torch.library.opcheck(same, (torch.zeros(2, requires_grad=True),))
    torch.compile(lambda x: x + 1, fullgraph=True, backend="aot_eager")(torch.zeros(2))
