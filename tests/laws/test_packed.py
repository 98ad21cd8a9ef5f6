"""A packed sequence comes back as it came, has no layout, and gives torch's bits; see also test_equivalence.py."""

import pytest
import torch
from by_name import results
from covering import over
from layer_laws import (
    FEATURES,
    HIDDEN,
    STEPS,
    TORCH,
    as_many,
    assert_same,
    every_cell,
    layer_of,
    projection,
    run,
    series,
    states_of,
    upstream,
)
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

LENGTHS = {
    "sorted": (7, 5, 5, 1),
    "unsorted": (2, 7, 1, 5),
    "shorter than the rectangle": (3, 5, 1, 2),
    "one": (STEPS,),
}
TORCHS = {
    "lstm": ("lstm", {}), "lstm-small": ("lstm", {"bias": False, "proj_size": 2}),
    "gru": ("gru", {}), "gru-small": ("gru", {"bias": False}),
}  # fmt: skip


def mask_of(lengths, steps=STEPS):
    return torch.arange(steps) < torch.tensor(lengths).unsqueeze(1)


def pack(x, lengths, batch_first=True):
    """A sequence in the layout of the layer; torch asks for sorted lengths unless told that they are not."""
    x = x if batch_first else x.transpose(0, 1)
    in_order = list(lengths) == sorted(lengths, reverse=True)
    return pack_padded_sequence(x, torch.tensor(lengths), batch_first=batch_first, enforce_sorted=in_order)


def unpacked(layer, lengths, x, hx, **flags):
    """From the rectangle to the rectangle by way of a packed sequence, whose output must be packed alike."""
    rows = pack(x, lengths, layer.batch_first)
    output, last = layer(rows, hx, **flags)
    assert isinstance(output, PackedSequence)
    assert torch.equal(output.batch_sizes, rows.batch_sizes) and output.batch_sizes.device.type == "cpu"
    for one, other in ((output.sorted_indices, rows.sorted_indices), (output.unsorted_indices, rows.unsorted_indices)):
        assert (one is None and other is None) or torch.equal(one, other)
    return pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0], last


@every_cell
def test_a_packed_sequence_has_no_layout_needs_no_hx_and_comes_back_packed_alike(name):
    chosen = {"num_layers": 2, "bidirectional": True} | projection(name, 2)
    layer, time_first = layer_of(name, **chosen), layer_of(name, batch_first=False, **chosen)
    time_first.load_state_dict(layer.state_dict())
    for lengths in LENGTHS.values():
        x, longest = series(len(lengths), STEPS, FEATURES), max(lengths)
        resets = torch.rand(len(lengths), longest) < 0.3
        for given in (None, resets):
            padded = {} if given is None else {"resets": given}
            turned = {} if given is None else {"resets": given.T}
            expected = results(*layer(x[:, :longest], mask=mask_of(lengths, longest), **padded))
            assert_same(results(*unpacked(layer, lengths, x[:, :longest], None, **padded)), expected)
            assert_same(results(*unpacked(time_first, lengths, x[:, :longest], None, **turned)), expected)


@over(cell=TORCHS, lengths=LENGTHS, bidirectional=(False, True), dtype=(torch.float32, torch.float64))
def test_torchs_cells_give_torchs_bits_on_its_kernel_and_its_numbers_on_ours(cell, lengths, bidirectional, dtype):
    name, chosen = cell[0], cell[1] | {"num_layers": 2, "bidirectional": bidirectional}
    ours = layer_of(name, dtype=dtype, **chosen)
    theirs = TORCH[name](FEATURES, HIDDEN, dtype=dtype, batch_first=True, **chosen)
    theirs.load_state_dict(ours.state_dict())
    x, states = series(len(lengths), STEPS, FEATURES, dtype=dtype), states_of(ours, len(lengths), dtype)
    grads = upstream(ours, x, states)
    got, wanted = (
        run(layer, x, states, grads, lambda x, hx, layer=layer: unpacked(layer, lengths, x, hx))
        for layer in (ours, theirs)
    )
    assert_same(got, wanted, dtype)
    ours.backend = "torch"
    got = run(ours, x, states, grads, lambda x, hx: unpacked(ours, lengths, x, hx))
    for what, value in wanted.items():
        assert torch.equal(got[what], value), what


