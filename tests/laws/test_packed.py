"""A packed sequence equals the padded one with a mask, and comes back packed as it came."""

import pytest
import torch
from layer_laws import (
    FEATURES,
    HIDDEN,
    STEPS,
    TORCH,
    as_many,
    as_tuple,
    assert_same,
    every_cell,
    layer_of,
    packed_up,
    projection,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

LENGTHS = {"sorted": (7, 5, 5, 1), "unsorted": (2, 7, 1, 5), "shorter than the rectangle": (3, 5, 1, 2)}
every_length = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
torchs_cells = pytest.mark.parametrize(
    "name, chosen",
    [("lstm", {}), ("lstm", {"bias": False, "proj_size": 2}), ("gru", {}), ("gru", {"bias": False})],
    ids=str,
)


def mask_of(lengths, steps=STEPS):
    return torch.arange(steps) < torch.tensor(lengths).unsqueeze(1)


def pack(x, lengths, batch_first=True):
    """A sequence in the layout of the layer; torch asks for sorted lengths unless told that they are not."""
    x = x if batch_first else x.transpose(0, 1)
    in_order = list(lengths) == sorted(lengths, reverse=True)
    return pack_padded_sequence(x, torch.tensor(lengths), batch_first=batch_first, enforce_sorted=in_order)


def packed_way(layer, lengths, **flags):
    """The layer over a packed sequence, as a function of the rectangle to the rectangle."""

    def way(x, hx):
        rows = pack(x, lengths, layer.batch_first)
        output, last = layer(rows, hx, **flags)
        assert_packed_alike(output, rows)
        return pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0], last

    return way


def assert_packed_alike(output, rows):
    assert isinstance(output, PackedSequence)
    assert torch.equal(output.batch_sizes, rows.batch_sizes) and output.batch_sizes.device.type == "cpu"
    for one, other in ((output.sorted_indices, rows.sorted_indices), (output.unsorted_indices, rows.unsorted_indices)):
        assert (one is None and other is None) or torch.equal(one, other)


@every_cell
@every_length
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_packed_sequence_equals_the_masked_rectangle(name, lengths, bidirectional):
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional)
    x, states = series(4, STEPS, FEATURES), states_of(layer, 4)
    grads = upstream(layer, x, states)
    masked = run(layer, x, states, grads, mask=mask_of(lengths))
    assert_same(run(layer, x, states, grads, packed_way(layer, lengths)), masked)


@every_cell
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_packed_sequence_has_no_layout_and_needs_no_hx(name, batch_first):
    layer = layer_of(name, bidirectional=True, batch_first=batch_first, **projection(name, 2))
    x, lengths = series(4, STEPS, FEATURES), LENGTHS["unsorted"]
    mask = mask_of(lengths)
    expected, expected_last = layer(
        x if batch_first else x.transpose(0, 1), mask=mask if batch_first else mask.transpose(0, 1)
    )
    output, last = packed_way(layer, lengths)(x, None)
    actual = {"output": output} | {f"state {i}": s for i, s in enumerate(as_tuple(last))}
    wanted = {"output": expected if batch_first else expected.transpose(0, 1)}
    assert_same(actual, wanted | {f"state {i}": s for i, s in enumerate(as_tuple(expected_last))})


@every_cell
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_a_list_of_sequences_packed_equals_each_alone(name, enforce_sorted):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    lengths = (7, 4, 1) if enforce_sorted else (4, 1, 7)
    rows = [series(length, FEATURES) for length in lengths]
    states = states_of(layer, len(rows))
    packed = pack_sequence(rows, enforce_sorted=enforce_sorted)
    output, last = layer(packed, packed_up(states))
    assert_packed_alike(output, packed)
    outputs, found = pad_packed_sequence(output, batch_first=True)
    assert tuple(found) == lengths
    for row, x in enumerate(rows):
        expected, alone = layer(x, packed_up(tuple(s[:, row] for s in states)))
        own = {"output": outputs[row, : len(x)]} | {f"state {i}": s[:, row] for i, s in enumerate(as_tuple(last))}
        assert_same(own, {"output": expected} | {f"state {i}": s for i, s in enumerate(as_tuple(alone))})


