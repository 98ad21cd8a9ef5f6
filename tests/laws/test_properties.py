"""Any layer on any input is its cell, one row and one direction at a time."""

from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from layer_laws import STATES, as_tuple, assert_same, begun_anew, every_cell, layer_of, packed_up, run
from properties import few
from torch.nn.functional import linear

from gatedrnn.equations import Recurrent, output_of

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
TIME = 9
# Rows of one kind throughout are where the corners are, and dice would hardly ever throw one.
row = st.just([False] * TIME) | st.just([True] * TIME) | st.lists(st.booleans(), min_size=TIME, max_size=TIME)
flags = st.none() | st.lists(row, min_size=4, max_size=4)


def iterate(layer, x, hx, mask=None, resets=None):
    """(output, last states) of a layer with `batch_first`: the law in its plainest words."""
    hx, batch, time = as_tuple(hx), *x.shape[:2]
    # Where nothing of a tensor is read (no real step, a discarded state), its gradient is zeros and not an error.
    nothing = sum(0 * value.sum() for value in (x, *hx, *layer.parameters()))
    series, lasts = [list(row) for row in x], []
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    for level in range(layer.num_layers):
        outputs = [[[] for _ in range(time)] for _ in range(batch)]
        for way in directions:
            weights, ends = layer._weights(level, way), []
            recurrent = Recurrent(layer.cell.projections, weights)
            index = level * len(directions) + directions.index(way)
            for row in range(batch):
                state = tuple(s[index, row : row + 1] for s in hx)
                for t in reversed(range(time)) if way else range(time):
                    # The cut is between t-1 and t: the reverse direction meets it before t-1.
                    cut = t + 1 if way else t
                    if resets is not None and cut < time and resets[row, cut]:
                        state = begun_anew(weights, state)
                    if mask is not None and not mask[row, t]:
                        outputs[row][t].append(torch.zeros(layer.proj_size or layer.hidden_size, dtype=x.dtype))
                        continue
                    projected = linear(series[row][t][None], weights["weight_ih"], weights.get("bias_ih"))
                    gates = projected.chunk(len(layer.cell.projections), 1)
                    state = layer.cell.step(gates, state, recurrent)
                    output = output_of(layer.cell, state, gates)
                    if layer.proj_size and not layer.cell.projects_state:
                        output = linear(output, weights["weight_hr"])
                    outputs[row][t].append(output[0])
                ends.append(state)
            lasts.append(tuple(torch.cat(kind) for kind in zip(*ends, strict=True)))
        series = [[torch.cat(both) for both in steps] for steps in outputs]
    output = torch.stack([torch.stack(steps) for steps in series]) + nothing
    return output, packed_up(tuple(torch.stack(kind) for kind in zip(*lasts, strict=True)))


def in_chunks(layer, sizes, x, hx, mask=None, resets=None):
    outputs, low = [], 0
    for size in sizes:
        here = slice(low, low + size)
        given = {"mask": mask, "resets": resets}
        output, hx = layer(x[:, here], hx, **{k: v if v is None else v[:, here] for k, v in given.items()})
        outputs.append(output)
        low += size
    return torch.cat(outputs, dim=1), hx


@st.composite
def examples(draw, name, bidirectional):
    """A layer, its input, flags, whether a state is carried in, and pieces that the time falls into."""
    size = st.integers(1, 4)
    hidden = draw(size) * (2 if name in ("block-orthogonal", "lru") else 1)
    # torch's LSTM projects to fewer channels, its GRU never; ours to any number.
    most = {"lstm": hidden - 1, "gru": 0, "gru-reset-before": 0}.get(name, 4)
    options = {
        "num_layers": draw(st.integers(1, 2)), "bias": draw(st.booleans()), "proj_size": draw(st.integers(0, most)),
        "bidirectional": bidirectional and draw(st.booleans()),
    }  # fmt: skip
    batch, time = draw(size), draw(st.integers(1, TIME))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    layer = layer_of(name, draw(size), hidden, **options)
    rectangle = {
        key: None if bits is None else torch.tensor(bits)[:batch, :time]
        for key, bits in (("mask", draw(flags)), ("resets", draw(flags)))
    }
    pieces = []
    while sum(pieces) < time:
        pieces.append(draw(st.integers(1, time - sum(pieces))))
    return (
        layer,
        torch.randn(batch, time, layer.input_size, dtype=torch.float64),
        rectangle,
        draw(st.booleans()),
        pieces,
    )


def assert_one_law(example, way):
    """`way` of running the layer gives the walker's numbers, with a carried state or without."""
    layer, x, given, carried, _ = example
    leading = layer.num_layers * (2 if layer.bidirectional else 1), len(x)
    make = torch.randn if carried else torch.zeros
    states = tuple(make(*leading, size, dtype=x.dtype) for size in layer.state_sizes())
    learned = [p.detach() for name, p in layer.named_parameters() if name.startswith("initial_state")]
    if learned and not carried:
        states = (torch.stack(learned).unsqueeze(1) + states[0],)
    assert len(states) == STATES.get(layer.cell.name, 1)
    grads = torch.randn(*x.shape[:2], layer.output_size, dtype=x.dtype), tuple(map(torch.randn_like, states))
    expected = run(layer, x, states, grads, partial(iterate, layer, **given))
    assert_same(run(layer, x, states, grads, partial(way, **given)), expected)
    if not carried:
        output, last = way(x, None, **given)
        found = {"output": output} | {f"state {i}": s for i, s in enumerate(as_tuple(last))}
        assert_same(found, {key: expected[key] for key in found})


@every_cell
def test_any_layer_is_its_cell_row_by_row(name):
    @few(max_examples=20)
    @given(examples(name, bidirectional=True))
    def law(example):
        assert_one_law(example, example[0])

    law()


@every_cell
def test_any_layer_in_any_chunks_is_its_cell_row_by_row(name):
    @few(max_examples=15)
    @given(examples(name, bidirectional=False))
    def law(example):
        assert_one_law(example, partial(in_chunks, example[0], example[-1]))

    law()
