"""Errors of the base class by name, shown by one cell (test_shared_code.py); torch's words: test_drop_in.py."""

from contextlib import nullcontext
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    JOINT,
    NAN,
    STATES,
    STEPS,
    TORCH,
    as_tuple,
    every_cell,
    layer_of,
    packed_up,
    results,
    series,
    states_of,
)
from refusals import refused
from torch import nn

from gatedrnn import GRU, MGU, LSTMCell, MinGRU, MinLSTM, RecurrentLayer, register
from gatedrnn.equations import Diagonal, ScanEquations
from gatedrnn.layers import DropoutMasks, Wrapper
from gatedrnn.names import REGULARISERS


def test_a_bool_or_a_float_is_no_size():
    for make, names in {MinGRU: ("num_layers", "proj_size"), LSTMCell: ()}.items():
        for name, wrong in product(("input_size", "hidden_size", *names), (True, 1.0)):
            said = f"{name} should be of type int, got: {type(wrong).__name__}"
            refused(TypeError, said, make, **{"input_size": 3, "hidden_size": 4, name: wrong})


@pytest.mark.parametrize("rate", REGULARISERS)
def test_a_rate_out_of_range_is_refused_by_name_and_one_within_asks_for_masks(rate):
    for wrong in (-0.1, 1.0, NAN, True, False, "x"):
        refused(ValueError, f"{rate} should be a number in range", GRU, FEATURES, HIDDEN, **{rate: wrong})
    layer = GRU(FEATURES, HIDDEN, **{rate: np.float32(0.5)})
    assert getattr(layer, rate) == 0.5
    refused(ValueError, r"dropout_masks=layer\.draw_dropout_masks", layer.step, torch.randn(BATCH, FEATURES))


def test_what_a_cell_has_not_cannot_be_dropped_or_zoned_nor_step_in_two_directions_or_over_a_sequence():
    step = layer_of("mingru").step
    refused(ValueError, "one direction", layer_of("mingru", bidirectional=True).step, series(BATCH, FEATURES))
    refused(ValueError, r"\.step: Expected input to be 1D or 2D", step, series())
    refused(RuntimeError, "input_size", step, series(BATCH, FEATURES + 1))
    said = "weight_dropout drops recurrent weights, and mingru has none"
    refused(ValueError, said, MinGRU, FEATURES, HIDDEN, weight_dropout=0.1)
    for name in JOINT:
        refused(ValueError, f"those of {name} belong together; leave it at 0", layer_of, name, zoneout=0.1)


@pytest.mark.parametrize("make", [MinGRU, GRU, MGU], ids=lambda make: make.__name__)
def test_a_dropout_that_does_nothing_is_warned_of_on_the_line_that_asks_for_it(make):
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer") as caught:
        assert make(3, 4, dropout=np.float32(0.5)).dropout == 0.5
    assert caught[0].filename == __file__
    make(3, 4, num_layers=2, dropout=0.5)  # and not with two: a warning here is an error


def test_flags_of_another_dtype_or_shape_and_what_is_no_tensor_are_refused_by_name():
    layer, x = layer_of("mingru"), series()
    for flag, dtype in product(("mask", "resets"), (torch.float32, torch.int64)):
        said = rf"{flag} must be a tensor of bool, got {dtype}; take {flag}.bool\(\)"
        refused(ValueError, said, layer, x, **{flag: torch.ones(BATCH, STEPS, dtype=dtype)})
    for flag, shape in product(("mask", "resets"), ((STEPS, BATCH), (BATCH,))):
        refused(ValueError, f"{flag} must have the input's first axes", layer, x, **{flag: torch.ones(shape).bool()})
    refused(TypeError, "mask must be a tensor of bool, got list", layer, x, mask=[[True] * STEPS] * BATCH)
    refused(TypeError, "hx must be a tensor or a tuple of tensors, got NoneType in it", layer, x, (None, None))
    refused(TypeError, "input must be a tensor, got list", layer, [0.0])
    said = r"For unbatched 2-D input, .* should also be 2-D but got"
    refused(RuntimeError, said, layer, x[0], torch.tensor(1.0, dtype=torch.float64))
    three = (torch.zeros(1, BATCH, HIDDEN, dtype=x.dtype),) * 3
    for name, count in {"mingru": "1 tensor", "lstm": "2 tensors"}.items():
        refused(TypeError, f"hx must hold {count}, got 3", layer_of(name), x, three)


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")
def test_ids_are_said_to_need_an_embedding_and_complex_numbers_are_refused():
    layer, numbers = layer_of("mingru", dtype=torch.float32), torch.ones(BATCH, STEPS, FEATURES)
    refused(ValueError, "Ids need an embedding", layer, numbers.long())
    refused(ValueError, "compute with real numbers", layer, numbers.to(torch.complex64))
    refused(TypeError, "real numbers", MinGRU, FEATURES, HIDDEN, dtype=torch.complex64)
    refused(TypeError, "real numbers", layer.to(torch.complex64), numbers.to(torch.complex64))


