"""Each cell is in the class of its transition, and the documentation has the same classes."""

import re
from pathlib import Path

import pytest
import torch

from gatedrnn import SignedMinGRU
from gatedrnn.equations import ScanEquations
from gatedrnn.inspect.tracking import tracking
from gatedrnn.registry import CELLS

DOCUMENT = Path(__file__).parents[3] / "docs" / "expressivity.md"
CLASSES = {name: tracking(cell.equations()).name for name, cell in CELLS.items()}


@pytest.mark.parametrize("name", CELLS)
def test_a_class_is_what_one_step_does_to_two_states(name):
    """The difference of two states after a step, against the one before: kept in sign, flipped, turned, or more."""
    torch.manual_seed(0)
    options = {"window": 1} if name == "qrnn" else {}
    layer = CELLS[name].layer(3, 4, dtype=torch.float64, **options)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=2)
    states = len(layer.state_sizes())
    with torch.no_grad():
        x, h = torch.randn(500, 3, dtype=torch.float64), torch.randn(2, 1, 500, 4, dtype=torch.float64)
        before = h[1] - h[0]
        memories = [
            layer.step(x, (torch.zeros_like(one), *[one] * (states - 1)) if states > 1 else one)[1] for one in h
        ]
        first, second = (memory[1] if states > 1 else memory for memory in memories)
        after = second - first
        twice = layer.step(x, tuple([2 * before, *[2 * before] * (states - 1)]) if states > 1 else 2 * before)[1]
        once = layer.step(x, tuple([before, *[before] * (states - 1)]) if states > 1 else before)[1]
        none = layer.step(x, tuple([0 * before] * states) if states > 1 else 0 * before)[1]
        linear = [memory[1] if states > 1 else memory for memory in (none, once, twice)]
    if not torch.allclose(linear[2] - linear[1], linear[1] - linear[0], atol=1e-9):
        alone = before.clone()
        alone[..., 1:] = 0  # a state of one channel
        with torch.no_grad():
            one, zero = (
                layer.step(x, tuple([state] * states) if states > 1 else state)[1] for state in (alone, 0 * alone)
            )
        moved = [a - b for a, b in zip(*((s if states > 1 else (s,)) for s in (one, zero)), strict=True)]
        found = "state-dependent" if any(bool(m[..., 1:].any()) for m in moved) else "channelwise"
    elif torch.allclose(layer.step(x.flip(0), 2 * before)[1] - layer.step(x.flip(0), before)[1], linear[2] - linear[1]):
        found = "fixed"
    elif torch.allclose(after.norm(dim=-1), before.norm(dim=-1)) or bool((after / before).abs().max() > 1 + 1e-9):
        found = "rotating"  # one channel grew at the cost of another
    else:
        found = "signed" if bool((after / before).min() < 0) else "positive"
    assert CLASSES[name] == found


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
