"""Regularisers: drawn once a sequence, the same in every execution mode, and as their papers have them."""

import sys
from functools import partial

import pytest
import torch
from dropout_laws import CASES, RATES, REGULARISERS, masks_of, plainly, regularised
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    JOINT,
    KERNEL_LOOP_CELLS,
    LOOP_CELLS,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    every_cell,
    every_scan_cell,
    every_zoned_cell,
    layer_of,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within

from gatedrnn.layers import DropoutMasks
from gatedrnn.layers.runners import loop
from gatedrnn.layers.runners import torch as torch_runner

# torch's own remark on proj_size, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
every_case = pytest.mark.parametrize("name, what", CASES)


@every_case
def test_steps_and_chunks_equal_the_whole_under_the_same_masks(name, what):
    layer = regularised(name, what, num_layers=2)
    x, states = series(), states_of(layer)
    grads, masks = upstream(layer, x, states), layer.draw_dropout_masks(BATCH, STEPS)

    def steps(x, hx):
        outputs = []
        for t, x_t in enumerate(x.unbind(1)):
            output, hx = layer.step(x_t, hx, dropout_masks=masks.at(t))
            outputs.append(output)
        return torch.stack(outputs, dim=1), hx

    def chunks(x, hx):
        outputs = []
        for part in (slice(0, 2), slice(2, 3), slice(3, STEPS)):
            output, hx = layer(x[:, part], hx, dropout_masks=masks_of(masks, steps=part))
            outputs.append(output)
        return torch.cat(outputs, dim=1), hx

    whole = run(layer, x, states, grads, dropout_masks=masks)
    assert_same(run(layer, x, states, grads, steps), whole)
    assert_same(run(layer, x, states, grads, chunks), whole)


@every_case
@pytest.mark.parametrize("training", [True, False])
def test_a_layer_is_a_plain_one_whose_weights_inputs_and_states_bear_what_is_dropped(name, what, training):
    """In training as drawn; otherwise dropouts do nothing, and zoneout is its expectation."""
    layer = regularised(name, what, num_layers=2).train(training)
    x, states = series(2, 4, FEATURES), states_of(layer, 2)
    grads = upstream(layer, x, states)
    drawn = layer.draw_dropout_masks(2, 4) if training else None
    expected = run(layer, x, states, grads, partial(plainly, layer, name, dropout_masks=drawn))
    assert_same(run(layer, x, states, grads, dropout_masks=drawn), expected)


@every_cell
def test_eval_leaves_a_layer_with_dropouts_as_if_it_had_none(name):
    rates = {k: v for k, v in RATES.items() if k != "zoneout" and (k != "weight_dropout" or name in LOOP_CELLS)}
    layer, plain = (layer_of(name, num_layers=2, bidirectional=True, **given) for given in (rates, {}))
    plain.load_state_dict(layer.state_dict())
    x, states = series(), states_of(layer)
    grads = upstream(layer, x, states)
    expected = run(plain, x, states, grads)
    assert_same(run(layer.eval(), x, states, grads), expected)
    assert not torch.allclose(run(layer.train(), x, states, grads)["output"], expected["output"])


@every_cell
def test_masks_that_are_given_are_applied_whatever_the_mode(name):
    layer = regularised(name, num_layers=2)
    x, masks = series(), layer.draw_dropout_masks(BATCH, STEPS)
    expected, state = layer(x, dropout_masks=masks)
    for result, same in zip(layer.eval()(x, dropout_masks=masks), (expected, state), strict=True):
        for got, want in zip(as_tuple(result), as_tuple(same), strict=True):
            assert torch.equal(got, want)
    assert not torch.allclose(layer(x)[0], expected)


@every_case
def test_masks_that_are_given_are_applied_whatever_the_layers_own_rates(name, what):
    layer = regularised(name, what, num_layers=2)
    plain = layer_of(name, num_layers=2, proj_size=layer.proj_size, layer_norm=layer.layer_norm)
    plain.load_state_dict(layer.state_dict())
    x, states, masks = series(), states_of(layer), layer.draw_dropout_masks(BATCH, STEPS)
    grads = upstream(layer, x, states)
    assert_same(run(plain, x, states, grads, dropout_masks=masks), run(layer, x, states, grads, dropout_masks=masks))
    first, _ = plain.step(x[:, 0], dropout_masks=masks.at(0))
    assert_equal_within(first, plain(x, dropout_masks=masks)[0][:, 0], torch.float64, "first step")


