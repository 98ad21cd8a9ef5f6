"""What torch refuses is refused with torch's own class of error, and what is ours by name."""

import numpy as np
import pytest
import torch
from layer_laws import (
    BATCH,
    CELLS,
    DIAGONAL_CELLS,
    FEATURES,
    HIDDEN,
    INF,
    INPUT_GATED_CELLS,
    JOINT,
    NAN,
    PAIRS,
    STATES,
    STEPS,
    TORCH,
    UNPROJECTED,
    as_many,
    as_tuple,
    every_cell,
    every_zoned_cell,
    layer_of,
    packed_up,
    series,
    states_of,
)
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import GRU, MGU, MinGRU, MinLSTM, RecurrentLayer, registry
from gatedrnn.equations import Diagonal, ScanEquations
from gatedrnn.layers.dropout import REGULARISERS, DropoutMasks

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


@pytest.mark.parametrize(
    "name, proj_size", [("lstm", HIDDEN), ("lstm", HIDDEN + 1), *((name, 2) for name in UNPROJECTED)]
)
def test_a_projection_that_torch_refuses_is_refused(name, proj_size):
    expected = raised_by(lambda: TORCH.get(name, nn.GRU)(FEATURES, HIDDEN, proj_size=proj_size))
    assert raised_by(lambda: CELLS[name](FEATURES, HIDDEN, proj_size=proj_size)) is expected is ValueError


@pytest.mark.parametrize("name", [name for name in CELLS if name not in ("lstm", *UNPROJECTED)])
@pytest.mark.parametrize("proj_size", [HIDDEN, HIDDEN + 3])
def test_a_cell_of_ours_takes_a_projection_of_any_size(name, proj_size):
    layer = layer_of(name, num_layers=2, proj_size=proj_size)
    output, last = layer(series())
    assert output.shape[-1] == proj_size
    assert tuple(s.shape[-1] for s in as_tuple(last)) == layer.state_sizes()


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
    theirs_hx = (hx, hx) if hx is not None and name == "lstm" else hx
    assert raised_by(lambda: ours(x, as_many(name, hx))) is raised_by(lambda: theirs(x, theirs_hx))


@every_cell
def test_a_state_with_the_wrong_number_of_tensors_is_refused(name):
    layer = layer_of(name)
    state = torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)
    with pytest.raises(TypeError, match="hx must hold"):
        layer(series(), (state,) * (STATES[name] + 1))


@every_cell
@pytest.mark.parametrize("flag", ["mask", "resets"])
def test_flags_of_another_dtype_or_shape_are_refused_by_name(name, flag):
    layer = layer_of(name)
    for wrong in (torch.ones(BATCH, STEPS), torch.ones(BATCH, STEPS).long()):
        with pytest.raises(
            ValueError, match=rf"{flag} must be a tensor of bool, got {wrong.dtype}; take {flag}.bool\(\)"
        ):
            layer(series(), **{flag: wrong})
    for wrong in (torch.ones(STEPS, BATCH).bool(), torch.ones(BATCH).bool()):
        with pytest.raises(ValueError, match=f"{flag} must have the input's first axes"):
            layer(series(), **{flag: wrong})


@every_cell
def test_step_refuses_two_directions_and_a_whole_sequence(name):
    with pytest.raises(ValueError, match="one direction"):
        layer_of(name, bidirectional=True).step(series(BATCH, FEATURES))
    with pytest.raises(ValueError, match=r"\.step: Expected input to be 1D or 2D"):
        layer_of(name).step(series())
    with pytest.raises(RuntimeError, match="input_size"):
        layer_of(name).step(series(BATCH, FEATURES + 1))


@every_cell
@pytest.mark.parametrize("flagged", [(), ("mask",), ("resets",), ("mask", "resets")], ids=str)
def test_no_sequence_gives_an_empty_output_and_gradients_of_zero(name, flagged):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    flags = {flag: torch.ones(0, STEPS, dtype=torch.bool) for flag in flagged}
    output, last = layer(series(0, STEPS, FEATURES), **flags)
    assert output.shape == (0, STEPS, 2 * HIDDEN)
    assert all(state.shape == (4, 0, HIDDEN) for state in as_tuple(last))
    output.sum().backward()
    assert all((p.grad == 0).all() for p in layer.parameters())


@every_cell
@pytest.mark.parametrize("rate", REGULARISERS)
@pytest.mark.parametrize("wrong", [-0.1, 1.0, NAN, True, False, "x"])
def test_a_rate_out_of_range_is_refused_by_name(name, rate, wrong):
    with pytest.raises(ValueError, match=f"{rate} should be a number in range"):
        CELLS[name](FEATURES, HIDDEN, **{rate: wrong})


