"""`gatedrnn describe` says what the design and the papers say."""

import pytest

from gatedrnn.cells import GRUEquations
from gatedrnn.cli.app import main
from gatedrnn.inspect.describe import describe
from gatedrnn.registry import CELLS


def said_by(capsys, *arguments):
    try:
        main(["describe", *arguments])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, " ".join((captured.out or captured.err).split())


@pytest.mark.parametrize(
    "arguments, numbers",
    [
        ("lstm --input-size 10 --hidden-size 32", ("5,632", "5,504 with one bias a gate")),
        ("gru:reset_after=false --input-size 10 --hidden-size 32", ("parameters 4,128",)),
        ("minlstm --input-size 10 --hidden-size 32 --without-bias --proj-size 10", ("parameters 1,280",)),
        ("mingru --input-size 10 --hidden-size 32 --without-bias --proj-size 10", ("parameters 960",)),
        ("gru --input-size 50 --hidden-size 100", ("45,600", "45,300 with one bias a gate")),
        ("gru:reset_after=false --input-size 50 --hidden-size 100", ("parameters 45,300",)),
        ("mgu --input-size 50 --hidden-size 100", ("parameters 30,200",)),
        ("lstm-peephole --input-size 3 --hidden-size 4", ("input weights 48, recurrent weights 64, peepholes 12",)),
        ("lstm --num-layers 2 --bidirectional --hidden-size 8 --input-size 3", ("state 64 elements",)),
    ],
)
def test_counts_are_those_of_the_design(arguments, numbers, capsys):
    code, said = said_by(capsys, *arguments.split())
    assert code == 0
    for number in numbers:
        assert number in said


@pytest.mark.parametrize("expansion", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "cell, form, ratio",
    [("mingru", "2/(3(1+a))", lambda a: 2 / (3 * (1 + a))), ("minlstm", "3/(4(1+a))", lambda a: 3 / (4 * (1 + a)))],
)
def test_ratios_of_gate_weights_are_the_papers(cell, form, ratio, expansion, capsys):
    _, said = said_by(capsys, cell, "--input-size", "12", "--expansion", str(expansion))
    assert f"{ratio(expansion):.4f} = {form} at a = hidden/input = {expansion}" in said


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_is_described_with_its_equations_and_what_runs_it(name, capsys):
    _, said = said_by(capsys, name)
    found = describe(CELLS[name].layer(64, 128))
    assert " ".join(found.equations.split()) in said and found.training.name in said
    assert found.total == sum(p.numel() for p in CELLS[name].layer(64, 128).parameters())


def test_an_equation_is_printed_as_it_stands_in_its_class(capsys):
    with pytest.raises(SystemExit):
        main(["describe", "gru"])
    line = next(line for line in GRUEquations.__doc__.splitlines() if "Cho et al." in line)
    assert line.strip() in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ("lstm", "runs on torch's fused kernel"),
        ("lstm --weight-dropout 0.1 --input-dropout 0.1", "runs on torch's fused kernel"),
        ("lstm --zoneout 0.1", "runs on the step loop in torch: zoneout"),
        ("gru --layer-norm", "runs on one kernel for all steps, backend native: layer_norm"),
        ("lstm --state-dropout 0.1", "in training one kernel for all steps, backend native: state_dropout"),
        ("lstm --state-dropout 0.1", "in evaluation torch's fused kernel"),
        ("gru", "runs on one kernel for all steps, backend native"),
        ("mgu --zoneout 0.1", "runs on the step loop in torch: zoneout"),
        ("mingru", "runs on one kernel for gates and scan, backend native"),
        ("mingru --zoneout 0.1", "runs on one linear_scan, backend native"),
    ],
)
def test_what_runs_a_cell_is_said_with_the_reason(arguments, reason, capsys):
    assert reason in said_by(capsys, *arguments.split())[1]


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
    ],
)
def test_bad_usage_gets_exit_code_2_and_says_why(arguments, said, capsys):
    code, error = said_by(capsys, *arguments.split())
    assert code == 2 and error.startswith("gatedrnn: ") and said in error


def test_without_names_a_cell_that_cannot_is_left_out_by_name_and_the_others_are_shown(capsys):
    code, said = said_by(capsys, "--weight-dropout", "0.5")
    assert code == 0 and "left out: mingru: weight_dropout drops recurrent weights" in said
    assert "gatedrnn.MGU(" in said and "gatedrnn.MinGRU(" not in said


def test_an_option_is_shown_and_one_of_another_cell_is_refused(capsys):
    code, said = said_by(capsys, "lstm", "gru:reset_after=false")
    assert code == 0 and "reset_after=False" in said
    code, said = said_by(capsys, "gru", "mgu:reset_after=false")
    assert code == 2 and "there is no option of mgu 'reset_after'" in said


@pytest.mark.parametrize(
    "width, said",
    [("1000000", "GiB, and this machine has"), ("10000000000000", "more parameters than can be counted in 64 bits")],
)
def test_a_layer_beyond_this_machine_is_refused_with_its_bytes(width, said, capsys):
    code, error = said_by(capsys, "lstm", "--hidden-size", width)
    assert code == 2 and said in error


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("mingru", "def mingru_forward("),
        ("lru", "no kernel is generated: one kernel scans the blocks of every such cell"),
        ("gru-d", "mixes or picks channels"),
    ],
)
def test_a_kernel_is_shown_or_why_there_is_none(cell, said, capsys):
    code, printed = said_by(capsys, cell, "--kernel")
    assert code == 0 and said in printed
