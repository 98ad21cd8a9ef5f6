"""Regularisers: drawn once a sequence, the same in every execution mode, and as their papers have them."""

import pytest
import torch
from covering import Axis, over
from layer_laws import (
    BATCH,
    CELL,
    DIAGONAL_CELLS,
    EQUATIONS,
    FEATURES,
    HIDDEN,
    INPUT_GATED_CELLS,
    JOINT,
    KERNEL_LOOP_CELLS,
    LOOP_CELLS,
    STEPS,
    TORCH,
    UNPROJECTED,
    as_tuple,
    assert_same,
    assert_same_run,
    every_cell,
    every_scan_cell,
    layer_of,
    packed_up,
    problem,
    run,
    series,
    states_of,
)
from paths import axis
from tolerances import assert_equal_within

from gatedrnn.kinds.loop import path as loop_path
from gatedrnn.kinds.scan import path as scan_path
from gatedrnn.kinds.torch import path as torch_path
from gatedrnn.kinds.torch.path import MAX_STEPS_WITH_GRADIENTS
from gatedrnn.layers import DropoutMasks
from gatedrnn.layers.dropout import DirectionMasks
from gatedrnn.verify import modes
from gatedrnn.verify.definition import Sequences, run_by_definition

RATES = {"zoneout": 0.3, "input_dropout": 0.4, "state_dropout": 0.3, "weight_dropout": 0.2}
REGULARISERS = RATES | {"layer_norm": True}
WHAT = Axis(fast=("zoneout", "state_dropout", "all"), every=(*REGULARISERS, "all"))
"""The cells whose declarations decide how a layer runs; the others, of every cell, are part of test_equivalence.py."""
MASK = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 0, 1], [1, 0, 1, 1, 0]]).bool()
RESETS = torch.tensor([[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 1]]).bool()
PADDED = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
NOWHERE = torch.zeros(3, 5, dtype=torch.bool)
MODES = {
    "masked and reset": (modes.whole, MASK, RESETS), "packed": (modes.packed_unsorted, PADDED, NOWHERE),
    "packed, reset": (modes.packed_unsorted, PADDED, RESETS), "by steps": (modes.steps, ~NOWHERE, RESETS),
}  # fmt: skip
OF_H = {"para-lstm": ("af", "ag", "ao")}  # diagonal weights of h, where others are of c, which is not dropped


def takes(name, what):
    """Whether a cell takes a regulariser: some have no recurrent matrix, or states that belong together."""
    return not ((what == "weight_dropout" and name not in LOOP_CELLS) or (what == "zoneout" and name in JOINT))


def regularised(name, what="all", *sizes, **kwargs):
    """A layer with one regulariser, or with all that the cell takes and then, where it can, a projection."""
    chosen = {k: v for k, v in REGULARISERS.items() if what in (k, "all") and takes(name, k)}
    if what == "all" and name not in UNPROJECTED:
        kwargs = {"proj_size": 2} | kwargs
    return layer_of(name, *sizes, **chosen, **kwargs)


WHEN = ("in training", "given in evaluation", "given to a layer without rates", "evaluation")


@over(where=takes, name=CELL, what=WHAT, way=MODES, when=WHEN)
def test_a_layer_is_as_defined_under_its_masks_and_in_evaluation_as_expected(name, what, way, when):
    """Dropouts do nothing in evaluation, and zoneout is its expectation; masks that are given hold in any mode."""
    mode, mask, resets = way
    chosen = {"num_layers": 2, "bidirectional": mode is not modes.steps}
    layer = regularised(name, what, **chosen).train(when != "evaluation")
    tested = layer
    if when == "given to a layer without rates":
        tested = layer_of(name, proj_size=layer.proj_size, layer_norm=layer.layer_norm, **chosen)
        tested.load_state_dict(layer.state_dict())
    masks = None if when == "evaluation" else layer.draw_dropout_masks(*mask.shape)
    given = problem(layer, *mask.shape, FEATURES)

    def way_of(function, layer):
        return lambda x, hx: function(layer, Sequences(x, as_tuple(hx), mask, resets, masks))

    expected = run(layer, *given, way_of(run_by_definition, layer))
    tested.train(when == "in training")
    assert_same(run(tested, *given, way_of(mode, tested)), expected)


