"""`verify` holds for a cell of the user's own, finds a wrong sign, and shows what it found.

That it holds for every cell, and looks at everything that it says it looks at, is in laws/test_equivalence.py.
"""

import json

import pytest
import torch
from layer_laws import Own, Signed

from gatedrnn.layers.wrappers import PLAIN
from gatedrnn.ops import choose_backend
from gatedrnn.registry import CELLS, CellRecord
from gatedrnn.terminal import Console
from gatedrnn.verify import contract, length
from gatedrnn.verify.contract import Check, as_log_space
from gatedrnn.verify.decay import wrong_change
from gatedrnn.verify.modes import CASES, cases_for
from gatedrnn.verify.report import as_record, print_tables, verdict, verify
from gatedrnn.verify.tolerances import ROUNDED, TOLERANCES, allowed_error, largest_error


class WrongSign(Signed):
    """A cell that no paper has, of a decay of either sign, declared the other way round."""

    name = "wrong-sign"
    decay_gates = {"keep": -1}


def test_a_cell_of_ones_own_is_held_to_its_step_loop_and_a_decay_gate_of_the_wrong_sign_is_named(monkeypatch, capsys):
    monkeypatch.setitem(CELLS, "signed", CellRecord(Own))
    monkeypatch.setitem(CELLS, "wrong-sign", CellRecord(type("WrongSignLayer", (Own,), {"cell_class": WrongSign})))
    rows = list(verify(["signed"], ["float64"]))
    modes = {mode for setting in cases_for(Signed(), PLAIN, "float64") for mode in setting.modes}
    by_definition = {row.mode for row in rows if row.backend != "auto"}
    assert by_definition == modes | {"larger bias of keep"} and all(row.holds for row in rows)
    assert {"in two chunks", "strides", "pickle"} <= {row.mode for row in rows}
    rows = list(verify(["wrong-sign"], ["float64"]))
    assert [row.mode for row in rows if not row.holds] == ["larger bias of keep"]
    print_tables(rows, Console(width=400), full=False)
    said = "wrong-sign declares decay_gates['keep'] = -1, so a larger bias of that gate must keep less of the state"
    assert said in capsys.readouterr().out


def test_a_usual_terminal_shows_the_names_and_the_errors_of_all_dtypes(capsys):
    rows = [
        Check("mingru", dtype, "log_space" if informative else "native", "whole", "output", *errors, "", informative)
        for dtype, errors in {"float64": (3e-15, 3e-13), "float32": (2e-6, 1e-5), "bfloat16": (1e-2, 5e-2)}.items()
        for informative in (False, True)
    ]
    rows.append(rows[0]._replace(cell="wrong", error=1.0))
    print_tables(rows, Console(width=80), full=False)
    said = capsys.readouterr().out
    shown = ("mingru", "native", "log_space", "(3e-15/3e-13)", "2e-06/1e-05", "1e-02/5e-02", "wrong", "1e+00/3e-13")
    assert [text for text in shown if text not in said] == [] and "[" not in said


@pytest.mark.parametrize("name", [name for name in CELLS if name not in ("indrnn", "lru")])  # which have no gate
def test_the_declared_sign_of_every_decay_gate_holds_and_the_other_does_not(name):
    layer = CELLS[name].layer(3, 8, dtype=torch.float64)
    assert layer.cell.decay_gates
    for gate, sign in layer.cell.decay_gates.items():
        assert wrong_change(layer, gate, sign) <= TOLERANCES[torch.float64].gradient < wrong_change(layer, gate, -sign)


def test_a_cell_is_checked_with_each_of_its_variants_and_with_options_that_are_given_alone(monkeypatch):
    monkeypatch.setattr(contract, "cases_for", lambda *_: CASES[:1])
    variant = "gru:reset_after=false"
    for word, checked in (("gru", {"gru", variant}), (variant, {variant})):
        rows = list(verify([word], ["float64"]))
        assert {row.cell for row in rows} == checked and all(row.holds for row in rows)


@pytest.mark.parametrize(
    "longest, loop, more", [(10_000, 300, 100), pytest.param(1_000_000, 10_000, 1000, marks=pytest.mark.slow)]
)
def test_the_error_does_not_grow_with_the_length_except_in_log_space(longest, loop, more, monkeypatch):
    monkeypatch.setattr(length, "_SCAN_LENGTHS", (100, longest))
    monkeypatch.setattr(length, "_LOOP_LENGTHS", (100, loop))
    errors = {(row.cell, row.backend, row.mode): row for row in length.check_lengths(("gru", "mgu", "mingru"))}
    assert all(row.holds for row in errors.values())
    scan, backend, last = choose_backend("cpu").backend, CELLS["mingru"].layer(3, 4).backends[-1], f"T = {longest:,}"
    assert errors["linear_scan", scan, last].error < 1e-6 and errors["mingru", backend, last].error < 1e-6
    assert errors["mingru", "log_space", last].error > more * errors["mingru", backend, last].error
    assert {"T = 100", f"T = {loop:,}"} == {mode for cell, _, mode in errors if cell == "mgu"}


def test_a_nan_and_an_infinity_elsewhere_are_infinitely_far_off_and_what_is_allowed_follows_the_largest_value():
    one, nan, infinite = torch.ones(2), torch.tensor([1.0, torch.nan]), torch.tensor([1.0, torch.inf])
    assert largest_error(nan, one) == largest_error(one, nan) == largest_error(nan, nan) == torch.inf
    assert largest_error(infinite, infinite) == 0 and largest_error(infinite, -infinite) == torch.inf
    assert largest_error(one, torch.tensor([1.0, 1.5])) == 0.5
    with pytest.raises(ValueError, match="shape"):
        largest_error(one, torch.ones(3))
    for dtype, tolerance in TOLERANCES.items():
        assert allowed_error(torch.tensor([0.1]), dtype) == tolerance.output
        assert allowed_error(torch.tensor([0.0, -4.0, torch.inf]), dtype, gradient=True) == 4 * tolerance.gradient
    assert TOLERANCES[ROUNDED].output <= 2**-4


def test_a_row_beyond_what_is_allowed_fails_unless_it_is_only_shown():
    row = Check("mingru", "float32", "cpu", "whole sequence", "output", 2e-6, 1e-6)
    assert not row.holds and verdict([row]) == "1 of 1 checks FAIL"
    shown = as_log_space(row, 10)
    assert shown.holds and shown.allowed > row.allowed and verdict([shown]) == "all 0 checks hold"
    nothing = row._replace(error=float("nan"))
    assert not nothing.holds
    record = json.loads(json.dumps(as_record([row, shown])))
    assert record["passed"] is False and [line["holds"] for line in record["rows"]] == [False, True]


def test_an_unknown_cell_or_dtype_is_refused_with_the_known_ones():
    for cell, dtype, message in (("lstn", "float64", "mean 'lstm'"), ("gru", "int8", "dtype must be one of")):
        with pytest.raises(ValueError, match=message):
            list(verify([cell], [dtype]))
