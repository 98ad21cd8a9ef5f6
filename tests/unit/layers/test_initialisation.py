"""Initialisation by name: the bounds, signs and spreads that each scheme promises."""

import math
from itertools import product

import pytest
import torch
from covering import over
from layer_laws import CELLS, EQUATIONS, FEATURES, UNPROJECTED, every_cell
from paths import axis
from tolerances import assert_equal_within
from torch.nn.functional import softplus
from torch.special import ndtr

from gatedrnn.equations import BlockScanEquations, InputGatedEquations
from gatedrnn.layers.parameters import BIAS_INITS, WEIGHT_INITS

# torch's own remark on proj_size, once per process.
WIDE_IN, WIDE, NARROW = 50, 200, 20
NO_SIGMOID = ("own", "indrnn", "rg-lru", "lru")  # of a bias, is the decay
SPREAD_CELL = axis(EQUATIONS, [name for name in CELLS if name not in NO_SIGMOID])


def layer_of(name, *args, **kwargs):
    """A wide layer of two layers and, where it can, a projection."""
    if name not in UNPROJECTED:
        kwargs = {"proj_size": NARROW} | kwargs
    return CELLS[name](*(args or (WIDE_IN, WIDE)), **({"num_layers": 2, "dtype": torch.float64} | kwargs))


def parameters(layer, prefix=""):
    return {name: weight.detach() for name, weight in layer.named_parameters() if name.startswith(prefix)}


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


def assert_orthogonal(blocks, dtype):
    for block in blocks:
        assert_equal_within(block.T.double() @ block.double(), torch.eye(block.shape[1]), dtype, "W^T W")
    assert not any(torch.equal(a, b) for i, a in enumerate(blocks) for b in blocks[:i])


def assert_as_promised(layer, key, weight, scheme):
    if scheme in ("torch", "fan-in"):
        bound = (WIDE if scheme == "torch" else weight.shape[1]) ** -0.5
        assert_uniform(weight, -bound, bound)
    elif scheme == "orthogonal" and key.startswith("weight_hh"):
        assert_orthogonal(list(blocks(layer, key, weight).values()), torch.float64)
    else:
        for block in blocks(layer, key, weight).values():
            assert block.shape[0] == (NARROW if key.startswith("weight_hr") else WIDE)
            bound = math.sqrt(6 / sum(block.shape))
            assert_uniform(block, -bound, bound)


@every_cell
def test_weights_fill_the_bounds_of_their_scheme_also_of_a_layer_without_memory_that_is_given_some(name):
    for scheme in WEIGHT_INITS:
        layer = layer_of(name, weight_init=scheme, layer_norm=True, device="meta")
        assert all(weight.is_meta for weight in layer.parameters())
        layer.to_empty(device="cpu").reset_parameters()
        own = () if scheme == "torch" else ("weight_gap", *(f"weight_{each}" for each in layer.cell.diagonals))
        for key, weight in parameters(layer).items():
            if key.startswith("weight_norm"):
                assert (weight == 1).all()
            elif key.startswith("initial_state"):
                assert_uniform(ndtr(weight / 0.5), 0, 1)
            elif not key.startswith(("bias", *own)):  # which have schemes of their own
                assert_as_promised(layer, key, weight, scheme)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_orthogonal_is_orthogonal_in_any_dtype_and_each_head(dtype):
    chosen = {"proj_size": 0, "weight_init": "orthogonal"}
    layer = layer_of("lstm", WIDE_IN, 24, dtype=dtype, **chosen)
    assert_orthogonal([*layer.weight_hh_l0.detach().chunk(4), *layer.weight_hh_l1.detach().chunk(4)], dtype)
    layer = layer_of("slstm", WIDE_IN, 24, num_layers=1, heads=3, **chosen)
    assert_orthogonal(layer.weight_hh_l0.detach().chunk(4 * 3), torch.float64)


DIAGONALS = {
    **dict.fromkeys(("lstm-peephole", "sru"), lambda *weights: [5 * w + 0.5 for w in weights]),  # within a tenth
    **dict.fromkeys(("para-gru", "para-lstm"), lambda *weights: [ndtr(w * (5 / 4 * len(w)) ** 0.5) for w in weights]),
    "indrnn": lambda u: [u],
    "hgrn": lambda bound: [(bound.sigmoid() - 0.001) / 0.949],
    "rg-lru": lambda decay: [((-2 * softplus(decay)).exp() - 0.9**2) / (0.999**2 - 0.9**2)],
    "lru": lambda nu, theta, gamma: [
        ((-2 * nu.exp()).exp() - 0.9**2) / (0.999**2 - 0.9**2), theta.exp() / (2 * math.pi),
        (1 - (2 * gamma).exp() - 0.9**2) / (0.999**2 - 0.9**2),
    ],
}  # fmt: skip
"""Map the diagonal weights to numbers that are uniform from 0 to 1."""


