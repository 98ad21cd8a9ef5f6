"""A search: equal numbers of trials, no test split, winners with fresh seeds, resumable, bands that hold; and its
space, drawn from evenly, alike for all contenders where theirs agree, which refuses what no run could have.
"""

import math
import shutil
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from diverging import diverging
from finished_comparison import FinishedComparison, small_comparison
from train_helpers import digits_settings, small_text, text_settings

from gatedrnn.data import load_task
from gatedrnn.data.registry import task_names
from gatedrnn.errors import FolderTaken, NonFiniteLoss, UsageError
from gatedrnn.executors import HERE
from gatedrnn.study import tuning
from gatedrnn.study.experiment import compare
from gatedrnn.study.results import ComparisonResults, Trial, Trials, beside
from gatedrnn.study.settings import FIRST_SEED, CompareSettings, SearchSettings
from gatedrnn.study.space import Dimension, Space, default_space, draw, read_space
from gatedrnn.study.tuning import Search, tuning_curve
from gatedrnn.training.result import RunResult, read_record
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings
from gatedrnn.training.task import task_named

SPACE = Space.model_validate(
    {"shared": {"learning_rate": {"low": 1e-4, "high": 1e-1, "scale": "log"}, "batch_size": {"choices": [32, 64, 128]}}}
)
TRIALS = 3


@pytest.fixture(scope="module")
def settings(reviews):
    return small_comparison(reviews, match=["params"]).model_copy(update={"search": asked()})


def asked(**changes):
    return SearchSettings(**{"trials": TRIALS, "space": SPACE, **changes})


