"""Initialisation by name: the bounds, signs and spreads that each scheme promises."""

import math

import pytest
import torch
from layer_laws import CELLS, FEATURES, HIDDEN, INPUT_GATED_CELLS, LOOP_CELLS, every_cell
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.layers.parameters import BIAS_INITS, WEIGHT_INITS, initialise

# torch's own remark on proj_size, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
WIDE_IN, WIDE, NARROW = 50, 200, 20
NO_PROJECTION = ("gru", "gru-reset-before")
PEEPHOLES = ("weight_ci", "weight_cf", "weight_co")
DEFAULTS = dict.fromkeys(CELLS, ("fan-in", "zeros"))
DEFAULTS |= dict.fromkeys(("lstm", "gru", "gru-reset-before"), ("torch", "torch"))
DEFAULTS |= dict.fromkeys(("lstm-peephole", "lstm-no-output-gate", "cifg"), ("fan-in", "forget-one"))
SPREAD = (*INPUT_GATED_CELLS, "para-gru", "para-lstm", "sru", "slstm", "janet")
DEFAULTS |= dict.fromkeys(SPREAD, ("fan-in", "time-scales"))
DEFAULTS |= dict.fromkeys(("rg-lru", "lru"), ("fan-in", "zeros"))
NO_SIGMOID = ("own", "indrnn", "rg-lru", "lru")  # of a bias, is the decay
ONE_DECAY_GATE = [name for name in CELLS if name not in ("lstm-normalized", "minlstm")]


def layer_of(name, *args, **kwargs):
    """A wide layer of two layers and, where it can, a projection."""
    if name not in NO_PROJECTION:
        kwargs = {"proj_size": NARROW} | kwargs
    return CELLS[name](*(args or (WIDE_IN, WIDE)), **({"num_layers": 2, "dtype": torch.float64} | kwargs))


def learned_states(layer):
    return {k: v.detach() for k, v in layer.named_parameters() if k.startswith("initial_state")}


def matrices(layer):
    """All but those of gaps, which have a scheme of their own."""
    named = layer.named_parameters()
    return {k: v.detach() for k, v in named if v.dim() == 2 and not k.startswith("weight_gap")}


def blocks(layer, name, weight):
    """A weight gate by gate; a projection has none."""
    if name.startswith("weight_hr"):
        return {"": weight}
    return dict(zip(layer.cell.projections, weight.chunk(len(layer.cell.projections)), strict=True))


def assert_uniform(numbers, low, high):
    """Within the bounds, and as evenly spread as so many uniform numbers are (Kolmogorov, one in a million)."""
    numbers = numbers.detach().double().flatten().sort().values
    assert low <= numbers[0] and numbers[-1] <= high
    places = (numbers - low) / (high - low)
    even = (torch.arange(len(places)).double() + 0.5) / len(places)
    assert (places - even).abs().max() < 3 / math.sqrt(len(places))


