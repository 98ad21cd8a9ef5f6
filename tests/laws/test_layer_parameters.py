"""Parameters: names, counts, and the weights of another package."""

from itertools import product

import pytest
import torch
from covering import over
from layer_laws import (
    BATCH,
    CELLS,
    EQUATIONS,
    FEATURES,
    HIDDEN,
    LOOP_CELLS,
    PROJECTED_STATES,
    STEPS,
    TORCH,
    assert_same_run,
    projection,
    series,
)
from minGRU_pytorch.minGRU import minGRU
from minGRU_pytorch.minLSTM import minLSTM
from refusals import refused
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import MinGRU, MinLSTM, from_min_gru_pytorch


def expected_shapes(name, layers, suffixes, bias, proj_size, layer_norm):
    """Parameters in the order of torch's documentation, and what papers add after it."""
    cell, width, found = EQUATIONS[name], proj_size or HIDDEN, {}
    rows, channels = len(cell.projections) * HIDDEN, HIDDEN // 2 if name == "lru" else HIDDEN  # complex ones
    for layer, suffix in product(range(layers), suffixes):
        shapes = {"weight_ih": (rows, FEATURES if layer == 0 else len(suffixes) * width)}
        if name in LOOP_CELLS:
            shapes["weight_hh"] = (rows, width if name in PROJECTED_STATES else HIDDEN)
        if bias:
            shapes |= {"bias_ih": (rows,)} | ({"bias_hh": (rows,)} if name in TORCH else {})
        if proj_size:
            shapes["weight_hr"] = (proj_size, HIDDEN)
        shapes |= {f"weight_{diagonal}": (channels,) for diagonal in cell.diagonals}
        if name == "gru-d":
            shapes |= {"weight_gap": (HIDDEN, 1)} | ({"bias_gap": (HIDDEN,)} if bias else {})
        if layer_norm:
            shapes["weight_norm"] = (rows,)
        if name in ("signed-mingru", "block-orthogonal"):
            shapes["initial_state"] = (HIDDEN,)
        found |= {f"{key}_l{layer}{suffix}": shape for key, shape in shapes.items()}
    return found


@over(name=list(CELLS), bias=(True, False), proj_size=(0, 2), layer_norm=(False, True), both_directions=(True, False))
def test_parameters_are_named_shaped_and_listed_as_torch_does(name, bias, proj_size, layer_norm, both_directions):
    projected, layers = projection(name, proj_size), 2 if both_directions else 1
    chosen = {"bidirectional": both_directions, **projected}
    layer = CELLS[name](FEATURES, HIDDEN, layers, bias, layer_norm=layer_norm, **chosen)
    suffixes = ("", "_reverse") if both_directions else ("",)
    expected = expected_shapes(name, layers, suffixes, bias, projected.get("proj_size", 0), layer_norm)
    names = list(expected)
    assert {k: tuple(v.shape) for k, v in layer.state_dict().items()} == expected
    assert list(layer.state_dict()) == names == [k for k, _ in layer.named_parameters()] == layer._flat_weights_names
    assert [name for listed in layer._all_weights for name in listed] == names
    if name in TORCH and not layer_norm:
        theirs = TORCH[name](FEATURES, HIDDEN, layers, bias, **chosen)
        assert list(theirs.state_dict()) == names and layer._all_weights == theirs._all_weights
    listed = [weight for weights in layer.all_weights for weight in weights]
    for one, other, parameter in zip(listed, layer._flat_weights, layer.parameters(), strict=True):
        assert one is other is parameter
    assert len(layer.all_weights) == layers * len(suffixes) and layer.flatten_parameters() is None


def their_layer(kind, expansion, proj_out, dtype):
    theirs = kind(FEATURES, expansion_factor=expansion, proj_out=proj_out).to(dtype)
    for weight in theirs.parameters():
        nn.init.normal_(weight)
    return theirs


DTYPES = (torch.float64, torch.float32)


@over(kind=(minGRU, minLSTM), expansion=(1.0, 2.0), proj_out=(None, True, False), dtype=DTYPES)
def test_weights_of_mingru_pytorch_give_its_numbers(kind, expansion, proj_out, dtype):
    theirs = their_layer(kind, expansion, proj_out, dtype)
    x = series(BATCH, STEPS, FEATURES, dtype=dtype)
    expected = theirs(x)
    for source in (theirs, theirs.state_dict()):
        ours = from_min_gru_pytorch(source)
        assert type(ours) is {minGRU: MinGRU, minLSTM: MinLSTM}[kind]
        assert ours.batch_first and not ours.bias and ours.weight_ih_l0.dtype == dtype
        assert_equal_within(ours(x)[0], expected, dtype, "output")
        nn.init.zeros_(ours.weight_ih_l0)
        assert torch.equal(theirs(x), expected)  # ours are a copy


@pytest.mark.parametrize("kind", [minGRU, minLSTM])
def test_a_state_of_mingru_pytorch_is_ours_with_two_axes_swapped(kind):
    theirs = their_layer(kind, 2.0, None, torch.float64)
    ours, x = from_min_gru_pytorch(theirs), series()
    before, hx = None, None
    for t in range(STEPS):
        expected, before = theirs(x[:, t : t + 1], before, return_next_prev_hidden=True)
        output, hx = ours.step(x[:, t], hx)
        assert_same_run((output, hx), (expected[:, 0], before.transpose(0, 1)))
    whole, last = ours(x)
    assert_equal_within(last, before.transpose(0, 1), torch.float64, "state")
    if kind is minGRU:  # the parallel form of their minLSTM takes log_g of a carried state, where the state is meant
        first, carried = theirs(x[:, :3], return_next_prev_hidden=True)
        second = theirs(x[:, 3:], carried)
        assert_equal_within(torch.cat([first, second], dim=1), whole, torch.float64, "two halves of theirs")
        ours_second, _ = ours(x[:, 3:], carried.transpose(0, 1))
        assert_equal_within(ours_second, second, torch.float64, "second half from their state")


FOREIGN = {
    "nothing": {}, "both": {"to_hidden_and_gate.weight": (4, 2), "to_hidden_and_f_i_gate.weight": (6, 2)},
    "only to_out": {"to_out.weight": (2, 2)}, "in a model": {"layer.to_hidden_and_gate.weight": (4, 2)},
    "with a bias": {"to_hidden_and_gate.weight": (4, 2), "to_hidden_and_gate.bias": (4,)},
    "torch's": {k: v.shape for k, v in nn.GRU(2, 2).state_dict().items()},
    "ours": {k: v.shape for k, v in MinGRU(2, 2).state_dict().items()},
}  # fmt: skip
MISSHAPEN = {
    "rows that are no whole gates": {"to_hidden_and_f_i_gate.weight": (7, 2)},
    "to_out of another width": {"to_hidden_and_gate.weight": (8, 2), "to_out.weight": (2, 3)},
    "to_out that would be spread": {"to_hidden_and_gate.weight": (8, 2), "to_out.weight": (2, 1)},
    "one axis": {"to_hidden_and_gate.weight": (8,)},
}


@pytest.mark.parametrize("shapes", (FOREIGN | MISSHAPEN).values(), ids=FOREIGN | MISSHAPEN)
def test_a_state_dict_of_another_layer_or_shape_is_refused(shapes):
    said = "weight" if shapes in MISSHAPEN.values() else "a minGRU or minLSTM holds"
    refused(ValueError, said, from_min_gru_pytorch, {name: torch.ones(shape) for name, shape in shapes.items()})