@every_case
def test_the_same_seed_drops_the_same_and_another_seed_another(name, what):
    layer = regularised(name, what, batch_first=False)
    x = series(STEPS, BATCH, FEATURES)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(x)[0])
    torch.manual_seed(1)
    masks = layer.draw_dropout_masks(BATCH, STEPS)
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], layer(x, dropout_masks=masks)[0])
    assert torch.equal(outputs[0], outputs[2]) == (what == "layer_norm")


@every_cell
def test_a_step_in_training_asks_for_masks_and_in_eval_needs_none(name):
    layer = regularised(name)
    with pytest.raises(ValueError, match="step cannot draw the masks of a whole sequence"):
        layer.step(series(BATCH, FEATURES))
    x = series()
    assert_equal_within(layer.eval().step(x[:, 0])[0], layer(x)[0][:, 0], torch.float64, "first step")
    x, only_norm = series(), regularised(name, "layer_norm")
    assert_equal_within(only_norm.step(x[:, 0])[0], only_norm(x)[0][:, 0], torch.float64, "first step")


@every_scan_cell
def test_a_regularised_scan_layer_is_still_one_scan_a_layer(name, monkeypatch):
    calls = []

    def counted(decay, *arguments, **options):
        calls.append(decay.shape)
        return scan(decay, *arguments, **options)

    gated_scan = sys.modules["gatedrnn.ops.gated_scan"]
    scan = gated_scan.linear_scan
    monkeypatch.setattr(gated_scan, "linear_scan", counted)
    layer = regularised(name, num_layers=2)
    layer(series(), dropout_masks=layer.draw_dropout_masks(BATCH, STEPS))
    assert calls == [(BATCH, STEPS, HIDDEN)] * 2
    assert layer.runs_on().name.startswith("one linear_scan")


@pytest.mark.parametrize("name", ["minlstm", "mingru"])
def test_the_scan_over_logarithms_drops_and_normalises_alike(name):
    chosen = {"input_dropout": 0.4, "layer_norm": True, "num_layers": 2}
    linear, logs = layer_of(name, **chosen), layer_of(name, log_space=True, **chosen)
    logs.load_state_dict(linear.state_dict())
    x, masks = series(), linear.draw_dropout_masks(BATCH, STEPS)
    for got, want in zip(logs(x, dropout_masks=masks), linear(x, dropout_masks=masks), strict=True):
        assert_equal_within(got, want, torch.float64, "output or state")


@every_cell
def test_masks_are_drawn_at_their_rates_and_scaled_to_leave_the_mean(name):
    layer = regularised(name, "all", 50, 60, num_layers=2, bidirectional=True, proj_size=0)
    drawn = {"input": RATES["input_dropout"], "state": RATES["state_dropout"], "weight": RATES["weight_dropout"]}
    for part in layer.draw_dropout_masks(40, 10).directions:
        for what, rate in drawn.items():
            mask = getattr(part, what)
            if mask is None:
                assert what == "weight" and name not in LOOP_CELLS
                continue
            dropped = mask == 0
            assert_equal_within(mask[~dropped], torch.ones_like(mask[~dropped]) / (1 - rate), torch.float64, what)
            assert_near(dropped, rate)
        if name in JOINT:
            assert part.zoneout is None
            continue
        assert len(part.zoneout) == len(layer.state_sizes())
        for keep in part.zoneout:
            assert keep.shape == (40, 10, 60) and keep.dtype == torch.bool
            assert_near(keep, RATES["zoneout"])


def assert_near(flags, rate):
    """The fraction of true flags within five standard errors of the rate."""
    assert abs(flags.double().mean() - rate) < 5 * (rate * (1 - rate) / flags.numel()) ** 0.5


@every_cell
def test_masks_differ_between_sequences_layers_directions_and_states(name):
    layer = regularised(name, "all", HIDDEN, HIDDEN, num_layers=3, bidirectional=True, proj_size=0)
    parts = layer.draw_dropout_masks(40, STEPS).directions
    assert len(parts) == 6
    # Layer 0 reads one direction's width, the others two: only equals are compared.
    for masks in ([p.input for p in parts[:2]], [p.input for p in parts[2:]], [p.state for p in parts]):
        assert all((mask != mask[:1]).any() for mask in masks)
        assert_distinct(masks)
    zoned = [keep for part in parts for keep in part.zoneout or ()]
    assert_distinct(zoned)
    for keep in zoned:
        assert (keep != keep[:1]).any() and (keep != keep[:, :1]).any()
    if name in LOOP_CELLS:
        assert_distinct([part.weight for part in parts])


