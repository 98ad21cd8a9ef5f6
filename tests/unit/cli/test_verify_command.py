"""`gatedrnn verify` prints what it found, keeps it, and fails when a number is off."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from commands import call, exit_code, outcome

from gatedrnn.registry import CELLS
from gatedrnn.verify import length

CELL, SCAN_LENGTHS = "gru-input-gated", length.SCAN_LENGTHS


def shorten(patched: pytest.MonkeyPatch, folder: Path) -> None:
    """The error is measured at lengths that take no time; there is a folder to write in, and a wide terminal."""
    patched.chdir(folder)
    patched.setenv("COLUMNS", "200")
    patched.setattr(length, "SCAN_LENGTHS", (100, 10_000))


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    shorten(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """What is said of a cell, and what is kept."""
    said, folder = io.StringIO(), tmp_path_factory.mktemp("verified")
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(said):
        shorten(patched, folder)
        call("verify", CELL, "--dtypes", "float32", "--full", "--output", "elsewhere.json")
    return said.getvalue(), json.loads((folder / "elsewhere.json").read_text())


def test_what_holds_is_said_with_a_line_for_every_execution_mode_and_kept_as_json(verified):
    said, record = verified
    for part in ("whole sequence", "step by step", "packed, unsorted", "both directions, resets"):
        assert part in said
    assert CELL in said and "float32" in said and "bfloat16" not in said and "10,000" in said
    assert record["passed"] is True
    assert {row["dtype"] for row in record["rows"]} == {"float32"}
    assert all(row["error"] <= row["allowed"] for row in record["rows"])
    assert record["measured"]["environment"]["versions"]["torch"]


def test_a_broken_sign_fails_by_name_with_exit_code_1(tmp_path, monkeypatch, capsys):
    equations = CELLS[CELL].layer.cell_class
    whole = equations.coefficients
    monkeypatch.setattr(equations, "coefficients", lambda self, *gates: whole(self, *(-gate for gate in gates)))
    assert exit_code("verify", CELL, "--dtypes", "float64") == 1
    said = capsys.readouterr().out
    assert f"FAILS: {CELL} float64 reference, numpy oracle" in said.replace("\n", " ") and "checks FAIL" in said
    assert json.loads((tmp_path / "runs" / "verify.json").read_text())["passed"] is False


@pytest.mark.slow
def test_all_dtypes_and_options_of_a_cell_are_verified_at_a_million_steps(monkeypatch, capsys):
    monkeypatch.setattr(length, "SCAN_LENGTHS", SCAN_LENGTHS)
    call("verify", "mingru", "--output", "all.json")
    said = capsys.readouterr().out
    assert "mingru:activation=identity" in said and "bfloat16" in said and "1,000,000" in said


@pytest.mark.parametrize(
    "arguments, said", [("verify mingur", "did you mean 'mingru'"), ("verify --dtypes float16", "float16")]
)
def test_bad_usage_gets_one_line_and_exit_code_2(arguments, said, tmp_path, capsys):
    code, error = outcome(capsys, *arguments.split())
    assert code == 2 and error.startswith("gatedrnn: ") and error.count("\n") == 1 and said in error
    assert not (tmp_path / "runs").exists()