@every_cell
def test_a_dropped_state_is_dropped_where_gates_read_it_and_in_a_scan_the_drive_is(name):
    layer = layer_of(name)
    hx, dropped = states_of(layer, 1), 2.0 * torch.tensor([[1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    x, masks = series(1, 3, FEATURES), DropoutMasks((DirectionMasks(state=dropped),))
    if name in INPUT_GATED_CELLS:
        first = x[:, :1]
        (drive,), (after,) = (as_tuple(layer(first, state)[1]) for state in (0 * hx[0], hx[0]))
        found = layer(first, hx[0], dropout_masks=masks)[1]
        assert_equal_within(found, after - drive + dropped * drive, torch.float64, "state")
        return
    output, last = layer(x, packed_up(hx), dropout_masks=masks)
    with torch.no_grad():  # U (m * h) is (U * m) h, and a (m * h) is (a * m) h
        diagonals = OF_H.get(name, layer.cell.diagonals) if name in DIAGONAL_CELLS else ()
        for weight in ("hh",) if name in LOOP_CELLS else diagonals:
            getattr(layer, f"weight_{weight}_l0").mul_(dropped[0])
        expected = layer(x, packed_up(hx))
    assert_same_run((output, last), expected)


@pytest.mark.parametrize("what", [*REGULARISERS, "all"])
def test_the_same_seed_drops_the_same_and_another_seed_another(what):
    """Return as many numbers of a packed sequence as of its rectangle."""
    layer, x = regularised("lstm", what, batch_first=False), series(STEPS, BATCH, FEATURES)
    rows = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([STEPS, 4, 2]))
    torch.manual_seed(1)
    masks = layer.draw_dropout_masks(BATCH, STEPS)
    for input in (x, rows):
        found = []
        for seed, given in ((1, None), (1, None), (2, None), (None, masks)):
            if seed is not None:
                torch.manual_seed(seed)
            output, _ = layer(input, dropout_masks=given)
            found.append(output if input is x else output.data)
        assert torch.equal(found[0], found[1])
        assert_equal_within(found[0], found[3], torch.float64, "with masks of the same seed")
        assert torch.equal(found[0], found[2]) == (what == "layer_norm")


@every_scan_cell
def test_a_regularised_scan_layer_is_still_one_scan_a_layer(name, monkeypatch):
    calls, scan = [], scan_path.linear_scan
    monkeypatch.setattr(scan_path, "linear_scan", lambda a, *b, **c: calls.append(a.shape) or scan(a, *b, **c))
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
    assert_same_run(logs(x, dropout_masks=masks), linear(x, dropout_masks=masks))


@every_cell
def test_masks_are_drawn_at_their_rates_and_scaled_to_leave_the_mean(name):
    layer = regularised(name, "all", 50, 60, num_layers=2, bidirectional=True, proj_size=0)
    drawn = {"input": RATES["input_dropout"], "state": RATES["state_dropout"], "weight": RATES["weight_dropout"]}
    for part in layer.draw_dropout_masks(40, 10).directions:
        assert [what for what in drawn if getattr(part, what) is None] == ([] if name in LOOP_CELLS else ["weight"])
        for what, rate in drawn.items():
            if (mask := getattr(part, what)) is None:
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


def test_masks_differ_between_sequences_layers_directions_and_states():
    layer = regularised("lstm", "all", HIDDEN, HIDDEN, num_layers=3, bidirectional=True, proj_size=0)
    parts = layer.draw_dropout_masks(40, STEPS).directions
    assert len(parts) == 6
    # Layer 0 reads one direction's width, the others two: only equals are compared.
    for masks in ([p.input for p in parts[:2]], [p.input for p in parts[2:]], [p.state for p in parts]):
        assert all((mask != mask[:1]).any() for mask in masks)
        assert_distinct(masks)
    zoned = [keep for part in parts for keep in part.zoneout]
    assert_distinct(zoned)
    for keep in zoned:
        assert (keep != keep[:1]).any() and (keep != keep[:, :1]).any()
    assert_distinct([part.weight for part in parts])


def assert_distinct(masks):
    for i, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[:i])


def test_locked_masks_are_the_same_at_every_step_zoneout_is_not_and_without_rates_nothing_is_drawn():
    masks = regularised("lstm", num_layers=2).draw_dropout_masks(BATCH, STEPS)
    for t in range(STEPS):
        for part, whole in zip(masks.at(t).directions, masks.directions, strict=True):
            assert part[:3] == whole[:3]
            assert all(torch.equal(keep, steps[:, t]) for keep, steps in zip(part.zoneout, whole.zoneout, strict=True))
    assert not any(torch.equal(k[:, 0], k[:, 1]) for k in masks.directions[0].zoneout)
    for part in layer_of("lstm", num_layers=2, layer_norm=True).draw_dropout_masks(BATCH, STEPS).directions:
        assert part == (None,) * 4


@every_cell
def test_a_bfloat16_layer_with_all_of_them_has_the_state_of_its_steps(name):
    layer = regularised(name, dtype=torch.bfloat16, num_layers=2, proj_size=0)
    x, masks = series(BATCH, 1, FEATURES, dtype=torch.bfloat16), layer.draw_dropout_masks(BATCH, 1)
    whole, last = layer(x, dropout_masks=masks)
    output, state = layer.step(x[:, 0], dropout_masks=masks.at(0))
    assert whole.dtype == output.dtype == torch.bfloat16
    assert {s.dtype for s in (*as_tuple(state), *as_tuple(last))} == {torch.bfloat16}
    assert_same_run((output, state), (whole[:, 0], last), torch.bfloat16)


@over(name=tuple(TORCH), what=tuple(REGULARISERS), training=(True, False))
def test_torchs_kernel_runs_what_it_can_and_runs_on_says_what_it_cannot(name, what, training, monkeypatch):
    called = []

    def watch(module, function):
        own = getattr(module, function)
        monkeypatch.setattr(module, function, lambda *a, **k: called.append(function) or own(*a, **k))

    for of in ((torch_path, "call_kernel"), (loop_path, "in_torch_steps"), (loop_path, "loop_in_kernel")):
        watch(*of)
    layer = regularised(name, what, num_layers=2).train(training)
    torchs = what in ("input_dropout", "weight_dropout") or (what == "state_dropout" and not training)
    path = layer.runs_on()
    layer(series(BATCH, MAX_STEPS_WITH_GRADIENTS + 1, FEATURES))
    if what == "zoneout":
        assert path.name.startswith("the step loop") and what in path.reason and called == ["in_torch_steps"] * 2
    elif torchs and name == "lstm":
        assert path.name.startswith("torch's fused kernel") and called == ["call_kernel"] * (2 if training else 1)
    else:
        assert path.name.startswith("one kernel for all steps") and (torchs or what in path.reason)
        assert called == ["loop_in_kernel"] * 2


OTHERS = [name for name in KERNEL_LOOP_CELLS if name not in (*TORCH, *JOINT)]


@over(name=axis(EQUATIONS, OTHERS))
def test_other_loop_cells_run_on_one_kernel_until_zoneout_stands_between_the_steps(name):
    assert layer_of(name, state_dropout=0.1, layer_norm=True).runs_on().name.startswith("one kernel for all steps")
    assert regularised(name).runs_on().name == "the step loop in torch"
