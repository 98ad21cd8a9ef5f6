"""The report on a run after its training: beside plain methods on the same split, and what would help it."""

import html
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from finished import copy_of

from gatedrnn.study import plain
from gatedrnn.study.plain import constant, write_standing
from gatedrnn.tasks.forecast import baselines as forecast_baselines
from gatedrnn.training.finished import data_of
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.outcomes import of_rows
from gatedrnn.training.report import write_report
from gatedrnn.training.result import Metric, Plain, Standing
from gatedrnn.training.score import outcomes_of
from gatedrnn.training.task import task_named

ACCURACY, MASE = Metric(name="accuracy", higher_is_better=True), Metric(name="mase", higher_is_better=False)


def test_a_run_stands_beside_the_plain_methods_that_begin_in_time(series_run, tmp_path, monkeypatch):
    run = copy_of(series_run, tmp_path)
    clock = iter([0.0, 0.0, 1.0, 3.5, 4.0])
    monkeypatch.setattr(plain, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    data = data_of(RunFolder(run))
    methods = [(name, lambda name=name: constant(data)._replace(name=name)) for name in "abc"]
    monkeypatch.setattr(type(task_named(data.name)), "baselines", lambda *_: methods)
    found = write_standing(run)
    assert ([one.name for one in found.plain], found.left_out) == (
        ["majority class", "a"],
        [f"{name} (takes long beside this run)" for name in "bc"],
    )
    assert found.score == pytest.approx(outcomes_of(run, data)["test"].rate)
    page = html.unescape(write_report(run).read_text())
    assert all(sentence in page for sentence in found.sentences(scores=False))
    assert [row["method"] for row in found.rows()][-1] in ("a", "majority class") and "<td>this run</td>" in page


def test_a_method_of_an_extra_that_is_not_installed_is_named(forecast_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsforecast", None)
    monkeypatch.setattr(plain, "_SECONDS_A_REFIT", 1e-9)
    monkeypatch.setattr(forecast_baselines, "STEPS", 1)
    found = write_standing(copy_of(forecast_run, tmp_path))
    assert found.left_out[:2] == [
        f"{name} (pip install -c constraints.txt '.[series,export]' brings it)" for name in ("AutoETS", "AutoTheta")
    ]
    assert "seasonal naive" in [one.name for one in found.plain]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("series_run", 3), ("forecast_run", 6), ("digits_run", 2)])
def test_every_kind_of_run_has_plain_methods_beside_it(kind, count, request, tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "_MIN_SECONDS", 600.0)
    found = write_standing(copy_of(request.getfixturevalue(kind), tmp_path))
    assert len(found.plain) == count and not found.left_out and len(found.sentences()) > 1


def test_a_difference_is_told_where_its_interval_over_examples_leaves_out_zero():
    random = np.random.default_rng(0)
    own = of_rows(random.random(400) < 0.6, np.ones(400))
    much, little = (of_rows(random.random(400) < rate, np.ones(400)) for rate in (0.9, 0.62))
    assert plain._against(much, own, ACCURACY) == "better" and plain._against(own, much, ACCURACY) == "worse"
    assert plain._against(little, own, ACCURACY) == plain._against(own, own, ACCURACY) == "open"
    assert plain._against(much, own, MASE) == "worse"  # of errors
    two = [of_rows(np.array(values), np.ones(2)) for values in ([1.0, 1.1], [1.3, 1.5])]
    assert plain._against(*two, MASE) == "open", "of two windows, one is no wonder"


def test_what_loses_is_said_first():
    def said(*plain):
        return Standing(
            metric="accuracy", higher_is_better=True, score=0.8, plain=plain, left_out=[], advice=[]
        ).sentences()

    first, second, third = (
        Plain(name=name, score=score, seconds=0.1, against=against)
        for name, score, against in (("a", 0.9, "better"), ("b", 0.81, "open"), ("c", 0.5, "worse"))
    )
    assert (
        said(third, first, second)[0] == "A plain method does better here: a has test accuracy 0.9000, this run 0.8000."
    )
    assert said(third, second)[0].startswith("Test accuracy 0.8000 is not shown to be better than b, 0.8100")
    assert said(third)[0] == "Test accuracy 0.8000 is better than c, 0.5000, the best of the plain methods that ran."
    assert said(third, second)[1].endswith("accuracy: b 0.8100 (0.1 s), c 0.5000 (0.1 s).") and not said()


@pytest.mark.parametrize(("best", "epochs", "total", "said"), [
    (100, 4, 0, "Validation was still improving at the last step: --epochs 8."),
    (100, 4, 100, "Validation was still improving at the last step: --total-steps 200."),
    (25, 4, 0, "Validation was best at step 25 of 100, and worse since: --epochs 2."),
    (50, 4, 0, None),
])  # fmt: skip
def test_the_length_of_training_is_judged_by_where_validation_was_best(best, epochs, total, said, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        "".join(f'{{"step": {n}, "validation_loss": 1}}\n' for n in (25, 50, 75, 100))
    )
    settings = SimpleNamespace(train=SimpleNamespace(epochs=epochs, total_steps=total))
    result = SimpleNamespace(best_step=best, steps=100, weights="best")
    assert plain._of_length(RunFolder(tmp_path), result, settings) == said
    result.weights = "last"  # whose step says nothing of validation
    assert plain._of_length(RunFolder(tmp_path), result, settings) is None


def test_a_class_that_is_never_predicted_is_named():
    data = SimpleNamespace(label_names=("neg", "pos", "rare"))
    result = SimpleNamespace(confusion={"test": [[9, 0, 0], [3, 0, 0], [0, 0, 0]]})
    settings = SimpleNamespace(train=SimpleNamespace(class_weight=None))
    said = "Class 'pos' was never predicted on the test: --class-weight balanced."
    assert plain._of_classes(data, result, settings) == said
    settings.train.class_weight = "balanced"
    assert plain._of_classes(data, result, settings) is None