DTYPES = [
    *product([torch.float32], (torch.float64, torch.float16, torch.bfloat16, torch.int64)),
    *product([torch.bfloat16], (torch.float64, torch.float16)), (torch.float64, torch.float32),
]  # fmt: skip


@pytest.mark.parametrize("name", ["lstm", "mingru"])
@pytest.mark.parametrize("dtype, state", DTYPES, ids=str)
def test_a_state_of_which_a_tensor_has_another_dtype_is_refused(name, dtype, state):
    """Torch refuses it too, where all of them have; of a pair it lets one through."""
    theirs = TORCH.get(name, nn.GRU)(FEATURES, HIDDEN, dtype=dtype)
    ours = layer_of(name, batch_first=False, dtype=dtype)
    x, good = series(STEPS, BATCH, FEATURES, dtype=dtype), torch.zeros(1, BATCH, HIDDEN, dtype=dtype)
    _, *wrong = product((good, good.to(state)), repeat=STATES[name])
    for rows, states in ((x, wrong), (x[:, 0], [tuple(s[:, 0] for s in hx) for hx in wrong])):
        calls = product((partial(ours, rows), partial(ours.step, rows[0])), states)
        for called, hx in ((partial(theirs, rows), states[-1]), *calls):
            refused(RuntimeError, None, called, packed_up(hx))


@every_cell
def test_a_bfloat16_layer_takes_a_state_in_float32_too_and_gives_that_of_torch_unless_asked_for_a_wide_one(name):
    layer, x = layer_of(name, dtype=torch.bfloat16), series(dtype=torch.bfloat16)
    states = states_of(layer, dtype=torch.bfloat16)
    for way, rows in ((layer, x), (layer.step, x[:, 0])):
        given = [packed_up(states), packed_up(tuple(s.float() for s in states))]
        narrow, wide = (results(*way(rows, hx)) for hx in given)
        assert all(torch.equal(narrow[what], value) and value.dtype == x.dtype for what, value in wide.items())
        assert {s.dtype for s in as_tuple(way(rows, given[0], wide_state=True)[1])} == {torch.float32}
    assert {s.dtype for s in as_tuple(layer.initial_state(2))} == {x.dtype}


