"""Pairs that are compared: equal layers, equal parameters; and the ladder, one removal at a time, each step compared
with the one above it.
"""

import shutil
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from finished_comparison import small_comparison

from gatedrnn.data import data_settings, load_task
from gatedrnn.errors import NoMatch
from gatedrnn.executors.work import Ended
from gatedrnn.kinds import kind_of
from gatedrnn.pages import signed
from gatedrnn.registry import CELLS
from gatedrnn.study import experiment
from gatedrnn.study.experiment import compare
from gatedrnn.study.figures import figures
from gatedrnn.study.match import contenders, solve_width
from gatedrnn.study.report import read_comparison
from gatedrnn.study.results import Speed
from gatedrnn.study.settings import BESIDE, LADDERS, CompareSettings, ContenderSettings
from gatedrnn.study.tables import ladder_rows
from gatedrnn.study.verdict import REMOVED, headline, removed, steps_below
from gatedrnn.training.result import RunResult, read_record
from gatedrnn.training.settings import ModelSettings, TrainSettings

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


def test_a_ladder_leads_from_the_full_cell_to_the_minimal_one_by_known_cells_and_says_who_takes_part():
    assert [(ladder[0], ladder[-1]) for ladder in LADDERS.values()] == [("lstm", "minlstm"), ("gru", "mingru")]
    for name, ladder in LADDERS.items():
        cells = [*ladder, *BESIDE.get(name, ())]
        assert set(cells) <= set(CELLS) and set(cells[1:]) <= set(REMOVED)
        # What no longer reads the state never reads it again, and parameters never grow on the way down.
        reads = [kind_of(CELLS[cell].equations).facts(CELLS[cell].equations).iterates for cell in ladder]
        counts = [sum(p.numel() for p in CELLS[cell].layer(8, 8, bias=False).parameters()) for cell in ladder]
        assert reads == sorted(reads, reverse=True) and counts == sorted(counts, reverse=True)
    who = ContenderSettings(ladder="gru")
    assert who.cells == ["gru", "gru-no-reset-gate", "gru-input-gated", "mingru", "mgu"]
    assert ContenderSettings(**who.model_dump()) == who
    with pytest.raises(ValueError, match="--ladder and --cells"):
        ContenderSettings(ladder="gru", cells=["lstm", "gru"])
    with pytest.raises(ValueError, match="ladder"):
        ContenderSettings(ladder="rnn")


def test_steps_have_one_initialisation_and_say_what_they_remove_and_figures_show_them(finished, reviews, comparison):
    schemes = [row.structure.initialisation for row in finished.contenders]
    assert all((one.weights, one.biases) == ("fan-in", "time-scales") for one in schemes)
    other, none = ModelSettings(bias_init="forget-one"), ContenderSettings(cells=["gru", "mingru"])
    for who, asked, expected in (ContenderSettings(ladder="gru"), other, "fan-in"), (none, ModelSettings(), None):
        settings = small_comparison(reviews).model_copy(update={"contenders": who, "model": asked})
        model = settings.run("gru", 8, 0).model
        assert (model.weight_init, model.bias_init) == (expected, asked.bias_init)
    last = next(row for row in finished.contenders if row.cell == "mingru")
    for activation, words in (("identity", "tanh"), ("g", "tanh (g in the candidate's place)")):
        structure = replace(last.structure, options={"activation": activation})
        assert removed(last.model_copy(update={"structure": structure})) == words
    for measure in ("test accuracy", "parameters of the recurrent core", "training tokens a second"):
        title = f"Down the ladder: {measure}"
        assert title in figures(finished, None, None) and title not in figures(comparison.results, None, None)
    assert not any("ladder" in line for line in headline(comparison.results))
    assert "ladder" not in (comparison.folder / "report.md").read_text().replace("ladder: None", "")


@pytest.mark.parametrize("kept", [False, True])
def test_each_step_is_compared_with_the_step_above_it_seed_by_seed(kept, finished):
    results = read_comparison(KEPT) if kept else finished
    for match in ("layers", "params"):
        steps, rows = steps_below(results, match), ladder_rows(results, match)
        pairs = [(row.name.removesuffix(f"-{match}"), above.other.removesuffix(f"-{match}")) for row, above in steps]
        assert pairs == [
            ("gru-no-reset-gate", "gru"), ("gru-input-gated", "gru-no-reset-gate"), ("mingru", "gru-input-gated"),
            ("mgu", "gru"),
        ]  # fmt: skip
        assert [row["step"] for row in rows] == ["gru", *(row.name for row, _ in steps)]
        row, difference = steps[1]
        above = next(one for one in results.contenders if one.name == difference.other)
        tests = [[run.scores["test"].accuracy for run in one.runs] for one in (row, above)]
        mean = sum(own - other for own, other in zip(*tests, strict=True)) / len(row.runs)
        assert difference.difference.mean == pytest.approx(mean)
        assert signed(mean) in rows[2]["score to step above"]
        ratio = row.parameters.core / above.parameters.core - 1
        assert rows[2]["core to step above"] == signed(ratio, ".1%")
    assert abs(ratio) < 0.05
    assert float(ladder_rows(results, "layers")[2]["core to step above"].rstrip("%")) < -40