def assert_distinct(masks):
    for i, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[:i])


@every_zoned_cell
def test_locked_masks_are_the_same_at_every_step_and_zoneout_is_not(name):
    masks = regularised(name, num_layers=2).draw_dropout_masks(BATCH, STEPS)
    for t in range(STEPS):
        for part, whole in zip(masks.at(t).directions, masks.directions, strict=True):
            assert part[:3] == whole[:3]
            for keep, all_steps in zip(part.zoneout, whole.zoneout, strict=True):
                assert torch.equal(keep, all_steps[:, t])
    assert not any(torch.equal(k[:, 0], k[:, 1]) for k in masks.directions[0].zoneout)


@every_cell
def test_nothing_is_drawn_where_the_rates_are_zero(name):
    for part in layer_of(name, num_layers=2, layer_norm=True).draw_dropout_masks(BATCH, STEPS).directions:
        assert part == (None,) * 4


@every_zoned_cell
def test_a_step_that_keeps_everything_changes_nothing(name):
    layer = regularised(name, "zoneout")
    hx = states_of(layer)
    keep = tuple(torch.ones(BATCH, STEPS, size, dtype=torch.bool) for size in layer.state_sizes())
    masks = layer.draw_dropout_masks(BATCH, STEPS)
    masks = DropoutMasks((masks.directions[0]._replace(zoneout=keep),))
    x = series(BATCH, 1, FEATURES).expand(-1, STEPS, -1)  # an output gate reads it
    output, last = layer(x, hx if len(hx) > 1 else hx[0], dropout_masks=masks)
    for state, before in zip(as_tuple(last), hx, strict=True):
        assert torch.equal(state, before)
    assert_equal_within(output, output[:, :1].expand_as(output), torch.float64, "output")


FLAGS = {
    "mask": torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1], [1, 1, 0, 1, 1, 0, 0]]).bool(),
    "resets": torch.tensor([[0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1, 0]]).bool(),
}


@every_case
def test_a_batch_equals_its_rows_one_by_one_under_the_same_masks(name, what):
    layer = regularised(name, what, num_layers=2, bidirectional=True)
    x, states = series(), states_of(layer)
    grads, masks = upstream(layer, x, states), layer.draw_dropout_masks(BATCH, STEPS)

    def row_by_row(x, hx):
        rows = []
        for b in range(BATCH):
            row = slice(b, b + 1)
            before = tuple(s[:, row] for s in as_tuple(hx))
            own = {k: v[row] for k, v in FLAGS.items()}
            rows.append(
                layer(x[row], before if len(before) > 1 else before[0], dropout_masks=masks_of(masks, row), **own)
            )
        last = tuple(torch.cat(kind, dim=1) for kind in zip(*[as_tuple(s) for _, s in rows], strict=True))
        return torch.cat([output for output, _ in rows]), last

    expected = run(layer, x, states, grads, row_by_row)
    assert_same(run(layer, x, states, grads, dropout_masks=masks, **FLAGS), expected)


@every_case
def test_masked_steps_are_as_if_they_were_not_there_under_the_same_masks(name, what):
    layer = regularised(name, what, num_layers=2, bidirectional=True)
    x, hx = series(), states_of(layer)
    masks = layer.draw_dropout_masks(BATCH, STEPS)
    output, last = layer(x, hx if len(hx) > 1 else hx[0], mask=FLAGS["mask"], dropout_masks=masks)
    for b, real in enumerate(FLAGS["mask"]):
        row = slice(b, b + 1)
        before = tuple(s[:, row] for s in hx)
        alone = masks_of(masks, row, real)
        expected, final = layer(x[row, real], before if len(before) > 1 else before[0], dropout_masks=alone)
        assert_equal_within(output[row, real], expected, torch.float64, "real steps")
        assert (output[row, ~real] == 0).all()
        for state, want in zip(as_tuple(last), as_tuple(final), strict=True):
            assert_equal_within(state[:, row], want, torch.float64, "state")


@every_case
def test_a_reset_cuts_into_separate_sequences_under_the_same_masks(name, what):
    layer = regularised(name, what, num_layers=2, bidirectional=True)
    x, masks, cut = series(), layer.draw_dropout_masks(BATCH, STEPS), 3
    resets = (torch.arange(STEPS) == cut).expand(BATCH, STEPS)
    output, last = layer(x, resets=resets, dropout_masks=masks)
    halves = [
        layer(x[:, part], dropout_masks=masks_of(masks, steps=part)) for part in (slice(0, cut), slice(cut, STEPS))
    ]
    assert_equal_within(output, torch.cat([half for half, _ in halves], dim=1), torch.float64, "output")
    for state, early, late in zip(as_tuple(last), *(as_tuple(s) for _, s in halves), strict=True):
        # Forward ends in the later half, backward in the earlier.
        assert_equal_within(state[0::2], late[0::2], torch.float64, "state")
        assert_equal_within(state[1::2], early[1::2], torch.float64, "state, reversed")