@pytest.fixture(scope="module")
def finished(settings, speed_in_a_moment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "comparison"
    return FinishedComparison(settings, folder, compare(settings, folder))


def unmeasured(results):
    return results.model_dump_json(exclude={"measured": True, "search": {"best": {"__all__": {"seconds"}}}})


def test_all_have_the_same_trials_without_the_test_split_and_the_best_gives_the_verdict_with_fresh_seeds(finished):
    best, trials = finished.results.search.best, beside(finished.folder, Trials).trials
    names = [row.name for row in finished.results.contenders]
    assert [(one.contender, one.number) for one in trials] == [(name, n) for name in names for n in range(TRIALS)]
    for one in trials:
        place = finished.folder / "trials" / one.contender / f"trial-{one.number}"
        record = read_record(place / "result.json", RunResult)
        assert set(record.scores) == {"validation"} and record.seed >= FIRST_SEED and not (place / "model").exists()
    by_number = [[one.values for one in trials if one.number == n] for n in range(TRIALS)]
    assert all(own[0] == own[1] for own in by_number), "the same draws for all"
    for row in finished.results.contenders:
        assert best[row.name].score == max(one.score for one in trials if one.contender == row.name)
        assert [run.seed for run in row.runs] == [0, 1] and set(row.scores) == {"validation", "test"}
        config = (finished.folder / row.name / "seed-0" / "config.yaml").read_text()
        assert f"learning_rate: {best[row.name].values['learning_rate']}" in config


def test_of_trials_with_equal_scores_that_of_the_lowest_loss_is_the_best(reviews, tmp_path):
    """A perplexity is best where it is lowest, and what diverged is never."""
    text = text_settings(small_text(tmp_path / "text.txt")).data
    found = enumerate(zip((2.0, 1.0, 1.0, 2.0, None), (0.5, 0.3, 0.4, 0.2, None), strict=True))
    trials = [Trial(contender="gru", number=n, values={}, score=s, loss=loss, seconds=None) for n, (s, loss) in found]
    for data, best in ((reviews, 3), (text, 1)):
        assert Search(asked(), {}, load_task(data), tmp_path).best(trials, "gru").number == best


def test_an_interrupted_search_goes_on_where_it_was(finished, started, tmp_path):
    folder = finished.copy(tmp_path / "half")
    for lost in ("trials/lstm/trial-2", "lstm"):
        shutil.rmtree(folder / lost)
    (folder / "results.json").unlink()
    assert unmeasured(compare(finished.settings, folder)) == unmeasured(finished.results)
    assert started == ["lstm/trial-2", "lstm/seed-0", "lstm/seed-1"]


def test_another_search_in_the_same_folder_and_settings_that_do_not_go_with_one_are_refused(finished, settings):
    for search, said in ((asked(trials=4), r"search\.trials: 3 there, 4 here.*--fresh"), (None, "search")):
        with pytest.raises(FolderTaken, match=said):
            compare(finished.settings.model_copy(update={"search": search}), finished.folder)
    elsewhere = {"trials": 2, "space": {"shared": {}, "contenders": {"gru": SPACE.shared}}}
    for part, changes, why in (
        ("contenders", {"seeds": [FIRST_SEED]}, "are those of trials"),
        ("contenders", {"match": ["time"]}, "would change the time of a step"),
        ("search", elsewhere, "gru is not among the contenders"),
    ):
        given = settings.model_dump()
        given[part] |= changes
        with pytest.raises(ValueError, match=why):
            CompareSettings.model_validate(given)


def test_no_new_round_begins_after_the_minutes(settings, tmp_path, monkeypatch):
    """Whole rounds alone, so that all contenders have the same number; what an earlier call took counts."""
    clock = count(step=50)
    monkeypatch.setattr(tuning, "time", SimpleNamespace(perf_counter=lambda: next(clock)))  # each round takes 50 s
    bases = {cell: settings.run(cell, 8, 0) for cell in ("lstm", "mingru")}
    search = Search(asked(trials=9, minutes=1.5), bases, load_task(settings.data), tmp_path)
    trials = search.run(HERE, lambda *_: None)
    results = search.results(trials)
    assert (results.trials, results.asked) == (2, 9) and search.run(HERE, lambda *_: None) == trials
    assert len(list((tmp_path / "trials").glob("*/trial-*"))) == 4


def test_a_trial_that_diverges_counts_as_the_worst(finished, tmp_path):
    folder = finished.copy(tmp_path / "c")
    shutil.rmtree(folder / "lstm")
    with diverging("lstm/trial-0", "lstm/trial-2"):
        results = compare(finished.settings, folder)
    trials = [one for one in beside(folder, Trials).trials if one.contender == "lstm"]
    assert [one.score is None for one in trials] == [True, False, True] and results.search.best["lstm"].number == 1
    assert read_record(folder / "results.json", ComparisonResults) == results
    failed, said = [f"lstm/trial-{n}" for n in range(TRIALS)], "lstm: the loss of every trial"
    with diverging(*failed), pytest.raises(NonFiniteLoss, match=said):
        compare(finished.settings, folder)


@pytest.mark.slow
def test_bands_hold_the_true_curve_at_all_numbers_at_once():
    """Scores that are uniform: the median of the best of n is 0.5 ** (1 / n)."""
    numbers, random, misses = np.arange(1, 11), np.random.default_rng(0), 0
    truth = 0.5 ** (1 / numbers)
    for _ in range(60):
        found = tuning_curve(random.random(10).tolist(), "accuracy")
        misses += not all(low <= true <= high for low, true, high in zip(found.low, truth, found.high, strict=True))
    assert misses <= 8, "more than 5 % and three standard errors"


def test_a_curve_of_perplexities_falls_and_one_of_errors_may_fall_below_1():
    found = tuning_curve([50.0, None, 40.0, 45.0], "perplexity")
    assert found.median == sorted(found.median, reverse=True) and found.median[-1] == 40
    assert min(found.low) >= 1 and found.high == [None] * 4, "one trial of four diverged: nothing bounds the rest"
    found = tuning_curve([0.9, 0.7, 1.2], "error")
    assert found.median[-1] == 0.7 and 0 <= min(found.low) <= 0.7


RATE = {"learning_rate": {"low": 1e-4, "high": 1e-1, "scale": "log"}}


def space(**changes):
    shared = {**RATE, "batch_size": {"choices": [32, 64, 128]}, "head_dropout": {"low": 0.0, "high": 0.5}}
    return Space.model_validate({"shared": shared, **changes})


def drawn(of, cell="mingru", seed=0, trials=50):
    return [draw(of, digits_settings(cell), seed, trial).values for trial in range(trials)]


def test_draws_fill_a_range_evenly_on_its_scale():
    found = drawn(space(), trials=400)
    rates = [math.log10(own["learning_rate"] / 1e-4) / 3 for own in found]
    for share in (rates, [own["head_dropout"] / 0.5 for own in found]):
        assert np.histogram(share, bins=4, range=(0, 1))[0].min() > 70
    assert min([own["batch_size"] for own in found].count(size) for size in (32, 64, 128)) > 100
    found = drawn(space()) + drawn(space(), seed=1)
    assert len({own["learning_rate"] for own in found}) == len(found), "each seed and trial has values of its own"


def test_contenders_draw_the_same_wherever_their_spaces_agree():
    own = space(contenders={"gru": {"learning_rate": {"low": 1e-5, "high": 1e-3, "scale": "log"}}})
    mingru, gru = drawn(own), drawn(own, "gru")
    rates, others = ([one.pop("learning_rate") for one in found] for found in (mingru, gru))
    assert mingru == gru
    for rate, other in zip(rates, others, strict=True):  # the same random number, on another range
        assert math.log(rate / 1e-4) / 3 == pytest.approx(math.log(other / 1e-5) / 2)
    assert [own["learning_rate"] for own in drawn(Space.model_validate({"shared": RATE}))] == rates


def test_a_draw_is_a_run_with_no_other_change_and_a_contender_has_only_dimensions_of_its_own():
    run = digits_settings()
    found, own = draw(space(), run, 0, 0)
    assert own.keys() == {"learning_rate", "batch_size", "head_dropout"} and found.flat() == run.flat() | own
    ranges = {"weight_dropout": (0, 0.5), "zoneout": (0, 0.3), "longest_time_scale": (9, 99)}
    wide = {name: {"low": low, "high": high} for name, (low, high) in ranges.items()}
    every = Space.model_validate({"shared": {**RATE, **wide}})
    for cell, taken in (
        ("gru", ["weight_dropout", "zoneout"]), ("mingru", ["zoneout", "longest_time_scale"]),
        ("slstm", ["weight_dropout", "longest_time_scale"]), ("transformer", []),
    ):  # fmt: skip
        assert list(every.of(digits_settings(cell))) == ["learning_rate", *taken], cell
        recipe = {"cell": cell, "hidden_size": 4, "task": "mnist", **task_named("mnist").recipe.cells["model"]}
        scale = RunSettings.from_flat(recipe).model.longest_time_scale
        assert scale == (784 if "longest_time_scale" in taken else None), "a recipe is for those that take it"


def test_a_value_at_an_edge_is_said_and_every_task_has_a_space_around_its_recipe():
    for dimension, edges in (
        ({"low": 1e-4, "high": 1e-2, "scale": "log"}, {1.1e-4: "lowest", 1e-3: None, 9e-3: "highest"}),
        ({"low": 0.0, "high": 0.5}, {0.001: None, 0.49: "highest"}),  # there is nothing below 0
        ({"low": 0.1, "high": 0.5}, {0.101: "lowest"}),
        ({"choices": [128, 32, 64]}, {32: "lowest", 64: None, 128: "highest"}),
        ({"choices": ["cosine", "linear"]}, {"cosine": None}),
    ):
        own = Dimension.model_validate(dimension)
        assert {value: own.edge(value) for value in edges} == edges, dimension
    for task, recipe in ((name, task_named(name).recipe.cells) for name in task_names()):
        model, train = ModelSettings(**recipe.get("model", {})), TrainSettings(**recipe.get("train", {}))
        found = default_space(model, train)
        for name, dimension in found.shared.items():
            own = getattr(train if name in TrainSettings.model_fields else model, name)
            assert min(dimension.ends()) <= own <= max(dimension.ends()), f"{task}: {name}"
            assert dimension.edge(own) is None, f"{task}: {name}"
        assert {"learning_rate", "batch_size"} <= set(found.shared), task


REFUSED = {
    "learning_rates: {low: 1.0e-4, high: 1.0e-2}": "learning_rates: no setting that is searched",
    "hidden_size: {low: 8, high: 16}": "hidden_size: no setting that is searched",
    "learning_rate: {low: 1.0e-2, high: 1.0e-4}": "low must lie below high",
    "learning_rate: {low: 0, high: 1.0e-4, scale: log}": "low must be above 0",
    "learning_rate: {low: -1, high: 1.0e-4}": "greater than 0, got -1",
    "head_dropout: {low: 0, high: 1.5}": "less than 1, got 1.5",
    "batch_size: {choices: [32]}": "two or more",
    "batch_size: {choices: [32, 64], low: 1}": "not both",
    "batch_size: {low: 16, high: 64.5}": "batch_size: must be whole, got 64.5",
    "batch_size: 32": "batch_size: Input should be",
    "schedule: {choices: [cosine, triangle]}": "got triangle",
    "contenders: {grru: {learning_rate: {low: 1, high: 2}}}": "did you mean 'gru'",
    "": "must be a mapping",
    "{}": "names no setting",
    "a: [": "cannot be read",
}


def test_a_file_that_makes_no_sense_or_is_missing_is_refused_in_one_line(tmp_path):
    file = tmp_path / "space.yaml"

    def refusal():
        try:
            return f"taken: {read_space(file)}"
        except UsageError as refused:
            return str(refused)

    said = {"no file": refusal()}
    for text in REFUSED:
        file.write_text(text)
        said[text] = refusal()
    expected = {"no file": "space.yaml: cannot be read", **REFUSED}
    assert {text: own for text, own in said.items() if expected[text] not in own or "\n" in own} == {}
