"""The law that all others rest on: every execution mode of every cell gives what its own steps give, one by one.

`gatedrnn.verify.modes` lists the modes: whole, step by step, in chunks, packed, masked, reset, both directions, over
gaps, regularised; each with all gradients, on each backend. What it states is tested nowhere else in this folder.
"""

import pytest
import torch
from layer_laws import assert_same, flags_of, problem, run
from paths import representatives

from gatedrnn.kinds import kind_of
from gatedrnn.registry import CELLS
from gatedrnn.verify.contract import DTYPES, check_choice, choices_of
from gatedrnn.verify.definition import Sequences, run_by_definition
from gatedrnn.verify.modes import as_tuple, cases_for

CHOICES = {str(choice): choice for name in CELLS for choice in choices_of(name)}
FAST = representatives({word: choice.equations() for word, choice in CHOICES.items()})
"""One for each path through the code, of which the fast suite has every mode; of the others, one with most in it."""
OTHERS = [word for word in CHOICES if word not in FAST]


@pytest.fixture(scope="module", autouse=True)
def what_the_first_call_of_a_process_loads():
    CELLS["lstm"].layer(3, 4)(torch.randn(2, 2, 3))[0].sum().backward()


@pytest.mark.parametrize("word", [*FAST, *(pytest.param(word, marks=pytest.mark.slow) for word in OTHERS)])
def test_every_execution_mode_of_every_cell_gives_what_its_steps_give(word):
    assert_all_hold(CHOICES[word], "float64")


@pytest.mark.parametrize("word", OTHERS)
def test_a_masked_and_reset_sequence_in_both_directions_is_its_definition_on_every_backend(word):
    choice = CHOICES[word]
    how = {"batch_first": True, "bidirectional": True, "dtype": torch.float64, **choice.options}
    layer = CELLS[choice.name].layer(3, 12, 2, **how)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    given, flags = problem(layer), flags_of(("mask", "resets"))
    expected = run(layer, *given, lambda x, hx: run_by_definition(layer, Sequences(x, as_tuple(hx), **flags)))
    for backend in layer.backends:
        layer.backend = backend
        assert_same(run(layer, *given, **flags), expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float64"])
@pytest.mark.parametrize("word", CHOICES)
def test_every_execution_mode_of_every_cell_gives_it_in_fewer_digits(word, dtype):
    assert_all_hold(CHOICES[word], dtype)


def assert_all_hold(choice, dtype):
    rows = list(check_choice(choice, (dtype,)))
    assert [row for row in rows if not row.holds] == []
    cell, layer_class = choice.equations(), CELLS[choice.name].layer
    for backend in layer_class(3, 12, dtype=DTYPES[dtype], **choice.options).backends:
        # No kernel of a loop has zoneout inside, and torch's no normalisation: such a layer has no such backend.
        beyond = {"torch": ("regularised", "normalised")}.get(backend, ())
        if backend == "native" and kind_of(cell).facts(cell).iterates:
            beyond = ("regularised",)
        settings = cases_for(cell, layer_class.wrapper(cell), dtype)
        modes = {mode for s in settings for mode in s.modes if not mode.startswith(beyond)}
        assert modes <= {row.mode for row in rows if row.backend == backend and not row.informative}
    if dtype == "float64":
        assert {"numpy oracle", "numpy oracle, by differences"} <= {row.mode for row in rows}
    logarithms = choice.name in ("minlstm", "mingru") and not choice.options
    assert ("log_space" in {row.backend for row in rows}) == logarithms
