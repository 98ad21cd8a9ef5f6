"""Code that costs seconds at its first call is called before the tests: it is none of theirs."""

import pytest
import torch


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
