"""What torch refuses is refused with torch's own class of error, and what is ours by name."""

import pytest
import torch
from layer_laws import BATCH, CELLS, FEATURES, HIDDEN, SCAN_CELLS, STEPS, TORCH, as_tuple, every_cell, layer_of, series
from torch import nn

from gatedrnn.layers import LAYERS

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


def raised_by(call):
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value)


WRONG_ARGUMENTS = [
    {"input_size": 0}, {"input_size": -3}, {"hidden_size": 0}, {"hidden_size": -1}, {"num_layers": 0},
    {"input_size": 3.0}, {"hidden_size": 4.0}, {"num_layers": 1.0}, {"dropout": 2}, {"dropout": -0.1},
    {"dropout": True}, {"proj_size": -1},
]  # fmt: skip


@every_cell
@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS, ids=str)
def test_a_wrong_argument_raises_what_torch_raises(name, wrong):
    arguments = {"input_size": FEATURES, "hidden_size": HIDDEN, "num_layers": 2} | wrong
    expected = raised_by(lambda: nn.LSTM(**arguments))
    assert raised_by(lambda: CELLS[name](**arguments)) is expected


@pytest.mark.parametrize("name, proj_size", [("lstm", HIDDEN), ("lstm", HIDDEN + 1), ("gru", 2)])
def test_a_projection_that_torch_refuses_is_refused(name, proj_size):
    expected = raised_by(lambda: TORCH[name](FEATURES, HIDDEN, proj_size=proj_size))
    assert raised_by(lambda: LAYERS[name](FEATURES, HIDDEN, proj_size=proj_size)) is expected is ValueError


WRONG_CALLS = {
    "features": (series(STEPS, BATCH, FEATURES + 1), None),
    "one axis": (series(FEATURES), None),
    "four axes": (series(1, STEPS, BATCH, FEATURES), None),
    "no step": (series(0, BATCH, FEATURES), None),
    "no step, unbatched": (series(0, FEATURES), None),
    "dtype": (series(STEPS, BATCH, FEATURES).float(), None),
    "state of another size": (series(STEPS, BATCH, FEATURES), (1, BATCH, HIDDEN + 1)),
    "state of another batch": (series(STEPS, BATCH, FEATURES), (1, BATCH + 1, HIDDEN)),
    "state of more layers": (series(STEPS, BATCH, FEATURES), (2, BATCH, HIDDEN)),
    "state without a batch": (series(STEPS, BATCH, FEATURES), (1, HIDDEN)),
    "state with a batch": (series(STEPS, FEATURES), (1, 1, HIDDEN)),
}


@every_cell
@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_a_wrong_call_raises_what_torch_raises(name, wrong):
    x, shape = WRONG_CALLS[wrong]
    theirs = TORCH.get(name, nn.GRU)(FEATURES, HIDDEN, dtype=torch.float64)
    ours = layer_of(name, batch_first=False)
    hx = None if shape is None else torch.zeros(shape, dtype=torch.float64)
    hx = (hx, hx) if name == "lstm" and hx is not None else hx
    assert raised_by(lambda: ours(x, hx)) is raised_by(lambda: theirs(x, hx))


@every_cell
def test_a_state_with_the_wrong_number_of_tensors_is_refused(name):
    layer = layer_of(name)
    state = torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)
    with pytest.raises(TypeError, match="hx must hold"):
        layer(series(), state if name == "lstm" else (state, state))


# LSTM and GRU take no resets in this version.
@pytest.mark.parametrize(
    "name, flag", [*((name, "mask") for name in CELLS), *((name, "resets") for name in SCAN_CELLS)]
)
@pytest.mark.parametrize("wrong", [torch.ones(BATCH, STEPS), torch.ones(STEPS, BATCH).bool(), torch.ones(BATCH).bool()])
def test_flags_of_another_dtype_or_shape_are_refused_by_name(name, flag, wrong):
    with pytest.raises(ValueError, match=f"{flag} must be bool with the input's first axes"):
        layer_of(name)(series(), **{flag: wrong})


@every_cell
def test_step_refuses_two_directions_and_a_whole_sequence(name):
    with pytest.raises(ValueError, match="one direction"):
        layer_of(name, bidirectional=True).step(series(BATCH, FEATURES))
    with pytest.raises(ValueError, match="step expects"):
        layer_of(name).step(series())
    with pytest.raises(RuntimeError, match="input_size"):
        layer_of(name).step(series(BATCH, FEATURES + 1))


@every_cell
@pytest.mark.parametrize("masked", [False, True])
def test_no_sequence_gives_an_empty_output_and_gradients_of_zero(name, masked):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    flags = {"mask": torch.ones(0, STEPS, dtype=torch.bool)} if masked else {}
    output, last = layer(series(0, STEPS, FEATURES), **flags)
    assert output.shape == (0, STEPS, 2 * HIDDEN)
    assert all(state.shape == (4, 0, HIDDEN) for state in as_tuple(last))
    output.sum().backward()
    assert all((p.grad == 0).all() for p in layer.parameters())