@pytest.mark.parametrize("name", TORCH)
def test_torchs_cells_drop_what_torch_drops_of_a_packed_sequence(name):
    chosen = {"num_layers": 3, "dropout": 0.5, "bidirectional": True}
    ours, theirs = layer_of(name, **chosen), TORCH[name](FEATURES, HIDDEN, dtype=torch.float64, **chosen)
    theirs.load_state_dict(ours.state_dict())
    rows = pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"])
    outputs = []
    for layer in (theirs, ours):
        torch.manual_seed(5)
        outputs.append(layer(rows)[0].data)
    assert torch.equal(*outputs) and not torch.equal(outputs[0], theirs.eval()(rows)[0].data)


def test_a_mask_beside_a_packed_sequence_is_refused():
    rows = pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"])
    with pytest.raises(ValueError, match="leave mask out"):
        layer_of("mingru")(rows, mask=mask_of(LENGTHS["unsorted"]))


WRONG_RESETS = {
    "time first": torch.zeros(STEPS, 4, dtype=torch.bool),
    "no bool": torch.zeros(4, STEPS),
    "packed": torch.zeros(15, dtype=torch.bool),
    "too long": torch.zeros(4, STEPS + 1, dtype=torch.bool),
}


@pytest.mark.parametrize("resets", WRONG_RESETS.values(), ids=WRONG_RESETS)
def test_resets_of_another_shape_or_dtype_than_the_rectangle_are_refused(resets):
    rows = pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"])
    with pytest.raises(ValueError, match=r"resets must (be a tensor of bool|have the input's first axes)"):
        layer_of("mingru")(rows, resets=resets)


WRONG_CALLS = {
    "features": (pack(series(4, STEPS, FEATURES + 1), LENGTHS["unsorted"]), None),
    "dtype": (pack(series(4, STEPS, FEATURES, dtype=torch.float32), LENGTHS["unsorted"]), None),
    "axes": (pack(series(4, STEPS, FEATURES, 2), LENGTHS["unsorted"]), None),
    "hx of a smaller batch": (pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"]), (1, 3, HIDDEN)),
    "hx of another size": (pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"]), (1, 4, HIDDEN + 1)),
    "hx of two layers": (pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"]), (2, 4, HIDDEN)),
    "hx without a batch": (pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"]), (1, HIDDEN)),
}


def state_for(name, shape):
    return as_many(name, torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("name", ["lstm", "mingru"])  # of two states and of one
@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_a_wrong_packed_call_raises_what_torch_raises(name, wrong):
    rows, shape = WRONG_CALLS[wrong]
    # nn.LSTM checks less of a packed call than nn.GRU, and what it lets through fails anywhere.
    theirs = nn.GRU(FEATURES, HIDDEN, dtype=torch.float64)
    with pytest.raises((ValueError, RuntimeError)) as expected:
        theirs(rows, None if shape is None else state_for("gru", shape))
    with pytest.raises(expected.type) as found:
        layer_of(name)(rows, None if shape is None else state_for(name, shape))
    assert found.type is expected.type


@pytest.mark.parametrize("name", ["lstm", "mingru"])
def test_a_state_of_more_rows_than_the_packed_sequence_is_refused_as_torch_refuses_it_padded(name):
    """A packed call of torch lets it through, and reads some of the rows."""
    x = series(4, STEPS, FEATURES)
    with pytest.raises(RuntimeError, match=r"Expected hidden(\[0\])? size"):
        nn.GRU(FEATURES, HIDDEN, batch_first=True, dtype=torch.float64)(x, state_for("gru", (1, 5, HIDDEN)))
    with pytest.raises(RuntimeError, match=r"Expected hidden(\[0\])? size"):
        layer_of(name)(pack(x, LENGTHS["unsorted"]), state_for(name, (1, 5, HIDDEN)))
