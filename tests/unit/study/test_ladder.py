"""The ladder: one removal at a time, each step compared with the one above it."""

import pytest
from test_experiment import small

from gatedrnn.pages import signed
from gatedrnn.registry import CELLS
from gatedrnn.study.experiment import compare
from gatedrnn.study.ladder import BESIDE, LADDERS, REMOVED, removed, steps_below
from gatedrnn.study.report import write_report
from gatedrnn.study.settings import ContenderSettings
from gatedrnn.study.tables import ladder_rows
from gatedrnn.study.verdict import headline
from gatedrnn.train.settings import ModelSettings


def test_a_ladder_leads_from_the_full_cell_to_the_minimal_one_by_known_cells():
    assert (LADDERS["lstm"][0], LADDERS["lstm"][-1]) == ("lstm", "minlstm")
    assert (LADDERS["gru"][0], LADDERS["gru"][-1]) == ("gru", "mingru")
    for name, ladder in LADDERS.items():
        cells = [*ladder, *BESIDE.get(name, ())]
        assert set(cells) <= set(CELLS) and set(cells[1:]) <= set(REMOVED)
        # What no longer reads the state never reads it again, and parameters never grow on the way down.
        reads = [CELLS[cell].equations.reads_state for cell in ladder]
        counts = [sum(p.numel() for p in CELLS[cell].layer(8, 8, bias=False).parameters()) for cell in ladder]
        assert reads == sorted(reads, reverse=True) and counts == sorted(counts, reverse=True)


def test_a_ladder_says_who_takes_part():
    assert ContenderSettings(ladder="gru").cells == ["gru", "gru-no-reset-gate", "gru-input-gated", "mingru", "mgu"]
    again = ContenderSettings(ladder="gru")
    assert ContenderSettings(**again.model_dump()) == again
    with pytest.raises(ValueError, match="--ladder and --cells"):
        ContenderSettings(ladder="gru", cells=["lstm", "gru"])
    with pytest.raises(ValueError, match="ladder"):
        ContenderSettings(ladder="rnn")


@pytest.mark.slow
def test_all_steps_of_a_ladder_have_one_initialisation(finished):
    _, results = finished
    schemes = [row.structure.initialisation for row in results.contenders]
    assert all((one.weights, one.biases) == ("fan-in", "time-scales") for one in schemes)
    asked = (
        small(contenders=ContenderSettings(ladder="gru"), model=ModelSettings(bias_init="forget-one"))
        .run("gru", 8, 0)
        .model
    )
    assert (asked.weight_init, asked.bias_init) == ("fan-in", "forget-one")
    without = small(contenders=ContenderSettings(cells=["gru", "mingru"])).run("gru", 8, 0).model
    assert (without.weight_init, without.bias_init) == (None, None)


def test_a_step_says_what_it_removes_from_the_cell_with_its_options(finished):
    last = next(row for row in finished[1].contenders if row.cell == "mingru")
    for activation, words in (("identity", "tanh"), ("g", "tanh (g in the candidate's place)")):
        structure = last.structure.model_copy(update={"options": {"activation": activation}})
        assert removed(last.model_copy(update={"structure": structure})) == words


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladder") / "comparison"
    settings = small(contenders=ContenderSettings(ladder="gru", hidden_size=16, seeds=[0, 1]))
    return folder, compare(settings, folder, command="gatedrnn compare --ladder gru")


def test_each_step_is_compared_with_the_step_above_it_seed_by_seed(finished):
    _, results = finished
    for match in ("layers", "params"):
        pairs = [(row.name, above.other) for row, above in steps_below(results, match)]
        assert pairs == [
            (f"gru-no-reset-gate-{match}", "gru"),
            (f"gru-input-gated-{match}", f"gru-no-reset-gate-{match}"),
            (f"mingru-{match}", f"gru-input-gated-{match}"),
            (f"mgu-{match}", "gru"),
        ]
        rows = ladder_rows(results, match)
        assert [row["step"] for row in rows] == ["gru", *(name for name, _ in pairs)]
        row, difference = steps_below(results, match)[1]
        above = next(one for one in results.contenders if one.name == difference.other)
        tests = [[run.scores["test"].accuracy for run in one.runs] for one in (row, above)]
        mean = sum(own - other for own, other in zip(*tests, strict=True)) / 2
        assert difference.difference.mean == pytest.approx(mean)
        assert signed(mean) in rows[2]["score to step above"]
        ratio = row.parameters.core / above.parameters.core - 1
        assert rows[2]["core to step above"] == signed(ratio, ".1%")
    assert abs(ratio) < 0.05
    assert ladder_rows(results, "layers")[2]["core to step above"].startswith("-6")


def test_the_report_has_the_ladder_in_words_in_tables_and_in_a_figure(finished):
    folder, results = finished
    page = write_report(folder).read_text(encoding="utf-8")
    text = (folder / "report.md").read_text(encoding="utf-8")
    for measure in ("test accuracy", "parameters of the recurrent core", "training tokens a second"):
        assert f"Down the ladder: {measure}</h2>" in page
    for match in ("equal layers and widths", "equal parameters of the recurrent core"):
        assert f"## The ladder with {match}" in text
    said = [line for line in headline(results) if line.startswith("Down the ladder")]
    assert len(said) == 2 and "without the reset gate" in said[0] and "From gru to mingru" in said[0]
    assert "mgu" not in said[0]
    assert results.settings.contenders.ladder == "gru"


@pytest.mark.slow
def test_a_comparison_without_a_ladder_has_none(tmp_path):
    results = compare(
        small(contenders=ContenderSettings(cells=["gru", "mingru"], hidden_size=16, seeds=[0])), tmp_path / "c"
    )
    assert not any("ladder" in line for line in headline(results))
    write_report(tmp_path / "c")
    assert "ladder" not in (tmp_path / "c" / "report.md").read_text().replace("ladder: None", "")