def settings(model=None, **chosen):
    return CompareSettings(
        contenders=ContenderSettings(**chosen), threads=1, data=data_settings(task="digits"),
        model=ModelSettings(**model or {}), train=TrainSettings(),
    )  # fmt: skip


def planned(model=None, **chosen):
    comparison = settings(model, **chosen)
    return {contender.name: contender for contender in contenders(comparison, load_task(comparison.data))}


@pytest.fixture(scope="module")
def found():
    """The cells of the recipe, by name."""
    return planned(hidden_size=64)


def test_every_cell_is_a_contender_once_for_each_match_and_the_baseline_once_with_the_parameters_of_formulas(found):
    names = "lstm gru-layers minlstm-layers mingru-layers gru-params minlstm-params mingru-params"
    assert list(found) == names.split()
    option = replace(found["gru-layers"], cell="gru:reset_after=false")
    assert option.name == "gru.reset_after=false-layers", "a name is a folder's, which may have no colon"
    width = state = 64
    assert found["lstm"].parameters.core == 4 * state * (width + state) + 8 * state
    assert found["gru-layers"].parameters.core == 3 * state * (width + state) + 6 * state
    assert found["minlstm-layers"].parameters.core == 3 * state * width + 3 * state
    assert found["mingru-layers"].parameters.core == 2 * state * width + 2 * state


@pytest.mark.parametrize("match, model, cells", [
    ("params", {}, ["lstm", "gru", "minlstm"]),
    ("params", {"layers": 3, "block": True}, ["lstm", "mingru"]),
    ("multiply-adds", {"layers": 3}, ["lstm", "mingru", "transformer"]),
])  # fmt: skip
def test_what_is_matched_is_the_nearest_that_an_integer_width_gives(match, model, cells):
    def size(contender):
        return contender.parameters.core if match == "params" else contender.structure.multiply_adds_per_step

    comparison = settings(model, cells=cells, match=[match], hidden_size=64)
    data = load_task(comparison.data)
    baseline, *others = contenders(comparison, data)
    assert [other.name for other in others] == [f"{cell}-{match}" for cell in cells[1:]]
    target = size(baseline)
    for contender in others:
        own = abs(size(contender) - target)
        assert own < 0.02 * target, contender.name
        for width in (contender.hidden_size - 1, contender.hidden_size + 1):
            (near,) = contenders(settings(model, cells=[contender.cell], hidden_size=width), data)
            assert own <= abs(size(near) - target), contender.name
        if match == "params":
            assert contender.mismatch == size(contender) / target - 1 and abs(contender.mismatch) < 0.01


def test_the_papers_ratios_of_parameters_follow_from_the_counts():
    """The ratios without biases are minGRU / GRU = 2 / (3 (1 + a)) and minLSTM / LSTM = 3 / (4 (1 + a)) at hidden = a *
    input.
    """
    for expansion in (1, 2, 3, 4):
        layers = [CELLS[cell].layer(24, 24 * expansion, bias=False) for cell in ("mingru", "gru", "minlstm", "lstm")]
        mingru, gru, minlstm, lstm = (sum(p.numel() for p in layer.parameters()) for layer in layers)
        assert mingru / gru == pytest.approx(2 / (3 * (1 + expansion)))
        assert minlstm / lstm == pytest.approx(3 / (4 * (1 + expansion)))


def test_layers_have_one_width_with_a_block_the_projection_counts_and_a_width_out_of_reach_names_the_nearest():
    found = planned({"layers": 2}, match=["layers"], hidden_size=48)
    assert {(e.structure.layers, e.hidden_size) for e in found.values()} == {(2, 48)}
    found = planned({"block": True, "layers": 2}, hidden_size=32)
    for part in ("embedding", "block", "head"):
        assert len({getattr(contender.parameters, part) for contender in found.values()}) == 1
    assert found["mingru-layers"].parameters.core == 2 * (2 * 32 * 64 + 2 * 32 + 32 * 64)
    comparison = settings({"embedding_size": 512}, cells=["mingru", "lstm"], hidden_size=1)
    with pytest.raises(NoMatch, match=r"lstm: no hidden_size .* within 5 %.* the nearest are 1 .* and 2 "):
        solve_width(comparison, load_task(comparison.data), "lstm", 1500)


@pytest.mark.parametrize("chosen, message", [
    ({"cells": ["lstm", "mingur"]}, "did you mean 'mingru'"),
    ({"cells": ["lstm", "lstm"]}, "each once"),
    ({"seeds": []}, "each once"),
    ({"seeds": [-1]}, "greater than or equal to 0"),
    ({"hidden_size": 0}, "greater than or equal to 1"),
])  # fmt: skip
def test_contenders_that_make_no_sense_are_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        ContenderSettings(**chosen)