@pytest.mark.parametrize("name", (*INPUT_GATED_CELLS, *DIAGONAL_CELLS))
def test_weight_dropout_is_refused_where_there_is_no_recurrent_weight(name):
    with pytest.raises(ValueError, match="weight_dropout drops recurrent weights"):
        CELLS[name](FEATURES, HIDDEN, weight_dropout=0.1)


@every_cell
@pytest.mark.parametrize("unknown", ["nonlinearity", "hidden", "activations"])
def test_an_unknown_keyword_is_a_type_error_that_names_it(name, unknown):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{unknown}'"):
        CELLS[name](FEATURES, HIDDEN, **{unknown: "tanh"})


MINIMAL = {"activation", "log_space"}
OWN_OPTIONS = {"indrnn": {"activation"}, "gru": {"reset_after"}, "mgu": {"keep"}, "minlstm": MINIMAL, "mingru": MINIMAL}


@pytest.mark.parametrize(
    "name, option",
    [(n, o) for n in registry.CELLS for o in sorted(set().union(*OWN_OPTIONS.values()) - OWN_OPTIONS.get(n, set()))],
)
def test_an_option_of_one_cell_is_unknown_to_the_others(name, option):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        registry.CELLS[name].layer(FEATURES, HIDDEN, **{option: True})


@every_cell
@pytest.mark.parametrize("scheme", ["weight_init", "bias_init"])
def test_an_unknown_scheme_of_initial_values_is_refused(name, scheme):
    with pytest.raises(ValueError, match=f"{scheme} must be one of .* got 'kaiming'"):
        CELLS[name](FEATURES, HIDDEN, **{scheme: "kaiming"})


@pytest.mark.parametrize("layer", [MinLSTM, MinGRU])
def test_an_unknown_activation_is_refused(layer):
    with pytest.raises(ValueError, match="activation must be one of g, identity, got 'relu'"):
        layer(FEATURES, HIDDEN, activation="relu")


DTYPES = [
    (torch.float32, torch.float64), (torch.float32, torch.float16), (torch.float32, torch.bfloat16),
    (torch.float32, torch.int64), (torch.float64, torch.float32), (torch.bfloat16, torch.float64),
    (torch.bfloat16, torch.float16),
]  # fmt: skip


@every_cell
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("dtype, state", DTYPES, ids=str)
def test_a_state_of_another_dtype_raises_what_torch_raises(name, batched, dtype, state):
    x = series(STEPS, BATCH, FEATURES, dtype=dtype)
    hx = torch.zeros(1, BATCH, HIDDEN, dtype=state)
    x, hx = (x, hx) if batched else (x[:, 0], hx[:, 0])
    theirs = TORCH.get(name, nn.GRU)(FEATURES, HIDDEN, dtype=dtype)
    expected = raised_by(lambda: theirs(x, (hx, hx) if name == "lstm" else hx))
    ours = layer_of(name, batch_first=False, dtype=dtype)
    pair = as_many(name, hx)
    assert raised_by(lambda: ours(x, pair)) is expected is RuntimeError
    assert raised_by(lambda: ours.step(x[0], pair)) is expected


@pytest.mark.parametrize("name", PAIRS)
def test_one_state_of_a_pair_in_another_dtype_is_refused(name):
    h = torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)
    for pair in ((h, h.float()), (h.float(), h)):
        with pytest.raises(RuntimeError, match=r"hx must be torch\.float64"):
            layer_of(name)(series(), pair)


@pytest.mark.parametrize("name", [name for name in CELLS if name not in TORCH])
def test_a_bfloat16_layer_takes_its_state_in_float32_and_in_bfloat16(name):
    layer = layer_of(name, dtype=torch.bfloat16)
    x, states = series(dtype=torch.bfloat16), states_of(layer, dtype=torch.bfloat16)
    wider = tuple(s.float() for s in states)
    for way, rows in ((layer, x), (layer.step, x[:, 0])):
        (narrow, last), (wide, wide_last) = way(rows, packed_up(states)), way(rows, packed_up(wider))
        assert torch.equal(narrow, wide)
        for one, other in zip(as_tuple(last), as_tuple(wide_last), strict=True):
            assert one.dtype == other.dtype == torch.float32 and torch.equal(one, other)


@pytest.mark.parametrize("name", TORCH)
def test_a_bfloat16_lstm_or_gru_takes_its_state_in_bfloat16_alone_as_torch(name):
    layer, x = layer_of(name, dtype=torch.bfloat16), series(dtype=torch.bfloat16)
    states = states_of(layer, dtype=torch.bfloat16)
    assert {s.dtype for s in as_tuple(layer(x, packed_up(states))[1])} == {torch.bfloat16}
    with pytest.raises(RuntimeError, match=r"hx must be torch\.bfloat16"):
        layer(x, packed_up(tuple(s.float() for s in states)))


