"""The maximum over real steps equals torch's, as do its gradients of any order, in whatever form the series lies."""

from importlib import import_module

import pytest
import torch
from covering import over

from gatedrnn.ops import masked_max
from gatedrnn.ops.masked_max import masked_max_in_kernel

BATCH, STEPS, CHANNELS = 5, 9, 7
FORMS = {
    "by sequence": lambda x: x.contiguous(),
    "by step": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "channels apart": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "part of a wider series": lambda x: torch.cat([x, x], dim=2)[..., : x.shape[2]],
    "one step for all": lambda x: x[:, :1].expand_as(x),
}
MASKS = ("none", "ragged", "some without a step")


def mask_of(kind):
    if kind == "none":
        return None
    mask = torch.rand(BATCH, STEPS) < 0.6
    mask[0], mask[1] = True, kind == "ragged"
    mask[2, 0] = False
    return mask


def by_torch(x, mask):
    if mask is None:
        return x.amax(1)
    found = torch.where(mask.unsqueeze(2), x, float("-inf")).amax(1)
    return torch.where(mask.any(1, keepdim=True), found, 0)


def series(dtype=torch.float64, ties=False):
    x = torch.randn(BATCH, STEPS, CHANNELS, dtype=dtype)
    return (2 * x).round() / 2 if ties else x


@over(form=tuple(FORMS), kind=MASKS, ties=(False, True), dtype=(torch.float64, torch.float32, torch.bfloat16))
def test_maxima_and_gradients_are_torchs(form, kind, ties, dtype):
    x, mask = FORMS[form](series(dtype, ties)).detach().requires_grad_(), mask_of(kind)
    upstream = torch.randn(BATCH, CHANNELS, dtype=dtype)
    ours, theirs = masked_max(x, mask), by_torch(x, mask)
    assert torch.equal(ours, theirs)
    found, expected = (torch.autograd.grad(of, x, upstream)[0] for of in (ours, theirs))
    assert torch.equal(found, expected)  # bit for bit, so that trainings stay as they were


def test_a_kernel_runs_it(monkeypatch):
    def refuse(*_):
        raise AssertionError("torch ran it")

    monkeypatch.setattr(import_module("gatedrnn.ops.masked_max"), "_in_torch", refuse)
    assert masked_max(series()).shape == (BATCH, CHANNELS)


def test_what_is_no_number_is_a_maximum_wherever_it_stands():
    for step in range(STEPS):
        x = series()
        x[1, step, 3] = torch.nan
        assert masked_max(x)[1, 3].isnan() and masked_max(x).isnan().sum() == 1


def test_second_derivatives():
    for kind in MASKS:
        x, mask = series()[..., :2].detach().requires_grad_(), mask_of(kind)
        assert torch.autograd.gradgradcheck(lambda x, mask=mask: masked_max(x, mask) ** 2, (x,))


@pytest.mark.usefixtures("torchs_compiler")
@pytest.mark.parametrize("kind, form", [("none", "by step"), ("ragged", "by sequence"), ("ragged", "channels apart")])
def test_the_operation_is_registered_as_torch_asks(kind, form):
    x = FORMS[form](series()).detach().requires_grad_()
    torch.library.opcheck(masked_max_in_kernel, (x, mask_of(kind)))


def test_transforms_run_in_torch():
    x = series()
    found = torch.func.vmap(torch.func.grad(lambda x: masked_max(x.unsqueeze(0)).sum()))(x)
    assert (found.sum(1) == 1).all()


def test_empty_and_single():
    for shape in ((0, 3, 4), (2, 3, 0), (2, 1, 1)):
        x = torch.randn(shape, requires_grad=True)
        found = masked_max(x)
        assert found.shape == (shape[0], shape[2])
        found.sum().backward()
        assert x.grad.shape == shape


def test_threads_change_nothing():
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            x = torch.randn(64, 30, 100, requires_grad=True)
            mask = torch.arange(30) < torch.arange(64).unsqueeze(1)
            found = masked_max(x, mask)
            assert torch.equal(found, by_torch(x, mask))
            found.sum().backward()  # from one number, expanded
            assert (x.grad.sum(1) == mask.any(1, keepdim=True)).all()
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("torchs_compiler")
def test_a_compiled_graph_holds_it_whole():
    compiled = torch.compile(lambda x, mask: masked_max(x, mask) * 2, fullgraph=True, backend="aot_eager")
    x, mask = series().requires_grad_(), mask_of("ragged")
    found = compiled(x, mask)
    assert torch.equal(found, 2 * by_torch(x, mask))
    found.sum().backward()
    assert (x.grad.sum(1) == 2).all()
