"""Each cell is in the class of its transition, and the documentation has the same classes."""

import re

import torch
from layer_laws import Signed, as_tuple, packed_up
from pages import ROOT

from gatedrnn import SignedMinGRU
from gatedrnn.kinds import kind_of
from gatedrnn.registry import CELLS


def class_of(cell):
    return kind_of(cell).tracking(cell).name


CLASSES = {name: class_of(cell.equations()) for name, cell in CELLS.items()}


def found_in_a_step(layer):
    """The difference of two states after a step, against the one before: kept in sign, flipped, turned, or more."""
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=2)
    x, h = torch.randn(500, 3, dtype=torch.float64), torch.randn(2, 1, 500, 4, dtype=torch.float64)
    before, memory = h[1] - h[0], layer.cell.memory

    def after(state, x=x):
        return as_tuple(layer.step(x, packed_up((state,) * len(layer.state_sizes())))[1])

    none, once, twice = (after(times * before)[memory] for times in (0, 1, 2))
    if not torch.allclose(twice - once, once - none, atol=1e-9):
        alone = before * torch.tensor([1.0, 0, 0, 0])  # a state of one channel
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
    options = {"qrnn": {"window": 1}}
    layers = {name: cell.layer(3, 4, dtype=torch.float64, **options.get(name, {})) for name, cell in CELLS.items()}
    assert {name: found_in_a_step(layer) for name, layer in layers.items()} == CLASSES
    assert class_of(Signed()) == "signed", "the class of a user's cell follows from its equations"


@torch.no_grad()
def test_two_signed_layers_count_modulo_four():
    """Digits carry so: the second layer changes its sign whenever the first one's comes back."""
    layer, start = SignedMinGRU(1, 2, num_layers=2, batch_first=True), [1.0, 0.0]
    # Rows: two candidates, two decays. First layer: channel 0 flips with each one, channel 1 shows the bit.
    rows, bias = [[0.0], [1.0], [-2.0], [0.0]], [0.0, 0.0, 1.0, 0.0]
    weights = {"weight_ih_l0": rows, "bias_ih_l0": bias, "initial_state_l0": start}
    # Second layer: channel 0 flips where a one has brought the sign back to 1; channel 1 outputs the sign.
    rows, bias = [[0.0, 0.0], [1.0, 0.0], [-1.0, -2.0], [0.0, 0.0]], [0.0, 0.0, 2.0, 0.0]
    weights |= {"weight_ih_l1": rows, "bias_ih_l1": bias, "initial_state_l1": start}
    layer.load_state_dict({name: torch.tensor(numbers) for name, numbers in weights.items()})
    bits = torch.randint(0, 2, (2, 65_536, 1))
    y, _ = layer(bits.float())
    counted = 2 * (y[..., 0] < 0) + (y[..., 1] < 0)
    assert torch.equal(counted.long(), bits[..., 0].cumsum(1) % 4)


def test_the_document_has_every_class_and_puts_cells_where_they_are():
    document = (ROOT / "docs" / "expressivity.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z-]+) \| (.*?) \|", document, flags=re.M)
    named = {cell: kind for kind, cells in rows for cell in re.findall(r"`([\w-]+)`", cells)}
    assert set(named.values()) == set(CLASSES.values())
    assert {cell: CLASSES[cell] for cell in named} == named  # the table of cells in docs/use-a-cell.md has all
