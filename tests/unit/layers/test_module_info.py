"""torch's own table of inputs for LSTM, GRU and their cells (`ModuleInfo`), called with our classes.

The table comes with torch; the checks that its repository runs over it do not, and are here in our words. Left out:
checks of other devices (CUDA and MPS against the CPU, memory formats, transfers), for lack of one; the check of
`inplace`, an argument that no layer here has.
"""

import pytest
import torch
from covering import over
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import GRU, LSTM, GRUCell, LSTMCell

pytestmark = [
    pytest.mark.slow,
    # torch's own remark on proj_size in float32, once per process.
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]
OURS = {nn.LSTM: LSTM, nn.GRU: GRU, nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell}
MODULE, DTYPE = tuple(OURS), {"float32": torch.float32, "float64": torch.float64}
every_module, both_dtypes = over(module=MODULE), over(module=MODULE, dtype=DTYPE)


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


@over(module=MODULE, dtype=DTYPE, training=(True, False))
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


def without_gaps(value):
    return value.clone() if isinstance(value, torch.Tensor) else type(value)(without_gaps(v) for v in value)


def with_gaps(value):
    """The same elements with other strides."""
    if isinstance(value, torch.Tensor):
        return torch.stack([value, torch.full_like(value, float("nan"))], dim=-1)[..., 0]
    return type(value)(with_gaps(v) for v in value)


@both_dtypes
def test_inputs_may_have_gaps(module, dtype):
    for row in inputs_of(module, dtype):
        ours = made(OURS[module], row, dtype)
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


@over(module=MODULE, check=(torch.autograd.gradcheck, torch.autograd.gradgradcheck))
def test_gradients_are_finite_differences(module, check):
    for row in inputs_of(module, torch.float64, requires_grad=True):
        ours = made(OURS[module], row, torch.float64)
        names = [name for name, _ in ours.named_parameters()]
        leaves = [leaf.detach().requires_grad_() for leaf in tensors(list(row.forward_input.args))]

        def outcome(*values, ours=ours, row=row, names=names):
            given = iter(values)
            args = tuple(rebuild(arg, given) for arg in row.forward_input.args)
            weights = dict(zip(names, given, strict=True))
            return tuple(tensors(torch.func.functional_call(ours, weights, args)))

        assert check(outcome, (*leaves, *ours.parameters()), fast_mode=True)


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
