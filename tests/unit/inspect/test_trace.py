"""A layer's insides as `trace` finds them are those of the layer itself."""

import pytest
import torch
from covering import over
from layer_laws import BATCH, CELL, CELLS, EQUATIONS, HIDDEN, JOINT, STEPS, as_tuple, layer_of, packed_up, series
from paths import axis
from tolerances import assert_equal_within

from gatedrnn.inspect.trace import trace

BOTH = (False, True)
# The decay of a joint state is that of c * exp(m), see test_slstm.py.
DECAYING = axis(EQUATIONS, [name for name in CELLS if name not in JOINT and EQUATIONS[name].decay_gates])


@over(
    lambda name, zoneout: name not in JOINT or not zoneout,
    name=CELL, two_layers_and_directions=BOTH, layer_norm=BOTH, bias=BOTH, zoneout=(0.0, 0.3),
)  # fmt: skip
def test_what_is_traced_is_what_the_layer_does(name, two_layers_and_directions, layer_norm, bias, zoneout):
    variant = {"layer_norm": layer_norm, "bias": bias, "zoneout": zoneout}
    if two_layers_and_directions:
        variant |= {"num_layers": 2, "bidirectional": True}
    layer, x = layer_of(name, **variant).eval(), series()
    outputs = [part.output.flip(1) if part.reverse else part.output for part in trace(layer, x)]
    directions = 1 + layer.bidirectional
    assert len(outputs) == layer.num_layers * directions
    assert_equal_within(torch.cat(outputs[-directions:], 2), layer(x)[0], torch.float64, "output of the last layer")


@over(name=DECAYING)
def test_the_decay_is_what_a_state_is_multiplied_by(name):
    """The derivative of one state by the one before, without recurrent weights; of a turned block, a row's length.

    What a gap takes of the state of a GRU-D is no part of it.
    """
    mixes = name == "block-orthogonal"  # and what zoneout keeps of it is not turned
    for zoneout in (0.0,) if mixes else (0.0, 0.3):
        layer, x = layer_of(name, zoneout=zoneout).eval(), series()
        for part, weight in layer.named_parameters():
            if part.startswith(("weight_hh", "weight_c", "weight_a", "weight_v")) or "_gap_" in part:
                torch.nn.init.zeros_(weight)
        (traced,) = trace(layer, x)
        _, states = layer.step(x[:, 0])
        for t in range(1, STEPS):
            before = as_tuple(states)

            def after(memory, layer=layer, x_t=x[:, t], before=before):
                _, state = layer.step(x_t, packed_up((*before[:-1], memory)))
                return as_tuple(state)[-1][0]

            derivatives = torch.autograd.functional.jacobian(after, before[-1].detach())[:, :, 0]
            for row in range(BATCH):
                own = derivatives[row, :, row]
                expected = own.norm(dim=1) if mixes else own.diagonal()
                assert_equal_within(traced.decay[row, t], expected, torch.float64, f"decay at {t}")
            _, states = layer.step(x[:, t], states)


def test_gates_are_what_input_state_and_memory_make_of_them():
    """The gates of a peephole LSTM, from its parameters alone."""
    layer, x = layer_of("lstm-peephole"), series()
    (traced,) = trace(layer, x)
    assert list(traced.gates) == ["input", "forget", "output"]
    h, c = torch.zeros(2, BATCH, HIDDEN, dtype=x.dtype)
    for t in range(STEPS):
        sums = x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ layer.weight_hh_l0.T
        i, f, g, o = sums.chunk(4, dim=1)
        i, f = (i + layer.weight_ci_l0 * c).sigmoid(), (f + layer.weight_cf_l0 * c).sigmoid()
        c = f * c + i * g.tanh()
        o = (o + layer.weight_co_l0 * c).sigmoid()
        h = o * c.tanh()
        for name, gate in {"input": i, "forget": f, "output": o}.items():
            assert_equal_within(traced.gates[name][:, t], gate, torch.float64, name)
        assert_equal_within(traced.decay[:, t], f, torch.float64, "decay")


def test_a_clamped_decay_and_gates_that_share_one_whole_are_shown_as_they_act():
    for name, lowest in (("signed-mingru", -1.0), ("block-orthogonal", 0.0)):
        (traced,) = trace(layer_of(name, 3, 64), series())
        (gate,) = traced.gates.values()
        assert torch.equal(gate, traced.decay)
        assert gate.min() == pytest.approx(lowest, abs=1e-12) and gate.max() == pytest.approx(1.0, abs=1e-12)
    for name in ("minlstm", "lstm-normalized"):
        (traced,) = trace(layer_of(name), series())
        assert_equal_within(traced.gates["forget"], traced.decay, torch.float64, "forget")
        assert_equal_within(traced.gates["input"], 1 - traced.decay, torch.float64, "input")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_decay_of_a_block_is_that_of_each_channel(size):
    layer, x = layer_of("block-orthogonal", 3, 12, block_size=size), series()
    (traced,) = trace(layer, x)
    d = (x @ layer.weight_ih_l0[12:24].T + layer.bias_ih_l0[12:24]).clamp(0, 1)
    assert_equal_within(traced.decay, d, torch.float64, "decay")


@pytest.mark.parametrize("cell", ["lstm", "mingru", "qrnn"])
def test_a_trace_goes_on_from_a_state(cell):
    """The window into a model rests on this: a step at a time is the sequence."""
    layer = CELLS[cell](3, 4, num_layers=2, batch_first=True).eval()
    x = torch.randn(2, 6, 3, 2)[..., 0]  # strided
    _, state = layer(x[:, :4])
    for whole, rest in zip(trace(layer, x), trace(layer, x[:, 4:], as_tuple(state)), strict=True):
        found, expected = (part.gates | {"memory": part.memory, "written": part.written} for part in (rest, whole))
        for name, values in expected.items():
            assert_equal_within(found[name], values[:, 4:], torch.float32, name)