@every_cell
def test_dropout_with_one_layer_warns_as_torch_does(name):
    for make in (TORCH.get(name, nn.GRU), CELLS[name]):
        with pytest.warns(UserWarning, match=r"dropout.*num_layers"):
            assert make(FEATURES, HIDDEN, dropout=0.5).dropout == 0.5
        make(FEATURES, HIDDEN, num_layers=2, dropout=0.5)  # and not with two: a warning here is an error


@every_cell
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
@pytest.mark.parametrize("flags", [(), ("resets",), ("mask",), ("mask", "resets")], ids=str)
def test_a_number_that_is_not_finite_reaches_only_the_later_steps_of_its_row(name, wrong, flags):
    """Row 1 is struck at step 2. A reset at step 5 ends it; the other rows and the steps before never hear of it."""
    layer = layer_of(name, num_layers=2)
    given = {flag: torch.zeros(BATCH, STEPS, dtype=torch.bool) for flag in flags}
    if "resets" in given:
        given["resets"][1, 5] = given["resets"][0, 3] = True
    if "mask" in given:
        given["mask"][:] = True
        given["mask"][1, 3] = given["mask"][2, :2] = False
    x, states = series(), packed_up(states_of(layer))
    struck = x.clone()
    struck[1, 2] = wrong
    clean, hurt = (v.requires_grad_() for v in (x, struck))
    (expected, _), (output, last) = layer(clean, states, **given), layer(hurt, states, **given)
    reached = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    reached[1, 2 : 5 if "resets" in given else STEPS] = True
    assert_equal_within(output[~reached], expected[~reached], torch.float64, "output")
    if wrong != wrong:
        real = reached & given.get("mask", torch.tensor(True))
        assert output[real].isnan().all()
    others = [0, 2]
    for state in as_tuple(last):
        assert state[:, others].isfinite().all()
    # Of the rows that were not struck the gradients are clean too.
    wanted, got = (torch.autograd.grad(y[others].sum(), v)[0] for y, v in ((expected, clean), (output, hurt)))
    assert_equal_within(got[others], wanted[others], torch.float64, "gradient", gradient=True)


@every_cell
@pytest.mark.parametrize("wrong", [NAN, INF])
@pytest.mark.parametrize("flags", [False, True])
def test_a_state_that_is_not_finite_reaches_only_its_row_up_to_a_reset(name, wrong, flags):
    layer = layer_of(name)
    resets = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    resets[1, 4] = True
    given = {"resets": resets} if flags else {}
    x, states = series(), states_of(layer)
    expected, _ = layer(x, packed_up(states), **given)
    struck = tuple(s.clone() for s in states)
    for state in struck:
        state[:, 1] = wrong
    output, _ = layer(x, packed_up(struck), **given)
    assert_equal_within(output[[0, 2]], expected[[0, 2]], torch.float64, "the other rows")
    if flags:
        assert_equal_within(output[1, 4:], expected[1, 4:], torch.float64, "after the reset")
    if wrong != wrong:
        assert output[1, : 4 if flags else STEPS].isnan().all()


DROPS = [{"zoneout": 0.2}, {"input_dropout": 0.2}, {"state_dropout": 0.2}]


@every_zoned_cell
@pytest.mark.parametrize("drops", DROPS, ids=str)
def test_a_step_in_training_needs_the_masks_of_the_whole(name, drops):
    layer = layer_of(name, **drops)
    x = series(BATCH, FEATURES)
    with pytest.raises(ValueError, match=r"dropout_masks=layer\.draw_dropout_masks"):
        layer.step(x)
    layer.step(x, dropout_masks=layer.draw_dropout_masks(BATCH, 1).at(0))
    layer.eval().step(x)


log_space_cells = pytest.mark.parametrize("name", ["minlstm", "mingru"])


@log_space_cells
def test_log_space_refuses_what_has_no_logarithm(name):
    with pytest.raises(ValueError, match="log_space needs a positive state: activation 'g', got 'identity'"):
        registry.CELLS[name].layer(FEATURES, HIDDEN, log_space=True, activation="identity")
    for rate in ("zoneout", "state_dropout"):
        with pytest.raises(ValueError, match=f"{rate} makes steps without a logarithm"):
            registry.CELLS[name].layer(FEATURES, HIDDEN, log_space=True, **{rate: 0.1})
    layer = layer_of(name, log_space=True, input_dropout=0.1)
    with pytest.raises(ValueError, match="log_space cannot reset a state"):
        layer(series(), resets=torch.zeros(BATCH, STEPS, dtype=torch.bool))


