"""torch's own table of inputs for LSTM, GRU and their cells (`ModuleInfo`), called with our classes.

The table comes with torch; the checks that its repository runs over it do not, and are here in our words. Left out:
checks of other devices (CUDA and MPS against the CPU, memory formats, transfers), for lack of one; the check of
`inplace`, an argument that no layer here has.
"""

import copy
import io
import pickle

import pytest
import torch
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import GRU, LSTM, GRUCell, LSTMCell

pytestmark = [
    pytest.mark.slow,
    # torch's own remark on proj_size in float32, once per process.
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]
OURS = {nn.LSTM: LSTM, nn.GRU: GRU, nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell}
every_module = pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def info_of(module):
    from torch.testing._internal.common_modules import module_db

    return next(info for info in module_db if info.module_cls is module)


def inputs_of(module, dtype, training=True, requires_grad=False):
    """(constructor input, forward input, reference) of every row of the table."""
    info = info_of(module)
    rows = info.module_inputs_func(info, "cpu", dtype, requires_grad, training)
    assert rows
    return rows


def made(cls, row, dtype, training=True):
    module = cls(*row.constructor_input.args, **row.constructor_input.kwargs)
    return module.to(dtype).train(training)


def called(module, row):
    return module(*row.forward_input.args, **row.forward_input.kwargs)


def tensors(found):
    return [v for part in found for v in tensors(part)] if isinstance(found, (tuple, list)) else [found]


def assert_close(found, expected, dtype, what):
    for mine, yours in zip(tensors(found), tensors(expected), strict=True):
        assert mine.dtype == yours.dtype and mine.shape == yours.shape
        assert_equal_within(mine, yours, dtype, what)


@every_module
@both_dtypes
@both_modes
def test_outputs_are_those_of_torchs_module_and_of_the_reference(module, dtype, training):
    for row in inputs_of(module, dtype, training):
        theirs = made(module, row, dtype, training)
        ours = made(OURS[module], row, dtype, training)
        ours.load_state_dict(theirs.state_dict())
        found = called(ours, row)
        assert_close(found, called(theirs, row), dtype, "output")
        if row.reference_fn is not None:
            args, kwargs = row.forward_input.args, row.forward_input.kwargs
            if isinstance(ours, (LSTM, GRU)):
                kwargs = {**kwargs, "batch_first": ours.batch_first}
            assert_close(row.reference_fn(ours, *args, **kwargs), found, dtype, "reference")


@every_module
@both_dtypes
def test_parameters_are_made_where_and_in_the_dtype_that_is_asked_for(module, dtype):
    for row in inputs_of(module, dtype):
        kwargs = row.constructor_input.kwargs
        for device in ("cpu", "meta"):
            ours = OURS[module](*row.constructor_input.args, **{**kwargs, "device": device, "dtype": dtype})
            assert {(p.dtype, p.device.type) for p in ours.parameters()} == {(dtype, device)}


@every_module
@both_dtypes
@both_modes
def test_a_pickled_module_is_the_module(module, dtype, training):
    for row in inputs_of(module, dtype, training):
        ours, file = made(OURS[module], row, dtype, training), io.BytesIO()
        torch.save(ours, file)
        file.seek(0)
        for copied in (pickle.loads(pickle.dumps(ours)), torch.load(file, weights_only=False), copy.deepcopy(ours)):
            for mine, yours in zip(tensors(called(copied, row)), tensors(called(ours, row)), strict=True):
                assert torch.equal(mine, yours)


@every_module
def test_a_module_has_torchs_representation(module):
    for row in inputs_of(module, torch.float32):
        theirs, ours = made(module, row, torch.float32), made(OURS[module], row, torch.float32)
        assert repr(ours) == repr(theirs) and str(ours) == str(theirs)


def without_gaps(value):
    return value.clone() if isinstance(value, torch.Tensor) else type(value)(without_gaps(v) for v in value)


def with_gaps(value):
    """The same elements with other strides."""
    if isinstance(value, torch.Tensor):
        return torch.stack([value, torch.full_like(value, float("nan"))], dim=-1)[..., 0]
    return type(value)(with_gaps(v) for v in value)


@every_module
@both_dtypes
@both_modes
def test_inputs_may_have_gaps(module, dtype, training):
    for row in inputs_of(module, dtype, training):
        ours = made(OURS[module], row, dtype, training)
        outcomes = []
        for lay in (without_gaps, with_gaps):
            given = [leaf.requires_grad_() for leaf in tensors(lay(list(row.forward_input.args)))]
            rebuilt = iter(given)
            args = [rebuild(arg, rebuilt) for arg in row.forward_input.args]
            ours.zero_grad()
            found = tensors(ours(*args))
            sum(part.sin().sum() for part in found).backward()
            outcomes.append([*found, *(g.grad for g in given), *(p.grad.clone() for p in ours.parameters())])
        for mine, yours in zip(*outcomes, strict=True):
            assert_equal_within(mine, yours, dtype, "with gaps", gradient=True)


def rebuild(like, leaves):
    return next(leaves) if isinstance(like, torch.Tensor) else tuple(rebuild(v, leaves) for v in like)


@every_module
@both_modes
@pytest.mark.parametrize("check", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_gradients_are_finite_differences(module, training, check):
    for row in inputs_of(module, torch.float64, training, requires_grad=True):
        ours = made(OURS[module], row, torch.float64, training)
        names = [name for name, _ in ours.named_parameters()]
        leaves = [leaf.detach().requires_grad_() for leaf in tensors(list(row.forward_input.args))]

        def outcome(*values, ours=ours, row=row, names=names):
            given = iter(values)
            args = tuple(rebuild(arg, given) for arg in row.forward_input.args)
            weights = dict(zip(names, given, strict=True))
            return tuple(tensors(torch.func.functional_call(ours, weights, args)))

        assert check(outcome, (*leaves, *ours.parameters()), fast_mode=True)


@every_module
@both_modes
def test_a_module_can_be_moved_emptied_and_filled(module, training):
    for row in inputs_of(module, torch.float32, training):
        ours = made(OURS[module], row, torch.float32, training)
        state = copy.deepcopy(ours.state_dict())
        expected = tensors(called(ours, row))
        assert {p.dtype for p in ours.to(torch.float64).parameters()} == {torch.float64}
        ours.to(torch.float32)
        empty = ours.to("meta").to_empty(device="cpu")
        empty.reset_parameters()
        assert all(p.isfinite().all() for p in empty.parameters())
        empty.load_state_dict(state)
        assert all(torch.equal(a, b) for a, b in zip(tensors(called(empty, row)), expected, strict=True))
        assigned = made(OURS[module], row, torch.float32, training)
        assigned.load_state_dict(state, assign=True)
        assert all(torch.equal(a, b) for a, b in zip(tensors(called(assigned, row)), expected, strict=True))


@every_module
@both_dtypes
def test_what_the_table_says_is_wrong_raises_what_it_says(module, dtype):
    from torch.testing._internal.common_modules import ModuleErrorEnum

    info = info_of(module)
    wrong = info.module_error_inputs_func(info, "cpu", dtype, False, True)
    assert wrong
    for case in wrong:
        given = case.module_error_input
        if case.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises(case.error_type, match=case.error_regex):
                OURS[module](*given.constructor_input.args, **given.constructor_input.kwargs)
        else:
            ours = OURS[module](*given.constructor_input.args, **given.constructor_input.kwargs)
            if "dtype" not in given.constructor_input.kwargs:
                ours = ours.to(dtype)
            with pytest.raises(case.error_type, match=case.error_regex):
                ours(*given.forward_input.args, **given.forward_input.kwargs)