@every_case
@pytest.mark.parametrize("training", [True, False])
def test_a_packed_sequence_equals_the_masked_rectangle_under_the_same_masks(name, what, training):
    layer = regularised(name, what, num_layers=2, bidirectional=True).train(training)
    x, states, lengths = series(), states_of(layer), torch.tensor([2, 7, 4])
    grads = upstream(layer, x, states)
    masks = layer.draw_dropout_masks(BATCH, STEPS) if training else None

    def packed(x, hx):
        rows = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, last = layer(rows, hx, dropout_masks=masks)
        return torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=STEPS)[0], last

    mask = torch.arange(STEPS) < lengths[:, None]
    assert_same(run(layer, x, states, grads, packed), run(layer, x, states, grads, mask=mask, dropout_masks=masks))


@every_case
def test_a_packed_sequence_draws_for_its_rectangle(name, what):
    layer = regularised(name, what)
    rows = torch.nn.utils.rnn.pack_sequence([series(n, FEATURES) for n in (7, 4, 2)])
    torch.manual_seed(1)
    drawn = layer(rows)[0].data
    torch.manual_seed(1)
    masks = layer.draw_dropout_masks(BATCH, STEPS)
    assert_equal_within(drawn, layer(rows, dropout_masks=masks)[0].data, torch.float64, "output")


@every_cell
def test_a_bfloat16_layer_with_all_of_them_keeps_a_float32_state(name):
    layer = regularised(name, dtype=torch.bfloat16, num_layers=2, proj_size=0)
    x, masks = series(BATCH, 1, FEATURES, dtype=torch.bfloat16), layer.draw_dropout_masks(BATCH, 1)
    whole, last = layer(x, dropout_masks=masks)
    output, state = layer.step(x[:, 0], dropout_masks=masks.at(0))
    dtype = torch.bfloat16 if layer.cell.recurrent_bias else torch.float32
    assert whole.dtype == output.dtype == torch.bfloat16
    assert_equal_within(output, whole[:, 0], torch.bfloat16, "output")
    for got, want in zip(as_tuple(state), as_tuple(last), strict=True):
        assert got.dtype == want.dtype == dtype
        assert_equal_within(got, want, torch.bfloat16, "state")


@pytest.mark.parametrize("what", REGULARISERS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", TORCH)
def test_torchs_kernel_runs_what_it_can_and_runs_on_says_what_it_cannot(name, what, training, monkeypatch):
    calls, iterated, alone = [], [], []
    kernel, steps, own = torch_runner.call_kernel, loop.loop_in_torch, loop.loop_in_kernel
    monkeypatch.setattr(torch_runner, "call_kernel", lambda *a, **k: calls.append(1) or kernel(*a, **k))
    monkeypatch.setattr(loop, "loop_in_torch", lambda *a: iterated.append(1) or steps(*a))
    monkeypatch.setattr(loop, "loop_in_kernel", lambda *a: alone.append(1) or own(*a))
    layer = regularised(name, what, num_layers=2).train(training)
    torchs = what in ("input_dropout", "weight_dropout") or (what == "state_dropout" and not training)
    path = layer.runs_on()
    layer(series())
    if what == "zoneout":
        assert path.name.startswith("the step loop") and what in path.reason
        assert (len(calls), len(iterated), len(alone)) == (0, 2, 0)
    elif torchs and name == "lstm":
        assert path.name.startswith("torch's fused kernel")
        assert (len(calls), len(iterated), len(alone)) == (2 if training else 1, 0, 0)
    else:
        assert path.name.startswith("one kernel for all steps") and (torchs or what in path.reason)
        assert (len(calls), len(iterated), len(alone)) == (0, 0, 2)


@pytest.mark.parametrize("name", [name for name in KERNEL_LOOP_CELLS if name not in (*TORCH, *JOINT)])
def test_other_loop_cells_run_on_one_kernel_until_zoneout_stands_between_the_steps(name):
    assert layer_of(name, state_dropout=0.1, layer_norm=True).runs_on().name.startswith("one kernel for all steps")
    assert regularised(name).runs_on().name == "the step loop in torch"