@log_space_cells
@pytest.mark.parametrize("wrong", [0.0, -1.0, NAN])
@pytest.mark.parametrize("packed", [False, True])
def test_log_space_refuses_a_state_that_is_not_positive(name, wrong, packed):
    layer = layer_of(name, log_space=True, num_layers=2)
    hx = states_of(layer)[0].abs()
    x = series()
    if packed:
        x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 3, 1]), batch_first=True)
    layer(x, hx)
    hx[1, 2, 3] = wrong
    if wrong == 0.0:  # as a row that was masked all through hands it back
        layer(x, hx)
        hx.requires_grad_()
    with pytest.raises(ValueError, match="log_space needs hx None or positive"):
        layer(x, hx)


@every_cell
def test_what_is_no_tensor_is_named(name):
    layer, x = layer_of(name), series()
    with pytest.raises(TypeError, match="mask must be a tensor of bool, got list"):
        layer(x, mask=[[True] * STEPS] * BATCH)
    with pytest.raises(TypeError, match="hx must be a tensor or a tuple of tensors, got NoneType in it"):
        layer(x, (None, None))
    with pytest.raises(TypeError, match="input must be a tensor, got list"):
        layer([0.0])
    scalar = torch.tensor(1.0, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"For unbatched 2-D input, .* should also be 2-D but got"):
        layer(x[0], packed_up((scalar,) * len(layer.cell.states)))


@pytest.mark.parametrize("make", [MinGRU, GRU, MGU], ids=lambda make: make.__name__)
def test_a_dropout_that_does_nothing_is_warned_of_on_the_line_that_asks_for_it(make):
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer") as caught:
        make(3, 4, dropout=np.float32(0.5))
    assert caught[0].filename == __file__


def test_a_cell_of_ones_own_that_lacks_something_is_told_what():
    class Nameless(ScanEquations):
        projections = ("gate",)

        def coefficients(self, gate):
            return gate, gate

    class Layer(RecurrentLayer):
        cell_class = Nameless

    with pytest.raises(TypeError, match="Nameless must say its name"):
        Layer(3, 4)
    Nameless.name = "nameless"
    for states in (2, ("c",), ("h", "h"), ["h"], ("h", "2 c")):
        Nameless.states = states
        with pytest.raises(TypeError, match="states must be a tuple of names that begins with 'h'"):
            Layer(3, 4)
    Nameless.states, Nameless.heads = ("h",), 2
    with pytest.raises(ValueError, match="block_size 1 must be a multiple of heads 2"):
        Layer(3, 4)
    Nameless.heads, Nameless.decay_gates = 1, {"door": 1}
    with pytest.raises(ValueError, match="decay_gates names 'door', which is none of its projections"):
        Layer(3, 4)
    Nameless.decay_gates, Nameless.diagonals = {"gate": 1}, ("bound",)
    with pytest.raises(TypeError, match=r"diagonals must be a dictionary from names to what they read"):
        Layer(3, 4)
    for wrong in (Diagonal("door"), Diagonal("gate", 1)):
        Nameless.diagonals = {"bound": wrong}
        with pytest.raises(ValueError, match="a gate that is none of its projections, or a state that is not there"):
            Layer(3, 4)
    Nameless.diagonals = {}
    assert Layer(3, 4).cell.name == "nameless"


@pytest.mark.parametrize("name", JOINT)
def test_zoneout_of_states_that_belong_together_is_refused(name):
    with pytest.raises(ValueError, match=f"those of {name} belong together; leave it at 0"):
        layer_of(name, zoneout=0.1)
    layer = layer_of(name, state_dropout=0.5)
    masks = layer.draw_dropout_masks(BATCH, STEPS)
    zoneout = tuple(torch.ones(BATCH, STEPS, HIDDEN, dtype=torch.bool) for _ in range(STATES[name]))
    with pytest.raises(ValueError, match="dropout_masks must come from"):
        layer(series(), dropout_masks=DropoutMasks((masks.directions[0]._replace(zoneout=zoneout),)))


@every_cell
def test_masks_of_another_layer_or_of_a_whole_series_is_refused(name):
    chosen = {"zoneout": 0.0 if name in JOINT else 0.5, "input_dropout": 0.5, "state_dropout": 0.5}
    layer, other = layer_of(name, **chosen), layer_of(name, FEATURES + 1, HIDDEN, **chosen)
    x = series()
    with pytest.raises(ValueError, match=r"must come from draw_dropout_masks\(3, 7\) of a layer of this shape"):
        layer(x, dropout_masks=other.draw_dropout_masks(BATCH, STEPS))
    whole = [] if name in JOINT else [layer.draw_dropout_masks(BATCH, STEPS)]  # zoneout alone differs by steps
    for wrong in (*whole, other.draw_dropout_masks(BATCH, STEPS).at(0)):
        with pytest.raises(ValueError, match=r"dropout_masks must come from draw_dropout_masks\(3, steps\)\.at\(t\)"):
            layer.step(x[:, 0], dropout_masks=wrong)
    layer.step(x[:, 0], dropout_masks=layer.draw_dropout_masks(BATCH, STEPS).at(0))