@pytest.mark.parametrize("name", [name for name, cell in EQUATIONS.items() if cell.diagonals])
def test_diagonal_weights_begin_as_their_cell_says(name):
    layer = layer_of(name, FEATURES, 600, num_layers=1, proj_size=0)
    numbers = DIAGONALS[name](*(getattr(layer, f"weight_{diagonal}_l0").detach() for diagonal in layer.cell.diagonals))
    for each in numbers:
        assert_uniform(each, -1e-12, 1 + 1e-12)
    assert name != "lru" or torch.allclose(numbers[0], numbers[2]), "gamma follows from nu"


def normal(weight, variance):
    return ndtr(weight / variance**0.5)


def falling(bias, start, end, power=1.0):
    """Minus what falls from start to end over the channels."""
    return bias - start - (end - start) * (torch.arange(len(bias), dtype=bias.dtype) / (len(bias) - 1)) ** power


AUTHORS = {
    "sru": lambda w: [
        *(block * (w["weight_ih"].shape[1] / 12 / share) ** 0.5 + 0.5
          for block, share in zip(w["weight_ih"].chunk(4), (1, 0.5, 0.5, 3), strict=True)),
        w["weight_vf"] / 6**0.5 + 0.5, w["weight_vr"] / 6**0.5 + 0.5,
    ],
    "lru": lambda w: [
        normal(w["weight_ih"], 1 / (2 * WIDE_IN)), normal(w["weight_hr"], 2 / WIDE), (-2 * w["weight_nu"].exp()).exp(),
        1 - (2 * w["weight_gamma"]).exp(), w["weight_theta"].exp() / (2 * math.pi),
    ],
    "slstm": lambda w: [normal(w["weight_ih"], 2 / (5 * WIDE_IN))],
    **dict.fromkeys(("para-gru", "para-lstm"), lambda w: [
        block * (sum(block.shape) / 24) ** 0.5 + 0.5 for block in w["weight_ih"].chunk(3)
    ]),
}  # fmt: skip
"""Map the weights of a layer, as its authors' code begins, to numbers that are uniform from 0 to 1."""


@pytest.mark.parametrize("name", AUTHORS)
def test_a_layer_may_begin_as_in_its_authors_code(name):
    layer = layer_of(name, WIDE_IN, WIDE, num_layers=1, weight_init="authors", bias_init="authors")
    weights = {key.removesuffix("_l0"): weight for key, weight in parameters(layer).items()}
    for numbers in AUTHORS[name](weights):
        assert_uniform(numbers, 0, 1)
    bias = dict(zip(layer.cell.projections, weights["bias_ih"].chunk(len(layer.cell.projections)), strict=True))
    if name == "slstm":
        assert not weights["weight_hh"].any()
        torch.testing.assert_close(falling(bias.pop("forget"), 5, -7, 0.3), torch.zeros(WIDE, dtype=torch.float64))
    if name.startswith("para"):
        first = bias.pop(layer.cell.projections[0])
        torch.testing.assert_close(falling(first, 0, -1), torch.zeros(WIDE, dtype=torch.float64))
    assert not any(block.any() for block in bias.values())
    half = layer_of(name, WIDE_IN, WIDE, num_layers=1, weight_init="authors", bias=False, dtype=torch.bfloat16)
    assert all(weight.isfinite().all() for weight in parameters(half).values())
    default = layer_of(name, WIDE_IN, WIDE, num_layers=1, bias_init="authors")
    if name != "slstm":
        assert_as_promised(default, "weight_ih_l0", default.weight_ih_l0, "fan-in")


def test_cells_without_a_scheme_of_their_authors_refuse_it():
    for kind in ("weight_init", "bias_init"):
        with pytest.raises(ValueError, match=f"{kind} must be one of .*, got 'authors'"):
            layer_of("mingru", **{kind: "authors"})


def test_every_state_decays_a_little_over_a_gap():
    for scheme, gap_features in product(set(WEIGHT_INITS) - {"torch"}, (1, 30)):
        layer = CELLS["gru-d"](WIDE_IN, 500, weight_init=scheme, gap_features=gap_features)
        assert_uniform(layer.weight_gap_l0, 0, 0.2 / gap_features)
        assert (layer.bias_gap_l0 == 0).all()


@every_cell
def test_biases_are_torchs_or_zeros_or_set_once_where_a_gate_keeps_or_replaces(name):
    torchs = layer_of(name, bias_init="torch", device="meta").to_empty(device="cpu")
    torchs.reset_parameters()
    for bias in parameters(torchs, "bias").values():
        assert_uniform(bias, -(WIDE**-0.5), WIDE**-0.5)
    assert not any(bias.any() for bias in parameters(layer_of(name, bias_init="zeros"), "bias").values())
    layer = layer_of(name, bias_init="forget-one")
    for key, bias in parameters(layer, "bias").items():
        for gate, block in blocks(layer, key, bias).items() if key.startswith("bias_ih") else [("", bias)]:
            assert (block == layer.cell.decay_gates.get(gate, 0)).all()


