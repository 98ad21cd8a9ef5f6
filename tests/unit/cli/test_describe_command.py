"""`gatedrnn describe` says what the design and the papers say; `gatedrnn verify` prints what it found, keeps it, and
fails when a number is off.
"""

import json
from pathlib import Path

import pytest
from commands import call, exit_code, printed

from gatedrnn.inspect.describe import describe
from gatedrnn.registry import CELLS
from gatedrnn.verify import length


def said_by(capsys, *arguments):
    return " ".join(printed(capsys, "describe", *arguments).split())


@pytest.mark.parametrize("arguments, said", [
    ("lstm --input-size 10 --hidden-size 32", "5,632"),
    ("lstm --input-size 10 --hidden-size 32", "5,504 with one bias a gate"),
    ("minlstm --input-size 10 --hidden-size 32 --without-bias --proj-size 10", "parameters 1,280"),
    ("mingru --input-size 10 --hidden-size 32 --without-bias --proj-size 10", "parameters 960"),
    ("gru --input-size 50 --hidden-size 100", "45,600"),
    ("gru --input-size 50 --hidden-size 100", "45,300 with one bias a gate"),
    ("gru:reset_after=false --input-size 50 --hidden-size 100", "parameters 45,300"),
    ("gru:reset_after=false --input-size 50 --hidden-size 100", "reset_after=False"),
    ("lstm-peephole --input-size 3 --hidden-size 4", "input weights 48, recurrent weights 64, peepholes 12"),
    ("lstm --num-layers 2 --bidirectional --hidden-size 8 --input-size 3", "state 64 elements"),
    ("lstm --weight-dropout 0.1 --input-dropout 0.1", "runs on torch's fused kernel"),
    ("lstm --zoneout 0.1", "runs on the step loop in torch: zoneout"),
    ("gru --layer-norm", "runs on one kernel for all steps, backend native: layer_norm"),
    ("lstm --state-dropout 0.1", "in training one kernel for all steps, backend native: state_dropout"),
    ("lstm --state-dropout 0.1", "in evaluation torch's fused kernel"),
    ("mingru", "runs on one kernel for gates and scan, backend native"),
    ("mingru --zoneout 0.1", "runs on one linear_scan, backend native"),
    ("mingru --kernel", "def mingru_forward("),
    ("lru --kernel", "no kernel is generated: one kernel scans the blocks of every such cell"),
    ("gru-d --kernel", "mixes or picks channels"),
    ("--weight-dropout 0.5", "left out: mingru: weight_dropout drops recurrent weights"),
    ("--weight-dropout 0.5", "gatedrnn.MGU("),
])  # fmt: skip
def test_counts_are_those_of_the_design_and_what_runs_a_cell_has_a_reason(arguments, said, capsys):
    assert said in said_by(capsys, *arguments.split())


def test_ratios_of_gate_weights_are_the_papers(capsys):
    for cell, part, form in (("mingru", 2 / 3, "2/(3(1+a))"), ("minlstm", 3 / 4, "3/(4(1+a))")):
        for expansion in (1, 2, 4):
            said = said_by(capsys, cell, "--input-size", 12, "--expansion", expansion)
            ratio = f"{part / (1 + expansion):.4f} = {form} at a = hidden/input = {expansion}"
            assert ratio in said


def test_every_cell_is_described_with_its_equations_as_they_are_in_its_class_and_what_runs_it(capsys):
    page = printed(capsys, "describe")
    said = " ".join(page.split())
    for name, record in CELLS.items():
        layer = record.layer(64, 128)
        found = describe(layer)
        assert " ".join(found.equations.split()) in said and found.training.name in said, name
        assert found.total == sum(p.numel() for p in layer.parameters())
    (line,) = (line for line in CELLS["gru"].layer.__doc__.splitlines() if "reset_after=False: Cho" in line)
    assert line.strip() in page


CELL, _SCAN_LENGTHS = "gru-input-gated", length._SCAN_LENGTHS


@pytest.fixture(autouse=True, scope="module")
def short():
    """The error is measured at lengths that take no time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(length, "_SCAN_LENGTHS", (100, 10_000))
        yield


@pytest.fixture
def verified(capsys):
    """The output on a cell, and the record that is kept."""
    said = printed(capsys, "verify", CELL, "--dtypes", "float32", "--full", "--output", "elsewhere.json")
    return said, json.loads(Path("elsewhere.json").read_text())


def test_what_holds_is_said_with_a_line_for_every_execution_mode_and_kept_as_json(verified):
    said, record = verified
    for part in ("whole sequence", "step by step", "packed, unsorted", "both directions, resets"):
        assert part in said
    assert CELL in said and "float32" in said and "bfloat16" not in said and "10,000" in said
    assert record["passed"] is True and {row["dtype"] for row in record["rows"]} == {"float32"}
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
    monkeypatch.setattr(length, "_SCAN_LENGTHS", _SCAN_LENGTHS)
    call("verify", "mingru", "--output", "all.json")
    said = capsys.readouterr().out
    assert "mingru:activation=identity" in said and "bfloat16" in said and "1,000,000" in said


def test_a_recipe_is_printed_with_what_the_data_decide_and_why(tmp_path, capsys):
    file = tmp_path / "texts.csv"
    file.write_text(
        "text,label\n" + "".join(f"film {n} was {'fine' if n % 2 else 'poor'},{n % 2}\n" for n in range(200))
    )
    said = said_by(capsys, "--recipe", file)
    assert "--total-steps │ 64 │ 5 · √(texts · classes / 2), of 160 texts and 2" in said
    assert "no rows are set apart" in said and "--epochs" not in said, "what a run does, and nothing besides"
    file.write_text("month,y\n" + "".join(f"{1990 + n // 12}-{n % 12 + 1:02d},{n % 12}.{n}\n" for n in range(80)))
    said = said_by(capsys, "--recipe", file)
    assert "--season │ 12 │" in said and "--horizon │ 12 │ a season" in said and "--refit │ true │ held back" in said


def test_a_table_is_described_by_its_dialect_its_roles_and_its_grid(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{day:02}.01.2024;{day % 7},5\n" for day in range(1, 31))
    (tmp_path / "sales.csv").write_text(f"Verkäufe\nDatum;Umsatz\n{rows}", encoding="cp1252")
    said = said_by(capsys, "sales.csv")
    assert "Dialect: cp1252, ';' between fields, left out above the table: 1." in said
    assert "Columns of sales.csv: time (dates as DD.MM.YYYY) 'Datum'; series 'Umsatz'." in said
    assert "Grid: D, 1 series of 30 steps, 01.01.2024 to 30.01.2024." in said


def test_a_question_on_a_table_that_is_described_is_answered_by_describe_with_the_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(
        "ds;y\n" + "".join(f"2024-01-{day:02};{day % 3 * 400 or '1.200'}\n" for day in range(1, 31))
    )
    assert exit_code("describe", "a.csv") == 2
    assert "  gatedrnn describe a.csv --decimal ,\n" in capsys.readouterr().err
    assert exit_code("describe", "a.csv", "--decimal", ",") == 0
    assert "Grid: D, 1 series of 30 steps" in capsys.readouterr().out
