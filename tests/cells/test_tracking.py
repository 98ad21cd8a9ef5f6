"""Each cell is in the class whose states it can tell apart, and the documentation says the same."""

import re
from pathlib import Path

import pytest
import torch

from gatedrnn.cells import tracking
from gatedrnn.layers import LAYERS

DOCUMENT = Path(__file__).parents[2] / "docs" / "expressivity.md"
CLASSES = {name: tracking(layer.cell_class()).name for name, layer in LAYERS.items()}


@pytest.mark.parametrize("name", LAYERS)
def test_a_class_is_what_one_step_does_to_two_states(name):
    """The difference of two states after a step, against the one before: kept in sign, flipped, turned, or more."""
    torch.manual_seed(0)
    layer = LAYERS[name](3, 4, dtype=torch.float64)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=2)
    states = len(layer.state_sizes())
    with torch.no_grad():
        x, h = torch.randn(500, 3, dtype=torch.float64), torch.randn(2, 1, 500, 4, dtype=torch.float64)
        before = h[1] - h[0]
        memories = [layer.step(x, (torch.zeros_like(one), one) if states > 1 else one)[1] for one in h]
        first, second = (memory[-1] if states > 1 else memory for memory in memories)
        after = second - first
        twice = layer.step(x, tuple([2 * before, *[2 * before] * (states - 1)]) if states > 1 else 2 * before)[1]
        once = layer.step(x, tuple([before, *[before] * (states - 1)]) if states > 1 else before)[1]
        none = layer.step(x, tuple([0 * before] * states) if states > 1 else 0 * before)[1]
        linear = [memory[-1] if states > 1 else memory for memory in (none, once, twice)]
    if not torch.allclose(linear[2] - linear[1], linear[1] - linear[0], atol=1e-9):
        found = "state-dependent"
    elif torch.allclose(after.norm(dim=-1), before.norm(dim=-1)) or bool((after / before).abs().max() > 1 + 1e-9):
        found = "rotating"  # one channel grew at the cost of another
    else:
        found = "signed" if bool((after / before).min() < 0) else "positive"
    assert CLASSES[name] == found


def test_the_document_has_every_class_and_puts_cells_where_they_are():
    rows = re.findall(r"^\| ([a-z-]+) \| (.*?) \|", DOCUMENT.read_text(encoding="utf-8"), flags=re.M)
    named = {cell: kind for kind, cells in rows for cell in re.findall(r"`([\w-]+)`", cells)}
    assert set(named.values()) == set(CLASSES.values())
    assert {cell: CLASSES[cell] for cell in named} == named
    assert {cell for cell in CLASSES if cell not in named} <= {c for c in CLASSES if CLASSES[c] == "state-dependent"}
