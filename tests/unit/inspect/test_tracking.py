"""Each cell is in the class of its transition, and the documentation has the same classes."""

import re
from pathlib import Path

import torch

from gatedrnn import SignedMinGRU
from gatedrnn.equations import ScanEquations
from gatedrnn.inspect.tracking import tracking
from gatedrnn.registry import CELLS

DOCUMENT = Path(__file__).parents[3] / "docs" / "expressivity.md"
CLASSES = {name: tracking(cell.equations()).name for name, cell in CELLS.items()}


def found_in_a_step(layer):
    """The difference of two states after a step, against the one before: kept in sign, flipped, turned, or more."""
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=2)
    x, h = torch.randn(500, 3, dtype=torch.float64), torch.randn(2, 1, 500, 4, dtype=torch.float64)
    before, memory = h[1] - h[0], layer.cell.memory

    def after(state, x=x):
        states = (state,) * len(layer.state_sizes())
        found = layer.step(x, states if len(states) > 1 else state)[1]
        return found if isinstance(found, tuple) else (found,)

    none, once, twice = (after(times * before)[memory] for times in (0, 1, 2))
    if not torch.allclose(twice - once, once - none, atol=1e-9):
        alone = before.clone()
        alone[..., 1:] = 0  # a state of one channel
        moved = [a - b for a, b in zip(after(alone), after(0 * alone), strict=True)]
        return "state-dependent" if any(bool(m[..., 1:].any()) for m in moved) else "channelwise"
    if torch.allclose(after(2 * before, x.flip(0))[memory] - after(before, x.flip(0))[memory], twice - once):
        return "fixed"
    quotient = (once - none) / before
    if torch.allclose((once - none).norm(dim=-1), before.norm(dim=-1)) or bool(quotient.abs().max() > 1 + 1e-9):
        return "rotating"  # one channel grew at the cost of another
    return "signed" if bool(quotient.min() < 0) else "positive"


@torch.no_grad()
def test_a_class_is_what_one_step_does_to_two_states():
    layers = {
        name: cell.layer(3, 4, dtype=torch.float64, **({"window": 1} if name == "qrnn" else {}))
        for name, cell in CELLS.items()
    }
    assert {name: found_in_a_step(layer) for name, layer in layers.items()} == CLASSES


class TanhDecay(ScanEquations):
    """A user's cell whose decay can be negative."""

    name = "tanh-decay"
    projections = ("keep", "value")

    def coefficients(self, keep, value):
        return torch.tanh(keep), value


def test_the_class_of_a_users_cell_follows_from_its_equations():
    assert tracking(TanhDecay()).name == "signed"


def test_two_signed_layers_count_modulo_four():
    """As digits carry: the second layer changes its sign whenever the first one's comes back."""
    layer = SignedMinGRU(1, 2, num_layers=2, batch_first=True)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        # Rows: two candidates, two decays. First layer: channel 0 flips with each one, channel 1 shows the bit.
        layer.weight_ih_l0.copy_(torch.tensor([[0.0], [1.0], [-2.0], [0.0]]))
        layer.bias_ih_l0.copy_(torch.tensor([0.0, 0.0, 1.0, 0.0]))
        layer.initial_state_l0.copy_(torch.tensor([1.0, 0.0]))
        # Second layer: channel 0 flips where a one has brought the sign back to 1; channel 1 outputs the sign.
        layer.weight_ih_l1.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, -2.0], [0.0, 0.0]]))
        layer.bias_ih_l1.copy_(torch.tensor([0.0, 0.0, 2.0, 0.0]))
        layer.initial_state_l1.copy_(torch.tensor([1.0, 0.0]))
        bits = torch.randint(0, 2, (2, 65_536, 1))
        y, _ = layer(bits.float())
    counted = 2 * (y[..., 0] < 0) + (y[..., 1] < 0)
    assert torch.equal(counted.long(), bits[..., 0].cumsum(1) % 4)


def test_the_document_has_every_class_and_puts_cells_where_they_are():
    rows = re.findall(r"^\| ([a-z-]+) \| (.*?) \|", DOCUMENT.read_text(encoding="utf-8"), flags=re.M)
    named = {cell: kind for kind, cells in rows for cell in re.findall(r"`([\w-]+)`", cells)}
    assert set(named.values()) == set(CLASSES.values())
    assert {cell: CLASSES[cell] for cell in named} == named
    assert {cell for cell in CLASSES if cell not in named} <= {c for c in CLASSES if CLASSES[c] == "state-dependent"}