def scales_at_zero_input(layer):
    """1 / (1 - decay) of each channel where input, state and recurrent weights are zero; the decay is a slope."""
    bounds = {f"weight_{name}_l0" for name, read in layer.cell.diagonals.items() if read is None}
    for key, weight in layer.named_parameters():
        if key.startswith("weight") and key not in bounds:
            torch.nn.init.zeros_(weight)
    one = torch.ones(1, 1, layer.hidden_size, dtype=torch.float64)
    states = tuple((one * (name == "n")).requires_grad_() for name in layer.cell.states)
    _, last = layer(torch.zeros(1, 1, layer.input_size).double(), states if len(states) > 1 else states[0])
    memory = layer.cell.memory
    kept = last[memory] if len(states) > 1 else last
    return 1 / (1 - torch.autograd.grad(kept.sum(), states[memory])[0].flatten())


@over(name=SPREAD_CELL)
def test_time_scales_spread_the_decays_from_one_half_to_the_longest(name):
    for asked, longest in (({}, 64), ({"longest_time_scale": 1000}, 1000)):
        layer = layer_of(name, FEATURES, 802, num_layers=1, proj_size=0, bias_init="time-scales", **asked)
        edge = math.log(longest - 1)
        gates = blocks(layer, "", layer.bias_ih_l0.detach())
        keeps = isinstance(layer.cell, BlockScanEquations) and layer.cell.begins_keeping
        if keeps:  # two channels a block: one half of each keeps all, whatever the input
            kept, gates["decay"] = gates["decay"].view(2, 401).split([201, 200], dim=1)
            assert (kept == 2).all()
        for gate, block in gates.items():
            sign = layer.cell.decay_gates.get(gate, 0)
            assert sign or (block == 0).all()
            if sign:
                clamped = isinstance(layer.cell, InputGatedEquations) and layer.cell.clamped_decay
                assert_uniform(torch.logit(block) if clamped else sign * block, 0, edge)
        assert all((bias == 0).all() for bias in parameters(layer, "bias_hh").values())
        if keeps:
            continue
        scales = scales_at_zero_input(layer)
        if name == "hgrn":  # the gate shares out what a decay has above its bound
            scales = scales * torch.sigmoid(-layer.weight_bound_l0)
        assert 2 - 1e-9 <= scales.min() and scales.max() <= longest + 1e-9
        if len(layer.cell.decay_gates) == 1:
            assert_uniform((scales - 1).log(), -1e-9, edge + 1e-9)
        else:
            assert scales.min() < 3 and scales.max() > 0.8 * longest


def test_the_default_is_the_schemes_of_the_cell_and_drawn_anew_they_give_others():
    own = {"lstm": ("torch", "torch"), "cifg": ("fan-in", "forget-one"), "mgu": ("fan-in", "zeros")}
    for name, schemes in own.items():
        layers = []
        for chosen in ({}, dict(zip(("weight_init", "bias_init"), schemes, strict=True))):
            torch.manual_seed(3)
            layers.append(layer_of(name, bidirectional=True, **chosen))
            assert (layers[-1].weight_init, layers[-1].bias_init) == schemes
        default, named = map(parameters, layers)
        assert all(torch.equal(default[key], named[key]) for key in default)
        layers[0].reset_parameters()
        drawn = [key for key in named if key.startswith("weight")]
        assert not any(torch.equal(default[key], named[key]) for key in drawn)
        alike = [key for key in drawn if key.startswith(("weight_ih_l0", "weight_hr"))]
        assert not any(torch.equal(default[a], default[b]) for a in alike for b in alike if a != b)


def test_unknown_schemes_are_refused_with_the_known_ones_and_a_longest_time_scale_needs_a_spread_and_two_steps():
    for kind, known in (("weight_init", WEIGHT_INITS), ("bias_init", BIAS_INITS)):
        with pytest.raises(ValueError, match=f"{kind} must be one of {', '.join(known)}, got 'he'"):
            layer_of("mingru", **{kind: "he"})
    with pytest.raises(ValueError, match="longest_time_scale goes with bias_init 'time-scales', and that of mingru is"):
        layer_of("mingru", bias_init="zeros", longest_time_scale=100)
    for unknown in (1, True, "long", math.inf, math.nan):
        with pytest.raises(ValueError, match="longest_time_scale should be a number of steps, 2 at least; got"):
            layer_of("mingru", bias_init="time-scales", longest_time_scale=unknown)
