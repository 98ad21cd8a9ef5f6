"""A search: equal numbers of trials, no test split, winners with fresh seeds, resumable, bands that hold."""

import shutil
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from diverging import diverging
from finished_comparison import FinishedComparison, small_comparison
from train_helpers import small_text, text_settings

from gatedrnn.data import load_task
from gatedrnn.errors import FolderTaken, NonFiniteLoss
from gatedrnn.executors import HERE
from gatedrnn.study import tuning
from gatedrnn.study.beside import Trial, Trials, beside
from gatedrnn.study.experiment import compare
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.settings import FIRST_SEED, CompareSettings, SearchSettings
from gatedrnn.study.space import Space
from gatedrnn.study.tuning import Search, tuning_curve
from gatedrnn.train.result import RunResult, read_record

SPACE = Space.model_validate({"shared": {
    "learning_rate": {"low": 1e-4, "high": 1e-1, "scale": "log"}, "batch_size": {"choices": [32, 64, 128]},
}})  # fmt: skip
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


def test_every_contender_has_the_same_trials_and_none_reads_the_test_split(finished):
    trials = beside(finished.folder, Trials).trials
    names = [row.name for row in finished.results.contenders]
    assert [(one.contender, one.number) for one in trials] == [(name, n) for name in names for n in range(TRIALS)]
    for one in trials:
        place = finished.folder / "trials" / one.contender / f"trial-{one.number}"
        record = read_record(place / "result.json", RunResult)
        assert set(record.scores) == {"validation"} and record.seed >= FIRST_SEED
        assert not (place / "model").exists()
    by_number = [[one.values for one in trials if one.number == n] for n in range(TRIALS)]
    assert all(own[0] == own[1] for own in by_number), "the same draws for all"


def test_the_best_by_validation_runs_again_with_fresh_seeds_and_gives_the_verdict(finished):
    best, trials = finished.results.search.best, beside(finished.folder, Trials).trials
    for row in finished.results.contenders:
        assert best[row.name].score == max(one.score for one in trials if one.contender == row.name)
        assert [run.seed for run in row.runs] == [0, 1]
        config = (finished.folder / row.name / "seed-0" / "config.yaml").read_text()
        assert f"learning_rate: {best[row.name].values['learning_rate']}" in config
        assert set(row.scores) == {"validation", "test"}


def test_of_trials_with_equal_scores_that_of_the_lowest_loss_is_the_best(reviews, tmp_path):
    """A perplexity is best where it is lowest, and what diverged is never."""
    text = text_settings(small_text(tmp_path / "text.txt")).data
    for data, best in ((reviews, 3), (text, 1)):
        scores = zip((2.0, 1.0, 1.0, 2.0, None), (0.5, 0.3, 0.4, 0.2, None), strict=True)
        trials = [
            Trial(contender="gru", number=number, values={}, score=score, loss=loss, seconds=None)
            for number, (score, loss) in enumerate(scores)
        ]
        assert Search(asked(), {}, load_task(data), tmp_path).best(trials, "gru").number == best


def test_an_interrupted_search_goes_on_where_it_was(finished, started, tmp_path):
    folder = finished.copy(tmp_path / "half")
    for lost in ("trials/lstm/trial-2", "lstm"):
        shutil.rmtree(folder / lost)
    (folder / "results.json").unlink()
    assert unmeasured(compare(finished.settings, folder)) == unmeasured(finished.results)
    assert started == ["lstm/trial-2", "lstm/seed-0", "lstm/seed-1"]


def test_another_search_in_the_same_folder_is_refused(finished):
    for search, said in ((asked(trials=4), r"search\.trials: 3 there, 4 here"), (None, "search")):
        with pytest.raises(FolderTaken, match=said):
            compare(finished.settings.model_copy(update={"search": search}), finished.folder)


def test_no_new_round_begins_after_the_minutes(settings, tmp_path, monkeypatch):
    """Whole rounds alone, so that all contenders have the same number; what an earlier call took counts."""
    clock = count(step=50)
    monkeypatch.setattr(tuning, "time", SimpleNamespace(perf_counter=lambda: next(clock)))  # each round takes 50 s
    bases = {cell: settings.run(cell, 8, 0) for cell in ("lstm", "mingru")}
    search = Search(asked(trials=9, minutes=1.5), bases, load_task(settings.data), tmp_path)
    trials = search.run(HERE, lambda *_: None)
    results = search.results(trials)
    assert (results.trials, results.asked) == (2, 9)
    assert search.run(HERE, lambda *_: None) == trials
    assert len(list((tmp_path / "trials").glob("*/trial-*"))) == 4


def test_a_trial_that_diverges_counts_as_the_worst(finished, tmp_path):
    folder = finished.copy(tmp_path / "c")
    shutil.rmtree(folder / "lstm")
    with diverging("lstm/trial-0", "lstm/trial-2"):
        results = compare(finished.settings, folder)
    trials = [one for one in beside(folder, Trials).trials if one.contender == "lstm"]
    assert [one.score is None for one in trials] == [True, False, True]
    assert results.search.best["lstm"].number == 1
    assert read_record(folder / "results.json", ComparisonResults) == results
    with diverging(*(f"lstm/trial-{n}" for n in range(TRIALS))):
        with pytest.raises(NonFiniteLoss, match="lstm: the loss of every trial"):
            compare(finished.settings, folder)


def test_settings_that_do_not_go_with_a_search_are_refused(settings):
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
