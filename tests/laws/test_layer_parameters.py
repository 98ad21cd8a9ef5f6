"""Parameters: names, counts, copies, initialisation."""

import copy
import pickle
from fractions import Fraction

import pytest
import torch
from layer_laws import (
    BATCH,
    CELLS,
    FEATURES,
    HIDDEN,
    LOOP_CELLS,
    PROJECTED_STATES,
    STEPS,
    TORCH,
    every_cell,
    every_scan_cell,
    layer_of,
    projection,
    series,
)
from minGRU_pytorch.minGRU import minGRU
from minGRU_pytorch.minLSTM import minLSTM
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import GRU, LSTM, MGU, MinGRU, MinLSTM, from_min_gru_pytorch, registry

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@every_cell
def test_copies_keep_the_numbers_and_go_their_own_way(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    x = series()
    expected = layer(x)[0]
    copies = [copy.deepcopy(layer)]
    if name != "own":  # a partial of a test's class is nothing that a user pickles
        copies.append(pickle.loads(pickle.dumps(layer)))
    for twin in copies:
        assert torch.equal(twin(x)[0], expected)
        nn.init.zeros_(twin.weight_ih_l0)
        assert not torch.equal(twin(x)[0], expected)
    assert torch.equal(layer(x)[0], expected)


def count(layer):
    return sum(p.numel() for p in layer.parameters())


PUBLISHED = {
    "lstm": (LSTM(10, 32), 5_504 + 4 * 32),  # one bias a gate, and torch's second one
    "gru-reset-before": (GRU(10, 32, reset_after=False), 4_128),
    "gru-reset-before, wider": (GRU(50, 100, reset_after=False), 45_300),
    "gru": (GRU(50, 100), 45_600),
    "mgu": (MGU(50, 100), 30_200),
    "minlstm": (MinLSTM(10, 32, bias=False, proj_size=10), 1_280),
    "mingru": (MinGRU(10, 32, bias=False, proj_size=10), 960),
}


@pytest.mark.parametrize("layer, expected", PUBLISHED.values(), ids=PUBLISHED)
def test_parameters_count_as_published(layer, expected):
    assert count(layer) == expected


@pytest.mark.parametrize("expansion", [1, 2, 3, 4])
def test_minimal_cells_hold_the_published_share_of_the_weights(expansion):
    """Feng et al. 2024: of a GRU's and an LSTM's weights without biases, at hidden_size = expansion * input_size."""

    def weights(name):
        return count(CELLS[name](12, 12 * expansion, bias=False))

    assert Fraction(weights("mingru"), weights("gru-reset-before")) == Fraction(2, 3 * (1 + expansion))
    assert Fraction(weights("minlstm"), weights("lstm")) == Fraction(3, 4 * (1 + expansion))


GATES = {
    "lstm": 4, "lstm-peephole": 4, "lstm-no-output-gate": 3, "lstm-input-gated": 3, "lstm-normalized": 3, "minlstm": 3,
    "gru": 3, "mgu": 2, "gru-no-reset-gate": 2, "gru-input-gated": 2, "mingru": 2, "signed-mingru": 2,
    "block-orthogonal": 3, "gru-d": 3, "indrnn": 1, "para-gru": 3, "para-lstm": 3, "sru": 4, "slstm": 4,
    "cifg": 3, "janet": 2, "hgrn": 2, "rg-lru": 3, "qrnn": 3, "lru": 1, "gru-reset-before": 3, "mgu-keep": 2, "own": 2,
}  # fmt: skip

DIAGONALS = {
    "lstm-peephole": "ci cf co", "indrnn": "u", "para-gru": "az ar an", "para-lstm": "af ag ao cf co", "sru": "vf vr",
    "hgrn": "bound", "rg-lru": "decay", "lru": "nu theta gamma",
}  # fmt: skip


def expected_shapes(name, features, layers, suffixes, bias, proj_size):
    """Written out by hand, from torch's documentation and the papers."""
    rows, found = GATES[name] * HIDDEN, {}
    width = proj_size or HIDDEN
    for layer in range(layers):
        for suffix in suffixes:
            end = f"_l{layer}{suffix}"
            found[f"weight_ih{end}"] = (rows, features if layer == 0 else len(suffixes) * width)
            if name in LOOP_CELLS:
                found[f"weight_hh{end}"] = (rows, width if name in PROJECTED_STATES else HIDDEN)
            if bias:
                found[f"bias_ih{end}"] = (rows,)
            if bias and name in TORCH:
                found[f"bias_hh{end}"] = (rows,)
            if proj_size:
                found[f"weight_hr{end}"] = (proj_size, HIDDEN)
            channels = HIDDEN // 2 if name == "lru" else HIDDEN  # complex ones
            found |= {f"weight_{weight}{end}": (channels,) for weight in DIAGONALS.get(name, "").split()}
            if name == "gru-d":
                found |= {f"weight_gap{end}": (HIDDEN, 1)} | ({f"bias_gap{end}": (HIDDEN,)} if bias else {})
            if name in ("signed-mingru", "block-orthogonal"):
                found[f"initial_state{end}"] = (HIDDEN,)
    return found


@every_cell
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("proj_size", [0, 2])
@pytest.mark.parametrize("layers, bidirectional", [(1, False), (2, True)])
def test_parameters_are_named_and_shaped_as_torch_does(name, bias, proj_size, layers, bidirectional):
    projected = projection(name, proj_size)
    layer = CELLS[name](FEATURES, HIDDEN, layers, bias, bidirectional=bidirectional, **projected)
    suffixes = ("", "_reverse") if bidirectional else ("",)
    expected = expected_shapes(name, FEATURES, layers, suffixes, bias, projected.get("proj_size", 0))
    assert {k: tuple(v.shape) for k, v in layer.state_dict().items()} == expected
    assert list(layer.state_dict()) == list(expected) == [k for k, _ in layer.named_parameters()]
    if name in TORCH:
        theirs = TORCH[name](FEATURES, HIDDEN, layers, bias, bidirectional=bidirectional, **projected)
        assert list(layer.state_dict()) == list(theirs.state_dict())
    flat = [weight for weights in layer.all_weights for weight in weights]
    assert all(one is other for one, other in zip(flat, layer.parameters(), strict=True))
    assert len(layer.all_weights) == layers * len(suffixes)


@every_cell
def test_layer_norm_adds_one_gain_a_gate_and_nothing_else(name):
    plain = CELLS[name](FEATURES, HIDDEN, num_layers=2).state_dict()
    normed = CELLS[name](FEATURES, HIDDEN, num_layers=2, layer_norm=True).state_dict()
    assert set(normed) - set(plain) == {"weight_norm_l0", "weight_norm_l1"} and set(plain) <= set(normed)
    assert all(normed[f"weight_norm_l{i}"].shape == (GATES[name] * HIDDEN,) for i in range(2))


@pytest.mark.parametrize("kind", [minGRU, minLSTM])
@pytest.mark.parametrize("expansion", [1.0, 2.0])
@pytest.mark.parametrize("proj_out", [None, True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
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


def their_layer(kind, expansion, proj_out, dtype):
    theirs = kind(FEATURES, expansion_factor=expansion, proj_out=proj_out).to(dtype)
    for weight in theirs.parameters():
        nn.init.normal_(weight)
    return theirs


@pytest.mark.parametrize("kind", [minGRU, minLSTM])
@pytest.mark.parametrize("expansion", [1.0, 2.0])
def test_a_state_of_mingru_pytorch_is_ours_with_two_axes_swapped(kind, expansion):
    theirs = their_layer(kind, expansion, None, torch.float64)
    ours = from_min_gru_pytorch(theirs)
    x = series()
    before, hx = None, None
    for t in range(STEPS):
        expected, before = theirs(x[:, t : t + 1], before, return_next_prev_hidden=True)
        output, hx = ours.step(x[:, t], hx)
        assert_equal_within(output, expected[:, 0], torch.float64, "output of a step")
        assert_equal_within(hx, before.transpose(0, 1), torch.float64, "state of a step")
    whole, last = ours(x)
    assert_equal_within(last, before.transpose(0, 1), torch.float64, "state")
    if kind is minGRU:  # the parallel form of their minLSTM takes log_g of a carried state, where the state is meant
        first, carried = theirs(x[:, :3], return_next_prev_hidden=True)
        second = theirs(x[:, 3:], carried)
        assert_equal_within(torch.cat([first, second], dim=1), whole, torch.float64, "two halves of theirs")
        ours_second, _ = ours(x[:, 3:], carried.transpose(0, 1))
        assert_equal_within(ours_second, second, torch.float64, "second half from their state")


FOREIGN = {
    "nothing": {},
    "torch's": nn.GRU(2, 2).state_dict(),
    "ours": MinGRU(2, 2).state_dict(),
    "both": {"to_hidden_and_gate.weight": torch.ones(4, 2), "to_hidden_and_f_i_gate.weight": torch.ones(6, 2)},
    "only to_out": {"to_out.weight": torch.ones(2, 2)},
    "with a bias": {"to_hidden_and_gate.weight": torch.ones(4, 2), "to_hidden_and_gate.bias": torch.ones(4)},
    "in a model": {"layer.to_hidden_and_gate.weight": torch.ones(4, 2)},
}


@pytest.mark.parametrize("weights", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_state_dict_is_refused(weights):
    with pytest.raises(ValueError, match="a minGRU or minLSTM holds"):
        from_min_gru_pytorch(weights)


MISSHAPEN = {
    "rows that are no whole gates": {"to_hidden_and_f_i_gate.weight": torch.ones(7, 2)},
    "to_out of another width": {"to_hidden_and_gate.weight": torch.ones(8, 2), "to_out.weight": torch.ones(2, 3)},
    "to_out that would be spread": {"to_hidden_and_gate.weight": torch.ones(8, 2), "to_out.weight": torch.ones(2, 1)},
    "one axis": {"to_hidden_and_gate.weight": torch.ones(8)},
}


@pytest.mark.parametrize("weights", MISSHAPEN.values(), ids=MISSHAPEN)
def test_a_state_dict_of_another_shape_is_refused(weights):
    with pytest.raises(ValueError, match=r"weight"):
        from_min_gru_pytorch(weights)


@pytest.mark.parametrize("name", ["minlstm", "mingru"])
def test_time_scales_at_zero_input_are_spread_from_2_to_64_steps(name):
    layer = registry.CELLS[name].layer(FEATURES, 1000)
    decay, _ = layer.cell.coefficients(*layer.bias_ih_l0.chunk(len(layer.cell.projections)))
    scales = 1 / (1 - decay.detach())
    assert scales.min() >= 2 - 1e-4 and scales.max() <= 64 + 1e-3
    assert scales.min() < 4 and scales.max() > 32
    assert (layer.bias_ih_l0[:1000] == 0).all()  # the candidate's


@every_scan_cell
def test_weights_start_within_one_over_the_root_of_their_inputs(name):
    layer = CELLS[name](100, 400, num_layers=2, proj_size=25)
    for weight in (layer.weight_ih_l0, layer.weight_ih_l1, layer.weight_hr_l0):
        bound = weight.shape[1] ** -0.5
        assert 0.95 * bound < weight.detach().abs().max() <= bound
        assert weight.detach().mean().abs() < 0.1 * bound
