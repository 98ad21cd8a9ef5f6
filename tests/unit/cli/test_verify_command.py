"""`gatedrnn verify` prints what it found, keeps it, and fails when a number is off."""

import json

import pytest

from gatedrnn.cells import MinGRUEquations
from gatedrnn.cli.app import main


def outcome(*arguments):
    try:
        main(arguments)
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)


def test_what_holds_is_said_in_a_table_and_kept_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert outcome("verify", "mingru", "--dtypes", "float64", "float32") == 0
    said = capsys.readouterr().out
    assert "mingru:activation=identity" in said and "float32" in said and "bfloat16" not in said and "1,000,000" in said
    record = json.loads((tmp_path / "runs" / "verify.json").read_text())
    assert record["passed"] is True
    assert {row["dtype"] for row in record["rows"]} == {"float64", "float32"}
    assert all(row["error"] <= row["allowed"] for row in record["rows"])
    assert record["measured"]["environment"]["versions"]["torch"]


def test_every_way_of_running_has_its_line_in_full(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert outcome("verify", "gru-input-gated", "--dtypes", "float64", "--full", "--output", "elsewhere.json") == 0
    said = capsys.readouterr().out
    for way in ("whole sequence", "step by step", "packed, unsorted", "both directions, resets", "numpy oracle"):
        assert way in said
    assert (tmp_path / "elsewhere.json").exists()


def test_a_broken_sign_fails_by_name_with_exit_code_1(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole = MinGRUEquations.coefficients
    monkeypatch.setattr(MinGRUEquations, "coefficients", lambda self, v, z: whole(self, v, -z))
    assert outcome("verify", "mingru", "--dtypes", "float64") == 1
    said = capsys.readouterr().out
    assert "FAILS: mingru float64 reference, numpy oracle" in said.replace("\n", " ") and "checks FAIL" in said
    assert json.loads((tmp_path / "runs" / "verify.json").read_text())["passed"] is False


@pytest.mark.parametrize(
    "arguments, said",
    [("verify mingur", "did you mean 'mingru'"), ("verify --dtypes float16", "float16"), ("verify --ful", "--full")],
)
def test_bad_usage_gets_one_line_and_exit_code_2(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert outcome(*arguments.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("gatedrnn: ") and error.count("\n") == 1 and said in error
    assert not (tmp_path / "runs").exists()
