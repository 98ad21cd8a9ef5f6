"""A search: equal numbers of trials, no test split, winners with fresh seeds, resumable, bands that hold."""

import shutil
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from train_helpers import digits_run

from gatedrnn.errors import FolderTaken, NonFiniteLoss
from gatedrnn.executors import here
from gatedrnn.study import tuning
from gatedrnn.study.beside import Trials, beside
from gatedrnn.study.experiment import compare
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.settings import FIRST_SEED, CompareSettings, ContenderSettings, SearchSettings
from gatedrnn.study.space import Space
from gatedrnn.study.tuning import tuning_curve
from gatedrnn.train.result import RunResult, read_record

SPACE = Space.model_validate({"shared": {
    "learning_rate": {"low": 1e-4, "high": 1e-1, "scale": "log"}, "batch_size": {"choices": [32, 64, 128]},
}})  # fmt: skip
TRIALS = 3


def settings(cells=("lstm", "mingru"), seeds=(0, 1), **search):
    run = digits_run(epochs=1)
    who = ContenderSettings(cells=list(cells), match=["params"], hidden_size=16, seeds=list(seeds))
    asked = SearchSettings(**{"trials": TRIALS, "space": SPACE, **search})
    return CompareSettings(
        contenders=who, search=asked, threads=1, data=run.data, model=run.model, train=run.train
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "comparison"
    return folder, compare(settings(), folder)


def unmeasured(results):
    return results.model_dump_json(exclude={"measured": True, "search": {"best": {"__all__": {"seconds"}}}})


def test_every_contender_has_the_same_trials_and_none_reads_the_test_split(finished):
    folder, results = finished
    trials = beside(folder, Trials).trials
    names = [row.name for row in results.contenders]
    assert [(one.contender, one.number) for one in trials] == [(name, n) for name in names for n in range(TRIALS)]
    for one in trials:
        place = folder / "trials" / one.contender / f"trial-{one.number}"
        record = read_record(place / "result.json", RunResult)
        assert set(record.scores) == {"validation"} and record.seed >= FIRST_SEED
        assert not (place / "model").exists()
    by_number = [[one.values for one in trials if one.number == n] for n in range(TRIALS)]
    assert all(own[0] == own[1] for own in by_number), "the same draws for all"


def test_the_best_by_validation_runs_again_with_fresh_seeds_and_gives_the_verdict(finished):
    folder, results = finished
    trials = beside(folder, Trials).trials
    for row in results.contenders:
        own = [one for one in trials if one.contender == row.name]
        best = max(own, key=lambda one: one.score)
        assert results.search.best[row.name].score == best.score
        assert [run.seed for run in row.runs] == [0, 1]
        config = (folder / row.name / "seed-0" / "config.yaml").read_text()
        assert f"learning_rate: {results.search.best[row.name].values['learning_rate']}" in config
        assert set(row.scores) == {"validation", "test"}


def test_an_interrupted_search_goes_on_where_it_was(finished, tmp_path, monkeypatch):
    folder = tmp_path / "half"
    shutil.copytree(finished[0], folder)
    shutil.rmtree(folder / "trials" / "lstm" / "trial-2")
    shutil.rmtree(folder / "lstm")
    (folder / "results.json").unlink()
    started, original = [], here.run

    def counted(run, path, on_step=None):
        if not (path / "result.json").exists():
            started.append(path.relative_to(folder).as_posix())
        return original(run, path, on_step)

    monkeypatch.setattr(here, "run", counted)
    assert unmeasured(compare(settings(), folder)) == unmeasured(finished[1])
    assert started == ["trials/lstm/trial-2", "lstm/seed-0", "lstm/seed-1"]


def test_another_search_in_the_same_folder_is_refused(finished):
    with pytest.raises(FolderTaken, match=r"search\.trials: 3 there, 4 here"):
        compare(settings(trials=4), finished[0])
    with pytest.raises(FolderTaken, match="search"):
        compare(settings().model_copy(update={"search": None}), finished[0])


@pytest.mark.slow
def test_no_new_round_begins_after_the_minutes(tmp_path, monkeypatch):
    """Whole rounds alone, so that all contenders have the same number; what an earlier call took counts."""
    clock = count(step=50)
    monkeypatch.setattr(tuning, "time", SimpleNamespace(perf_counter=lambda: next(clock)))  # each round takes 50 s
    results = compare(settings(trials=9, minutes=1.5), tmp_path / "c")
    assert (results.search.trials, results.search.asked) == (2, 9)
    again = compare(settings(trials=9, minutes=1.5), tmp_path / "c")
    assert unmeasured(again) == unmeasured(results)
    assert len(list((tmp_path / "c" / "trials").glob("*/trial-*"))) == 4


@pytest.mark.slow
def test_a_trial_that_diverges_counts_as_the_worst(tmp_path, monkeypatch):
    original = here.run

    def diverging(run, path, on_step=None):
        if path.as_posix().endswith(("lstm/trial-0", "lstm/trial-2")):
            raise NonFiniteLoss("the loss is NaN")
        return original(run, path, on_step)

    monkeypatch.setattr(here, "run", diverging)
    results = compare(settings(), tmp_path / "some")
    trials = [one for one in beside(tmp_path / "some", Trials).trials if one.contender == "lstm"]
    assert [one.score is None for one in trials] == [True, False, True]
    assert results.search.best["lstm"].number == 1
    assert read_record(tmp_path / "some" / "results.json", ComparisonResults) == results
    monkeypatch.setattr(here, "run", lambda run, path, on_step=None: diverging(run, path.parent / "trial-0", on_step)
                        if "lstm" in path.as_posix() else original(run, path, on_step))  # fmt: skip
    with pytest.raises(NonFiniteLoss, match="lstm: the loss of every trial"):
        compare(settings(), tmp_path / "all")


def test_settings_that_do_not_go_with_a_search_are_refused():
    for changes, why in (
        ({"seeds": [FIRST_SEED]}, "are those of trials"),
        ({"match": ["time"]}, "would change the time of a step"),
    ):
        who = settings().contenders.model_copy(update=changes)
        with pytest.raises(ValueError, match=why):
            CompareSettings.model_validate({**settings().model_dump(), "contenders": who.model_dump()})
    elsewhere = Space.model_validate({"shared": {}, "contenders": {"gru": SPACE.shared}})
    with pytest.raises(ValueError, match="gru is not among the contenders"):
        CompareSettings.model_validate(
            {**settings().model_dump(), "search": {"trials": 2, "space": elsewhere.model_dump()}}
        )


@pytest.mark.slow
def test_bands_hold_the_true_curve_at_all_numbers_at_once():
    """Scores that are uniform: the median of the best of n is 0.5 ** (1 / n)."""
    numbers, random, misses = np.arange(1, 11), np.random.default_rng(0), 0
    truth = 0.5 ** (1 / numbers)
    for _ in range(60):
        found = tuning_curve(random.random(10).tolist(), "accuracy")
        misses += not all(low <= true <= high for low, true, high in zip(found.low, truth, found.high, strict=True))
    assert misses <= 8, "more than 5 % and three standard errors"


def test_a_curve_of_perplexities_falls():
    found = tuning_curve([50.0, None, 40.0, 45.0], "perplexity")
    assert found.median == sorted(found.median, reverse=True) and found.median[-1] == 40
    assert min(found.low) >= 1 and found.high == [None] * 4, "one trial of four diverged: nothing bounds the rest"


def test_a_curve_of_errors_may_fall_below_1():
    found = tuning_curve([0.9, 0.7, 1.2], "error")
    assert found.median[-1] == 0.7 and 0 <= min(found.low) <= 0.7
