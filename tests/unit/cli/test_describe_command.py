"""`gatedrnn describe` says what the design and the papers say."""

import pytest
from commands import outcome, printed

from gatedrnn.inspect.describe import describe
from gatedrnn.registry import CELLS


def said_by(capsys, *arguments):
    return " ".join(printed(capsys, "describe", *arguments).split())


@pytest.mark.parametrize(
    "arguments, numbers",
    [
        ("lstm --input-size 10 --hidden-size 32", ("5,632", "5,504 with one bias a gate")),
        ("minlstm --input-size 10 --hidden-size 32 --without-bias --proj-size 10", ("parameters 1,280",)),
        ("mingru --input-size 10 --hidden-size 32 --without-bias --proj-size 10", ("parameters 960",)),
        ("gru --input-size 50 --hidden-size 100", ("45,600", "45,300 with one bias a gate")),
        ("gru:reset_after=false --input-size 50 --hidden-size 100", ("parameters 45,300", "reset_after=False")),
        ("lstm-peephole --input-size 3 --hidden-size 4", ("input weights 48, recurrent weights 64, peepholes 12",)),
        ("lstm --num-layers 2 --bidirectional --hidden-size 8 --input-size 3", ("state 64 elements",)),
    ],
)
def test_counts_are_those_of_the_design(arguments, numbers, capsys):
    said = said_by(capsys, *arguments.split())
    for number in numbers:
        assert number in said


@pytest.mark.parametrize(
    "cell, form, ratio",
    [("mingru", "2/(3(1+a))", lambda a: 2 / (3 * (1 + a))), ("minlstm", "3/(4(1+a))", lambda a: 3 / (4 * (1 + a)))],
)
def test_ratios_of_gate_weights_are_the_papers(cell, form, ratio, capsys):
    for expansion in (1, 2, 4):
        said = said_by(capsys, cell, "--input-size", 12, "--expansion", expansion)
        assert f"{ratio(expansion):.4f} = {form} at a = hidden/input = {expansion}" in said


def test_every_cell_is_described_with_its_equations_as_they_are_in_its_class_and_what_runs_it(capsys):
    page = printed(capsys, "describe")
    said = " ".join(page.split())
    for name, record in CELLS.items():
        layer = record.layer(64, 128)
        found = describe(layer)
        assert " ".join(found.equations.split()) in said and found.training.name in said, name
        assert found.total == sum(p.numel() for p in layer.parameters())
    (line,) = (line for line in CELLS["gru"].layer.cell_class.__doc__.splitlines() if "Cho et al." in line)
    assert line.strip() in page


@pytest.mark.parametrize(
    "arguments, reason",
    [
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
    ],
)
def test_what_runs_a_cell_is_said_with_the_reason_and_its_kernel_is_shown(arguments, reason, capsys):
    assert reason in said_by(capsys, *arguments.split())


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("lstn", "did you mean 'lstm'"),
        ("gru --proj-size 3", "gru: proj_size argument is only supported for LSTM"),
        ("mingru --weight-dropout 0.5", "mingru: weight_dropout drops recurrent weights"),
        ("lstm --zoneout 1", "lstm: zoneout should be a number in range [0, 1)"),
        ("lstm --hidden-size 8 --expansion 2", "give one"),
        ("lstm --hidden-size 0", "must be at least 1"),
        ("lstm --expansion -1", "must be above 0"),
        ("gru mgu:reset_after=false", "there is no option of mgu 'reset_after'"),
        ("lstm --hidden-size 1000000", "GiB, and this machine has"),
        ("lstm --hidden-size 10000000000000", "more parameters than can be counted in 64 bits"),
    ],
)
def test_bad_usage_gets_exit_code_2_and_says_why(arguments, said, capsys):
    code, error = outcome(capsys, "describe", *arguments.split())
    assert code == 2 and error.startswith("gatedrnn: ") and said in " ".join(error.split())


def test_without_names_a_cell_that_cannot_is_left_out_by_name_and_the_others_are_shown(capsys):
    said = said_by(capsys, "--weight-dropout", 0.5)
    assert "left out: mingru: weight_dropout drops recurrent weights" in said
    assert "gatedrnn.MGU(" in said and "gatedrnn.MinGRU(" not in said
