"""A packed sequence comes back as it came, has no layout, and gives torch's bits; see also test_equivalence.py."""

from functools import partial

import pytest
import torch
from covering import over
from layer_laws import (
    FEATURES,
    HIDDEN,
    STEPS,
    TORCH,
    as_many,
    assert_same,
    assert_same_run,
    every_cell,
    layer_of,
    problem,
    projection,
    refusal,
    run,
    series,
)
from refusals import refused
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

LENGTHS = {
    "sorted": (7, 5, 5, 1), "unsorted": (2, 7, 1, 5), "shorter than the rectangle": (3, 5, 1, 2), "one": (STEPS,)
}  # fmt: skip
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
    """Go from the rectangle to the rectangle by way of a packed sequence, whose output must be packed alike."""
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
            turned = None if given is None else given.T
            expected = layer(x[:, :longest], mask=mask_of(lengths, longest), resets=given)
            assert_same_run(unpacked(layer, lengths, x[:, :longest], None, resets=given), expected)
            assert_same_run(unpacked(time_first, lengths, x[:, :longest], None, resets=turned), expected)


@over(cell=TORCHS, lengths=LENGTHS, bidirectional=(False, True), dtype=(torch.float32, torch.float64))
def test_torchs_cells_give_torchs_bits_on_its_kernel_and_its_numbers_on_ours(cell, lengths, bidirectional, dtype):
    name, chosen = cell[0], cell[1] | {"num_layers": 2, "bidirectional": bidirectional}
    ours = layer_of(name, dtype=dtype, **chosen)
    theirs = TORCH[name](FEATURES, HIDDEN, dtype=dtype, batch_first=True, **chosen)
    theirs.load_state_dict(ours.state_dict())
    given = problem(ours, len(lengths), STEPS, FEATURES)

    def found(layer):
        return run(layer, *given, partial(unpacked, layer, lengths))

    wanted = found(theirs)
    assert_same(found(ours), wanted, dtype)
    ours.backend = "torch"
    got = found(ours)
    assert [what for what, value in wanted.items() if not torch.equal(got[what], value)] == []


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


def rows_of(*size, dtype=torch.float64):
    return pack(series(4, STEPS, *size, dtype=dtype), LENGTHS["unsorted"])


def test_a_mask_beside_a_packed_sequence_and_resets_unlike_its_rectangle_are_refused():
    layer, rows = layer_of("mingru"), rows_of(FEATURES)
    refused(ValueError, "leave mask out", layer, rows, mask=mask_of(LENGTHS["unsorted"]))
    refused(ValueError, "resets must be a tensor of bool", layer, rows, resets=torch.zeros(4, STEPS))
    for shape in ((STEPS, 4), (15,), (4, STEPS + 1)):  # time first, packed, too long
        refused(ValueError, "resets must have the input's first axes", layer, rows, resets=torch.zeros(shape).bool())


WRONG_CALLS = {
    "features": (rows_of(FEATURES + 1), None), "dtype": (rows_of(FEATURES, dtype=torch.float32), None),
    "axes": (rows_of(FEATURES, 2), None), "hx of a smaller batch": (rows_of(FEATURES), (1, 3, HIDDEN)),
    "hx of another size": (rows_of(FEATURES), (1, 4, HIDDEN + 1)),
    "hx of two layers": (rows_of(FEATURES), (2, 4, HIDDEN)), "hx without a batch": (rows_of(FEATURES), (1, HIDDEN)),
}  # fmt: skip


def state_for(name, shape):
    return as_many(name, shape and torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("name", ["lstm", "mingru"])  # of two states and of one
@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_a_wrong_packed_call_raises_what_torch_raises(name, wrong):
    rows, shape = WRONG_CALLS[wrong]
    # nn.LSTM checks less of a packed call than nn.GRU, and what it lets through fails anywhere.
    kind, _ = refusal(nn.GRU(FEATURES, HIDDEN, dtype=torch.float64), rows, state_for("gru", shape))
    assert refusal(layer_of(name), rows, state_for(name, shape))[0] is kind
    # A packed call of torch lets a state of more rows through, and reads some of them.
    more, size = state_for(name, (1, 5, HIDDEN)), r"Expected hidden(\[0\])? size"
    refused(RuntimeError, size, layer_of(name), rows_of(FEATURES), more)