@pytest.mark.parametrize("name, theirs", [("lstm", nn.LSTM), ("gru", nn.GRU)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("proj_size", [0, 2])
def test_torch_draws_torchs_numbers_from_the_same_seed(name, theirs, bias, proj_size):
    chosen = {"num_layers": 2, "bidirectional": True, "bias": bias}
    if name == "lstm":
        chosen["proj_size"] = proj_size
    torch.manual_seed(3)
    expected = theirs(FEATURES, HIDDEN, **chosen).state_dict()
    torch.manual_seed(3)
    layer = CELLS[name](FEATURES, HIDDEN, weight_init="torch", bias_init="torch", **chosen)
    assert list(layer.state_dict()) == list(expected)
    assert all(torch.equal(value, expected[key]) for key, value in layer.state_dict().items())


@every_cell
def test_torch_is_uniform_within_one_over_the_root_of_the_hidden_size(name):
    layer = layer_of(name, weight_init="torch", bias_init="torch")
    for key, weight in layer.named_parameters():
        if key not in learned_states(layer):
            assert_uniform(weight, -(WIDE**-0.5), WIDE**-0.5)


@every_cell
def test_a_cell_learns_its_initial_state_in_every_layer_and_direction_or_not_at_all(name):
    layer = layer_of(name, bidirectional=True, proj_size=0)
    assert len(learned_states(layer)) == (4 if layer.cell.learns_initial_state else 0)


@pytest.mark.parametrize("name", [name for name, kind in CELLS.items() if learned_states(kind(2, 12))])
@pytest.mark.parametrize("weight_init", WEIGHT_INITS)
def test_a_learned_initial_state_is_normal_with_a_deviation_of_one_half(name, weight_init):
    layer = layer_of(name, FEATURES, 2000, bidirectional=True, proj_size=0, weight_init=weight_init)
    for state in learned_states(layer).values():
        assert_uniform(torch.special.ndtr(state / 0.5), 0, 1)


@every_cell
def test_fan_in_fills_one_over_the_root_of_each_weights_inputs(name):
    for weight in matrices(layer_of(name, weight_init="fan-in")).values():
        assert_uniform(weight, -(weight.shape[1] ** -0.5), weight.shape[1] ** -0.5)


@pytest.mark.parametrize("weight_init", [scheme for scheme in WEIGHT_INITS if scheme != "torch"])
@pytest.mark.parametrize("gap_features", [1, 30])
def test_every_state_decays_a_little_over_a_gap(weight_init, gap_features):
    layer = CELLS["gru-d"](WIDE_IN, 500, weight_init=weight_init, gap_features=gap_features)
    assert_uniform(layer.weight_gap_l0, 0, 0.2 / gap_features)
    assert (layer.bias_gap_l0 == 0).all()


@every_cell
def test_xavier_fills_its_bound_gate_by_gate(name):
    layer = layer_of(name, weight_init="xavier")
    for key, weight in matrices(layer).items():
        for block in blocks(layer, key, weight).values():
            assert block.shape[0] == (NARROW if key.startswith("weight_hr") else WIDE)
            bound = math.sqrt(6 / sum(block.shape))
            assert_uniform(block, -bound, bound)


@every_cell
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_orthogonal_is_orthogonal_gate_by_gate_where_a_state_is_read_and_xavier_elsewhere(name, dtype):
    layer = layer_of(name, WIDE_IN, 24, proj_size=0, weight_init="orthogonal", dtype=dtype)
    found = []
    for key, weight in matrices(layer).items():
        for gate, block in blocks(layer, key, weight).items():
            if key.startswith("weight_hh"):
                block = block.double()
                found.append(block)
                assert_equal_within(block.T @ block, torch.eye(24), dtype, f"W^T W of {gate} in {key}")
            else:
                bound = math.sqrt(6 / sum(block.shape))
                assert_uniform(block, -bound * (1 + 2**-8), bound * (1 + 2**-8))  # bfloat16 rounds the bound itself
    assert len(found) == (2 * len(layer.cell.projections) if name in LOOP_CELLS else 0)
    assert not any(torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize("name", ["lstm", "lstm-peephole"])
def test_a_recurrent_weight_on_a_projected_state_has_orthogonal_columns(name):
    layer = layer_of(name, weight_init="orthogonal")
    for block in blocks(layer, "weight_hh_l0", layer.weight_hh_l0.detach()).values():
        assert_equal_within(block.T @ block, torch.eye(NARROW), torch.float64, "W^T W")


@every_cell
def test_forget_one_is_set_once_where_a_gate_keeps_or_replaces(name):
    layer = layer_of(name, bias_init="forget-one")
    for level in range(2):
        rows = blocks(layer, "", getattr(layer, f"bias_ih_l{level}").detach())
        for gate, block in rows.items():
            assert (block == layer.cell.decay_gates.get(gate, 0)).all()
        assert any((block != 0).any() for block in rows.values()) == bool(layer.cell.decay_gates)
        if layer.cell.recurrent_bias:
            assert (getattr(layer, f"bias_hh_l{level}") == 0).all()


@every_cell
def test_zeros_are_zeros(name):
    layer = layer_of(name, bias_init="zeros")
    biases = [v for k, v in layer.named_parameters() if k.startswith("bias")]
    assert len(biases) == (4 if layer.cell.recurrent_bias or layer.cell.gap_features else 2)
    assert all((bias == 0).all() for bias in biases)


def decays_at_zero_input(layer):
    """How much of its state each channel keeps where input, state and recurrent weights are zero: a slope."""
    with torch.no_grad():
        for key, weight in layer.named_parameters():
            if key.startswith("weight"):
                weight.zero_()
    one = torch.ones(1, 1, layer.hidden_size, dtype=torch.float64)
    states = tuple((one * (name == "n")).requires_grad_() for name in layer.cell.states)
    _, last = layer(torch.zeros(1, 1, layer.input_size).double(), states if len(states) > 1 else states[0])
    memory = layer.cell.memory
    kept = last[memory] if len(states) > 1 else last
    return torch.autograd.grad(kept.sum(), states[memory])[0].flatten()


@pytest.mark.parametrize("name", [name for name in CELLS if name not in NO_SIGMOID])
@pytest.mark.parametrize("asked, longest", [({}, 64), ({"longest_time_scale": 1000}, 1000)], ids=str)
def test_time_scales_spread_the_decays_from_one_half_to_the_longest(name, asked, longest):
    layer = layer_of(name, FEATURES, 2000, num_layers=1, proj_size=0, bias_init="time-scales", **asked)
    edge = math.log(longest - 1)
    if layer.cell.begins_keeping:  # two channels a block: one half of each keeps all, whatever the input
        decays = layer.bias_ih_l0.detach()[2000:4000].view(2, 1000)
        assert (decays[:, :500] == 2).all()
        assert_uniform(torch.logit(decays[:, 500:]), 0, edge)
        return
    for gate, block in blocks(layer, "", layer.bias_ih_l0.detach()).items():
        sign = layer.cell.decay_gates.get(gate, 0)
        if sign and layer.cell.clamped_decay:
            assert_uniform(torch.logit(block), 0, edge)
        elif sign:
            assert_uniform(sign * block, 0, edge)
        else:
            assert (block == 0).all()
    if layer.cell.recurrent_bias:
        assert (layer.bias_hh_l0 == 0).all()
    decays = decays_at_zero_input(layer)
    assert 1 - 1 / 2 - 1e-13 <= decays.min() and decays.max() <= 1 - 1 / longest + 1e-13
    if name in ONE_DECAY_GATE:
        assert_uniform((1 / (1 - decays) - 1).log(), -1e-12, edge + 1e-12)
    else:
        assert decays.min() < 1 - 1 / 3 and decays.max() > 1 - 1 / (0.8 * longest)


def test_peepholes_start_within_a_tenth_but_as_torch_where_torch_is_asked_for():
    for scheme in WEIGHT_INITS:
        layer = layer_of("lstm-peephole", weight_init=scheme)
        bound = WIDE**-0.5 if scheme == "torch" else 0.1
        for key in PEEPHOLES:
            assert_uniform(getattr(layer, f"{key}_l1"), -bound, bound)


@every_cell
def test_gains_of_the_normalisation_start_at_one(name):
    for weight_init in WEIGHT_INITS:
        layer = layer_of(name, FEATURES, HIDDEN, proj_size=0, layer_norm=True, weight_init=weight_init)
        for level in range(2):
            gain = getattr(layer, f"weight_norm_l{level}")
            assert gain.shape == (len(layer.cell.projections) * HIDDEN,) and (gain == 1).all()


@every_cell
def test_each_cell_has_its_default_schemes(name):
    layers = []
    for chosen in ({}, dict(zip(("weight_init", "bias_init"), DEFAULTS[name], strict=True))):
        torch.manual_seed(3)
        layers.append(layer_of(name, bidirectional=True, **chosen))
        assert (layers[-1].weight_init, layers[-1].bias_init) == DEFAULTS[name]
    for default, named in zip(*(layer.parameters() for layer in layers), strict=True):
        assert torch.equal(default, named)


@every_cell
def test_parameters_drawn_anew_are_others_by_the_same_schemes(name):
    layer = layer_of(name, bidirectional=True)
    before = {k: v.clone() for k, v in matrices(layer).items()}
    layer.reset_parameters()
    after = matrices(layer)
    assert not any(torch.equal(before[k], after[k]) for k in before)
    same_shape = [k for k in after if k.startswith(("weight_ih_l0", "weight_hr"))]
    assert not any(torch.equal(after[a], after[b]) for a in same_shape for b in same_shape if a != b)


@every_cell
def test_what_a_file_has_filled_is_left_alone(name):
    layer = layer_of(name, FEATURES, HIDDEN, num_layers=1, proj_size=0)
    weights = {k.removesuffix("_l0"): v for k, v in layer.named_parameters()}
    nn.init.constant_(layer.weight_ih_l0, 7.0)
    layer.weight_ih_l0._is_hf_initialized = True
    nn.init.constant_(layer.bias_ih_l0, 7.0)
    initialise(layer.cell, weights, HIDDEN, "xavier", "zeros")
    assert (layer.weight_ih_l0 == 7).all() and (layer.bias_ih_l0 == 0).all()


@every_cell
def test_unknown_schemes_are_refused_with_the_known_ones(name):
    for kind, known in (("weight_init", WEIGHT_INITS), ("bias_init", BIAS_INITS)):
        with pytest.raises(ValueError, match=f"{kind} must be one of {', '.join(known)}, got 'he'"):
            layer_of(name, **{kind: "he"})


@every_cell
def test_a_longest_time_scale_needs_a_spread_and_two_steps(name):
    with pytest.raises(ValueError, match="longest_time_scale goes with bias_init='time-scales', and this is 'zeros'"):
        layer_of(name, bias_init="zeros", longest_time_scale=100)
    for unknown in (1, True, "long", math.inf, math.nan):
        with pytest.raises(ValueError, match="longest_time_scale should be a number of steps, 2 at least; got"):
            layer_of(name, bias_init="time-scales", longest_time_scale=unknown)


@every_cell
@pytest.mark.parametrize("weight_init", WEIGHT_INITS)
def test_every_scheme_builds_on_the_meta_device(name, weight_init):
    for bias_init in BIAS_INITS:
        layer = layer_of(name, device="meta", layer_norm=True, weight_init=weight_init, bias_init=bias_init)
        assert all(weight.is_meta for weight in layer.parameters())
        layer.to_empty(device="cpu").reset_parameters()
        assert all(weight.isfinite().all() for weight in layer.parameters())
