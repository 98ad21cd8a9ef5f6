"""The ladder: one removal at a time, each step compared with the one above it."""

import shutil
from itertools import cycle
from pathlib import Path

import pytest
from finished_comparison import small_comparison

from gatedrnn.executors.executor import Ended
from gatedrnn.pages import signed
from gatedrnn.registry import CELLS
from gatedrnn.study import experiment
from gatedrnn.study.experiment import compare
from gatedrnn.study.figures import figures
from gatedrnn.study.ladder import BESIDE, LADDERS, REMOVED, removed, steps_below
from gatedrnn.study.report import read_comparison
from gatedrnn.study.results import Speed
from gatedrnn.study.settings import ContenderSettings
from gatedrnn.study.tables import ladder_rows
from gatedrnn.study.verdict import headline
from gatedrnn.train.result import RunResult, read_record
from gatedrnn.train.settings import ModelSettings

KEPT = Path(__file__).parents[3] / "results" / "ladder" / "gru"


class Copies:
    """An executor that has no run to run: each is one of another comparison."""

    on, jobs = "local", 1

    def __init__(self, comparison):
        self.runs = cycle(sorted(comparison.folder.glob("*/seed-*")))

    def run_all(self, runs, folder, on_progress):
        copies = {name: shutil.copytree(next(self.runs), folder / name) for name in runs}
        return Ended({name: read_record(copy / "result.json", RunResult) for name, copy in copies.items()}, [])


@pytest.fixture(scope="module")
def finished(comparison, tmp_path_factory):
    """Scores and speeds mean nothing here; the words and tables of true ones are those of the kept ladder."""
    ladder = ContenderSettings(ladder="gru", hidden_size=16, seeds=[0, 1])
    speed = Speed(median=1.0, low=1.0, high=1.0, timings=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "training_speed", lambda runs, *_: dict.fromkeys(runs, speed))
        settings = comparison.settings.model_copy(update={"contenders": ladder})
        return compare(settings, tmp_path_factory.mktemp("ladder") / "comparison", executor=Copies(comparison))


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


def test_all_steps_of_a_ladder_have_one_initialisation(finished, reviews):
    schemes = [row.structure.initialisation for row in finished.contenders]
    assert all((one.weights, one.biases) == ("fan-in", "time-scales") for one in schemes)
    ladder, none = ContenderSettings(ladder="gru"), ContenderSettings(cells=["gru", "mingru"])
    for who, asked, expected in (
        (ladder, ModelSettings(bias_init="forget-one"), ("fan-in", "forget-one")),
        (none, ModelSettings(), (None, None)),
    ):
        settings = small_comparison(reviews).model_copy(update={"contenders": who, "model": asked})
        model = settings.run("gru", 8, 0).model
        assert (model.weight_init, model.bias_init) == expected


def test_a_step_says_what_it_removes_from_the_cell_with_its_options(finished):
    last = next(row for row in finished.contenders if row.cell == "mingru")
    for activation, words in (("identity", "tanh"), ("g", "tanh (g in the candidate's place)")):
        structure = last.structure.model_copy(update={"options": {"activation": activation}})
        assert removed(last.model_copy(update={"structure": structure})) == words


@pytest.mark.parametrize("kept", [False, True])
def test_each_step_is_compared_with_the_step_above_it_seed_by_seed(kept, finished):
    results = read_comparison(KEPT) if kept else finished
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
        mean = sum(own - other for own, other in zip(*tests, strict=True)) / len(row.runs)
        assert difference.difference.mean == pytest.approx(mean)
        assert signed(mean) in rows[2]["score to step above"]
        ratio = row.parameters.core / above.parameters.core - 1
        assert rows[2]["core to step above"] == signed(ratio, ".1%")
    assert abs(ratio) < 0.05
    assert float(ladder_rows(results, "layers")[2]["core to step above"].rstrip("%")) < -40


def test_a_report_has_figures_of_its_ladder_where_there_is_one(finished, comparison):
    for measure in ("test accuracy", "parameters of the recurrent core", "training tokens a second"):
        title = f"Down the ladder: {measure}"
        assert title in figures(finished, None, None) and title not in figures(comparison.results, None, None)
    assert not any("ladder" in line for line in headline(comparison.results))
    assert "ladder" not in (comparison.folder / "report.md").read_text().replace("ladder: None", "")