@every_cell
def test_no_sequence_gives_an_empty_output_and_gradients_of_zero(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    for flagged in ((), ("mask",), ("resets",), ("mask", "resets")):
        flags = {flag: torch.ones(0, STEPS, dtype=torch.bool) for flag in flagged}
        output, last = layer(series(0, STEPS, FEATURES), **flags)
        assert output.shape == (0, STEPS, 2 * HIDDEN)
        assert all(state.shape == (4, 0, HIDDEN) for state in as_tuple(last))
        layer.zero_grad()
        output.sum().backward()
        assert all((p.grad == 0).all() for p in layer.parameters())


@pytest.mark.parametrize("make", [MinLSTM, MinGRU], ids=lambda make: make.__name__)
def test_log_space_refuses_what_has_no_logarithm(make):
    logs = partial(make, FEATURES, HIDDEN, log_space=True)
    refused(ValueError, "needs a positive state: activation 'g', got 'identity'", logs, activation="identity")
    for rate in ("zoneout", "state_dropout"):
        refused(ValueError, f"{rate} makes steps without a logarithm", logs, **{rate: 0.1})
    x, resets = torch.randn(STEPS, BATCH, FEATURES), torch.zeros(STEPS, BATCH, dtype=torch.bool)
    refused(ValueError, "log_space cannot reset a state", logs(input_dropout=0.1), x, resets=resets)


def test_log_space_refuses_a_state_that_is_not_positive():
    layer, padded = layer_of("mingru", log_space=True, num_layers=2), series()
    rows = nn.utils.rnn.pack_padded_sequence(padded, torch.tensor([7, 3, 1]), batch_first=True)
    for x, wrong in product((padded, rows), (0.0, -1.0, NAN)):
        hx = states_of(layer)[0].abs()
        layer(x, hx)
        hx[1, 2, 3] = wrong
        if wrong == 0.0:  # as a row that was masked all through hands it back
            layer(x, hx)
            hx.requires_grad_()
        refused(ValueError, "log_space needs hx None or positive", layer, x, hx)


def test_a_cell_of_ones_own_that_lacks_something_is_told_what():
    good = {"name": "own", "projections": ("gate",), "coefficients": lambda self, gate: (gate, gate)}
    states = "states must be a tuple of names that begins with 'h'"
    reads = "a gate that is none of its projections, or a "

    def with_parameter(self):
        self.scale = nn.Parameter(torch.ones(1))

    for members, error, said in (
        ({"name": None}, TypeError, "Own must say its name"),
        ({"__init__": with_parameter}, TypeError, r"Own\.scale is a tensor or a module, which nothing would train"),
        *(({"states": wrong}, TypeError, states) for wrong in (2, ("c",), ("h", "h"), ["h"], ("h", "2 c"))),
        ({"decay_gates": {"door": 1}}, ValueError, "decay_gates names 'door', which is none of its projections"),
        ({"decay_gates": {"gate": 2}}, ValueError, "the signs of decay_gates are 1"),
        ({"diagonals": ("bound",)}, TypeError, "diagonals must be a dictionary from names to what they read"),
        ({"diagonals": {"bound": Diagonal("door")}}, ValueError, reads),
        ({"diagonals": {"bound": Diagonal("gate", 1)}}, ValueError, reads),
        ({"learns_initial_state": True, "states": ("h", "c")}, ValueError, "a scan cell has one state, got"),
        ({}, None, ""),
    ):  # fmt: skip
        layer = type("Layer", (RecurrentLayer,), {"cell_class": type("Own", (ScanEquations,), good | members)})
        with pytest.raises(error, match=said) if error else nullcontext():
            assert layer(3, 4).cell.name == "own"
    in_blocks = type("Layer", (layer,), {"wrapper": staticmethod(lambda cell: Wrapper(blocks=2))})
    refused(ValueError, "hidden_size of own must be a multiple of 2, got 5", in_blocks, 3, 5)
    for members in ({}, {"cell_class": type("Own", (ScanEquations,), {"projections": ("gate",)})}):
        with pytest.raises(TypeError, match="must name its equations, cell_class, and these their name"):
            register(type("Layer", (RecurrentLayer,), members))


@pytest.mark.parametrize("name", ["mingru", "gru", *JOINT])
def test_masks_of_another_layer_or_of_a_whole_series_are_refused(name):
    chosen = {"zoneout": 0.0 if name in JOINT else 0.5, "input_dropout": 0.5, "state_dropout": 0.5}
    layer, other = layer_of(name, **chosen), layer_of(name, FEATURES + 1, HIDDEN, **chosen)
    x, own = series(), layer.draw_dropout_masks(BATCH, STEPS)
    zoned = tuple(torch.ones(BATCH, STEPS, HIDDEN + (name not in JOINT)).bool() for _ in range(STATES[name]))
    misfit = DropoutMasks((own.directions[0]._replace(zoneout=zoned),))
    said = r"must come from draw_dropout_masks\(3, 7\) of a layer of this shape"
    for wrong in (other.draw_dropout_masks(BATCH, STEPS), misfit):
        refused(ValueError, said, layer, x, dropout_masks=wrong)
    whole, said = [] if name in JOINT else [own], r"must come from draw_dropout_masks\(3, steps\)\.at\(t\)"
    for wrong in (*whole, other.draw_dropout_masks(BATCH, STEPS).at(0)):  # zoneout alone differs by steps
        refused(ValueError, said, layer.step, x[:, 0], dropout_masks=wrong)
    layer.step(x[:, 0], dropout_masks=own.at(0))
