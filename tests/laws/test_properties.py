"""Any layer on any input, in any pieces and step by step, is what the steps of its cell define."""

from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from layer_laws import STATES, as_tuple, assert_same, every_cell, layer_of, packed_up, run
from properties import few

from gatedrnn.verify.definition import Sequences, initial_states, run_by_definition

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
TIME = 7
# Rows of one kind throughout are where the corners are, and dice would hardly ever throw one.
row = st.just([False] * TIME) | st.just([True] * TIME) | st.lists(st.booleans(), min_size=TIME, max_size=TIME)
flags = st.none() | st.lists(row, min_size=4, max_size=4)


def in_pieces(layer, sizes, x, hx, mask=None, resets=None):
    """One call for each piece; where no step is masked, a piece of one step is `step`."""
    outputs, low = [], 0
    for size in sizes:
        here = slice(low, low + size)
        given = {k: v[:, here] for k, v in {"mask": mask, "resets": resets}.items() if v is not None}
        if size == 1 and mask is None:
            output, hx = layer.step(x[:, low], hx, **{k: v[:, 0] for k, v in given.items()})
            output = output.unsqueeze(1)
        else:
            output, hx = layer(x[:, here], hx, **given)
        outputs.append(output)
        low += size
    return torch.cat(outputs, dim=1), hx


def by_definition(layer, x, hx, mask=None, resets=None):
    nothing = torch.zeros(x.shape[:2], dtype=torch.bool)
    real, cut = ~nothing if mask is None else mask, nothing if resets is None else resets
    output, last = run_by_definition(layer, Sequences(x, as_tuple(hx), real, cut))
    # Where nothing of a tensor is read (no real step, a discarded state), its gradient is zeros and not an error.
    return output + sum(0 * value.sum() for value in (x, *as_tuple(hx), *layer.parameters())), packed_up(last)


@st.composite
def examples(draw, name):
    """A layer, its input and flags, whether a state is carried in, and the pieces in which the layer reads it."""
    size = st.integers(1, 4)
    hidden = draw(size) * (2 if name in ("block-orthogonal", "lru") else 1)
    # torch's LSTM projects to fewer channels, its GRU never; ours to any number.
    most = {"lstm": hidden - 1, "gru": 0, "gru-reset-before": 0}.get(name, 4)
    options = {
        "num_layers": draw(st.integers(1, 2)), "bias": draw(st.booleans()), "proj_size": draw(st.integers(0, most)),
        "bidirectional": draw(st.booleans()),
    }  # fmt: skip
    batch, time, pieces = draw(size), draw(st.integers(1, TIME)), []
    torch.manual_seed(draw(st.integers(0, 2**31)))
    layer = layer_of(name, draw(size), hidden, **options)
    given = {k: None if bits is None else torch.tensor(bits)[:batch, :time]
             for k, bits in (("mask", draw(flags)), ("resets", draw(flags)))}  # fmt: skip
    if options["bidirectional"] or draw(st.booleans()):
        pieces = [time]
    while sum(pieces) < time:
        pieces.append(draw(st.integers(1, time - sum(pieces))))
    x = torch.randn(batch, time, layer.input_size, dtype=torch.float64)
    return layer, x, given, draw(st.booleans()), pieces


@every_cell
def test_any_layer_in_any_pieces_is_what_its_cell_defines(name):
    @few(max_examples=12)
    @given(examples(name))
    def law(example):
        layer, x, given, carried, pieces = example
        states = tuple(s.detach() for s in initial_states(layer, len(x)))
        assert len(states) == STATES.get(layer.cell.name, 1)
        if carried:
            states = tuple(map(torch.randn_like, states))
        grads = torch.randn(*x.shape[:2], layer.output_size, dtype=x.dtype), tuple(map(torch.randn_like, states))
        way = partial(layer, **given) if len(pieces) == 1 else partial(in_pieces, layer, pieces, **given)
        expected = run(layer, x, states, grads, partial(by_definition, layer, **given))
        assert_same(run(layer, x, states, grads, way), expected)
        if not carried:
            output, last = way(x, None)
            found = {"output": output} | {f"state {i}": s for i, s in enumerate(as_tuple(last))}
            assert_same(found, {key: expected[key] for key in found})

    law()