@every_cell
@every_length
@pytest.mark.parametrize("batch_first", [True, False])
def test_resets_of_a_packed_sequence_are_those_of_the_rectangle(name, lengths, batch_first):
    layer = layer_of(name, num_layers=2, bidirectional=True, batch_first=batch_first)
    longest = max(lengths)
    resets = torch.zeros(4, longest, dtype=torch.bool)
    resets[0, [1, 2]] = resets[1, 0] = resets[1, longest - 1] = resets[3, 0] = True
    x, states = series(4, longest, FEATURES), states_of(layer, 4)
    grads = upstream(layer, x, states)

    def masked(x, hx):
        flags = {"mask": mask_of(lengths, longest), "resets": resets}
        if batch_first:
            return layer(x, hx, **flags)
        output, last = layer(x.transpose(0, 1), hx, **{k: v.T for k, v in flags.items()})
        return output.transpose(0, 1), last

    packed = packed_way(layer, lengths, resets=resets if batch_first else resets.T)
    assert_same(run(layer, x, states, grads, packed), run(layer, x, states, grads, masked))


@torchs_cells
@every_length
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchs_cells_give_torchs_bits_on_its_kernel_and_its_numbers_on_ours(
    name, chosen, lengths, bidirectional, dtype
):
    chosen = chosen | {"num_layers": 2, "bidirectional": bidirectional}
    ours = layer_of(name, dtype=dtype, **chosen)
    theirs = TORCH[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
    theirs.load_state_dict(ours.state_dict())
    x, states = series(4, STEPS, FEATURES, dtype=dtype), states_of(ours, 4, dtype)
    grads = upstream(ours, x, states)
    theirs.batch_first = True  # for the packing alone
    got, wanted = (run(layer, x, states, grads, packed_way(layer, lengths)) for layer in (ours, theirs))
    assert got.keys() == wanted.keys()
    for what, value in wanted.items():
        assert_equal_within(got[what], value, dtype, what, gradient="gradient" in what)
    ours.backend = "torch"
    got = run(ours, x, states, grads, packed_way(ours, lengths))
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


@every_cell
def test_a_bfloat16_layer_takes_a_packed_sequence(name):
    layer = layer_of(name, dtype=torch.bfloat16)
    # Padding is no part of what a product rounds: each row alone then has the rectangle's numbers.
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_((4 * weight).round() / 8)
    x, lengths = torch.randint(-2, 3, (4, STEPS, FEATURES)).bfloat16(), LENGTHS["unsorted"]
    output, last = packed_way(layer, lengths)(x, None)
    expected, expected_last = layer(x, mask=mask_of(lengths))
    assert output.dtype == expected.dtype == torch.bfloat16
    actual = {"output": output} | {f"state {i}": s for i, s in enumerate(as_tuple(last))}
    wanted = {"output": expected} | {f"state {i}": s for i, s in enumerate(as_tuple(expected_last))}
    assert {k: v.dtype for k, v in actual.items()} == {k: v.dtype for k, v in wanted.items()}
    assert_same(actual, wanted, torch.bfloat16)


@every_cell
def test_a_mask_beside_a_packed_sequence_is_refused(name):
    rows = pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"])
    with pytest.raises(ValueError, match="leave mask out"):
        layer_of(name)(rows, mask=mask_of(LENGTHS["unsorted"]))


WRONG_RESETS = {
    "time first": torch.zeros(STEPS, 4, dtype=torch.bool),
    "no bool": torch.zeros(4, STEPS),
    "packed": torch.zeros(15, dtype=torch.bool),
    "too long": torch.zeros(4, STEPS + 1, dtype=torch.bool),
}


@every_cell
@pytest.mark.parametrize("resets", WRONG_RESETS.values(), ids=WRONG_RESETS)
def test_resets_of_another_shape_or_dtype_than_the_rectangle_are_refused(name, resets):
    rows = pack(series(4, STEPS, FEATURES), LENGTHS["unsorted"])
    with pytest.raises(ValueError, match=r"resets must (be a tensor of bool|have the input's first axes)"):
        layer_of(name)(rows, resets=resets)


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


@every_cell
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


@every_cell
def test_a_state_of_more_rows_than_the_packed_sequence_is_refused_as_torch_refuses_it_padded(name):
    """A packed call of torch lets it through, and reads some of the rows."""
    x = series(4, STEPS, FEATURES)
    with pytest.raises(RuntimeError, match=r"Expected hidden(\[0\])? size"):
        nn.GRU(FEATURES, HIDDEN, batch_first=True, dtype=torch.float64)(x, state_for("gru", (1, 5, HIDDEN)))
    with pytest.raises(RuntimeError, match=r"Expected hidden(\[0\])? size"):
        layer_of(name)(pack(x, LENGTHS["unsorted"]), state_for(name, (1, 5, HIDDEN)))


@every_cell
def test_one_sequence_packed_equals_it_unpacked(name):
    layer = layer_of(name, num_layers=2)
    x, states = series(1, STEPS, FEATURES), states_of(layer, 1)
    grads = upstream(layer, x, states)
    assert_same(run(layer, x, states, grads, packed_way(layer, (STEPS,))), run(layer, x, states, grads))
