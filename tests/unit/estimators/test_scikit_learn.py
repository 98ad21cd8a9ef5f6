"""Estimators keep scikit-learn's protocol, and give the numbers of the function and of the command."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from commands import call
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatedrnn
from gatedrnn.estimators import SeriesClassifier, SeriesRegressor, Settings, TextClassifier, TextRegressor

SMALL = {"total_steps": 12, "hidden_size": 4, "random_convolutions": 100, "threads": 1}
CHECKED = {"total_steps": 60, "hidden_size": 16, "random_convolutions": 200}
"""Enough to learn what scikit-learn's checks ask for."""
TEXTS = ["a good film", "a bad film", "good", "quite bad", "very good", "bad, very bad"] * 4
OPINIONS = ["yes", "no"] * 12


def waves(rows=24, steps=12, seed=0):
    """Series that rise or fall, and which of both."""
    drawn = np.random.default_rng(seed)
    up = np.arange(rows) % 2
    return np.where(up, 1, -1)[:, None] * np.linspace(-1, 1, steps) + 0.1 * drawn.normal(size=(rows, steps)), up


@pytest.fixture(scope="module")
def fitted():
    X, y = waves()
    return SeriesClassifier(**SMALL).fit(X, y)


@pytest.mark.slow
@parametrize_with_checks([SeriesClassifier(**CHECKED), SeriesRegressor(**CHECKED)])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_what_is_predicted_does_not_depend_on_the_others_and_survives_pickling(fitted):
    X, y = waves(seed=1)
    shares = fitted.predict_proba(X)
    assert fitted.score(X, y) == 1.0 and np.allclose(shares.sum(1), 1, atol=1e-12)
    assert np.allclose([fitted.predict_proba(row[None])[0] for row in X], shares, rtol=0, atol=1e-12)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), shares)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)


def test_a_weight_of_two_is_the_same_series_twice_whatever_the_order():
    X, y = waves(rows=10)
    counts = np.array([0, 1, 2, 3, 1, 1, 2, 1, 0, 1])
    order = np.random.default_rng(0).permutation(10)
    weighted = SeriesClassifier(**SMALL).fit(X[order], y[order], sample_weight=counts[order])
    repeated = SeriesClassifier(**SMALL).fit(X.repeat(counts, axis=0), y.repeat(counts))
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert not np.array_equal(weighted.predict_proba(X), SeriesClassifier(**SMALL).fit(X, y).predict_proba(X))


def shapes():
    X, y = waves()
    long = pd.DataFrame({
        "id": np.repeat([f"s{n}" for n in range(24)], 12), "time": np.tile(np.arange(12), 24), "value": X.ravel(),
        "label": np.repeat(np.where(y, "up", "down"), 12),
    })  # fmt: skip
    both = np.stack([X, -X], axis=1)
    uneven = [row[: 8 + n % 4] for n, row in enumerate(X)]
    with_gap = X.copy()
    with_gap[::3, 2] = np.nan
    return {
        "channels": (both, y), "list of channels": ([row.T for row in both], y), "unequal": (uneven, y),
        "missing": (with_gap, y), "frame": (pd.DataFrame(X), y), "long frame": (long, "label"),
        "long frame, labels apart": (long.drop(columns="label"), np.where(y, "up", "down")),
    }  # fmt: skip


@pytest.mark.parametrize("shape", shapes())
def test_series_come_in_as_people_have_them(shape):
    X, y = shapes()[shape]
    model = SeriesClassifier(**SMALL).fit(X, y)
    told = model.predict(X.drop(columns="label") if isinstance(y, str) else X)
    assert (told == (np.array(["down", "up"] * 12) if isinstance(y, str) else y)).mean() > 0.9


def test_times_of_uneven_series_are_read():
    X, y = waves()
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 2, X.shape), axis=1)
    model = SeriesClassifier(**SMALL | {"random_convolutions": None}).fit(X, y, times=times)
    assert model.predict(X, times=times).shape == (24,)
    with pytest.raises(ValueError, match="times must be given"):
        model.predict(X)


def test_texts_are_classified_and_valued():
    small = {"total_steps": 12, "hidden_size": 8, "threads": 1}
    model = TextClassifier(**small).fit(TEXTS, OPINIONS)
    assert model.predict(["good", "bad"]).tolist() == ["yes", "no"] and model.classes_.tolist() == ["no", "yes"]
    values = TextRegressor(**small).fit(pd.Series(TEXTS), [1.5 if word == "yes" else -1.0 for word in OPINIONS])
    good, bad = values.predict(["good", "bad"])
    assert good > bad
    for wrong, said in ((["a", 3], "row 1 is no text"), ("good", "several texts"), ([], "a list or a column")):
        with pytest.raises(ValueError, match=said):
            model.predict(wrong)


def test_the_estimator_the_function_and_the_command_give_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = waves()
    own = SeriesClassifier(**SMALL, settings=Settings(test_fraction=0.25)).fit(X, y)
    flags = {"cell": "mingru", **SMALL, "test_fraction": 0.25}
    run = gatedrnn.train((X, y), output="function", baselines="none", progress=False, **flags)
    words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    call("train", "--train-file", "function/train.parquet", "--output", "command", "--baselines", "none", *words)
    command = gatedrnn.load("command")
    assert run.scores == command.scores and own.scores_["test"] == run.scores["test"]
    of_command = command.model.state_dict()
    for name, weights in run.model.state_dict().items():
        assert weights.equal(of_command[name]), name
        assert weights.equal(own.model_.state_dict()[name].to(weights.dtype)), name


def test_callers_keep_their_random_numbers_and_threads():
    X, y = waves()
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.rand(2).tolist(), np.random.random()
    torch.manual_seed(3)
    np.random.seed(3)
    torch.set_num_threads(2)
    try:
        SeriesClassifier(**SMALL).fit(X, y)
        assert torch.get_num_threads() == 2 and (torch.rand(2).tolist(), np.random.random()) == expected
    finally:
        torch.set_num_threads(1)


WRONG = [
    ({"clp": 1}, "no setting 'clp'; did you mean 'clip'"), ({"clip": -1}, "clip: Input should be greater than 0"),
    ({"horizon": 3}, "horizon belongs to forecast"),
]  # fmt: skip


def test_a_metric_is_checked_by_the_task_that_is_fitted():
    for metric in ("accuracy", "macro-f1", "balanced-accuracy", "r2", "mae", "spearman", "auroc"):
        assert Settings(metric=metric).get_params() == {"metric": metric}
    with pytest.raises(ValueError, match="metric"):
        Settings(metric="perplexity")
    small = {"total_steps": 2, "hidden_size": 8, "threads": 1}
    assert "macro_f1" in TextClassifier(**small, validation_fraction=0.25, settings=Settings(metric="macro-f1")).fit(
        TEXTS * 3, OPINIONS * 3
    ).scores_["validation"]  # fmt: skip
    with pytest.raises(ValueError, match=r"^(data\.)?.*metric"):
        TextRegressor(**small, settings=Settings(metric="macro-f1")).fit(TEXTS, range(len(TEXTS)))


def test_a_cell_may_be_a_class_and_labels_are_not_missing():
    import gatedrnn

    assert (
        SeriesClassifier(cell=gatedrnn.GRU)._asked()["cell"] == SeriesClassifier(cell="GRU")._asked()["cell"] == "gru"
    )
    X, y = waves()
    for missing in (None, np.nan):
        with pytest.raises(ValueError, match="row 3 has no label; remove the row or fill it in"):
            SeriesClassifier(**SMALL).fit(X, pd.Series(y, dtype=object).mask(np.arange(len(y)) == 2, missing))


@pytest.mark.parametrize("settings, said", WRONG)
def test_a_wrong_setting_is_a_value_error_that_names_it(settings, said):
    with pytest.raises(ValueError, match=said):
        SeriesClassifier(**SMALL, settings=Settings(**settings)).fit(*waves())


def test_bad_data_are_value_errors_and_leave_the_estimator_as_it_was(fitted):
    X, y = waves()
    before = fitted.predict_proba(X)
    for data, said in (((X, y * 0), "1 class"), ((X, y[:3]), "inconsistent"), ((X[:1], y[:1]), "1 sample")):
        with pytest.raises(ValueError, match=said):
            clone(fitted).fit(*data)
    for wrong, said in ((X[:, :5], "expecting 12 features"), (np.full((2, 12), np.inf), "inf")):
        with pytest.raises(ValueError, match=said):
            fitted.predict(wrong)
    with pytest.raises(ValueError, match="NaN"):
        SeriesRegressor(**SMALL).fit(X, np.where(y, np.nan, 1.0))
    assert np.array_equal(fitted.predict_proba(X), before)


def test_settings_reach_into_the_record_and_clone_with_it():
    model = SeriesClassifier().set_params(settings__clip=0.5, hidden_size=8)
    assert clone(model).settings == Settings(clip=0.5) and model.get_params()["settings__clip"] == 0.5
    with pytest.raises(ValueError, match="is a parameter and stands in settings"):
        model.set_params(dropout=0.1, settings__dropout=0.2).fit(*waves())


@pytest.mark.slow
def test_pipelines_searches_and_calibration_take_them():
    X, y = waves(36)
    piped = make_pipeline(StandardScaler(), SeriesClassifier(**SMALL))
    grid = {"seriesclassifier__cell": ["mingru", "gru"], "seriesclassifier__hidden_size": [4, 8]}
    search = GridSearchCV(piped, grid, cv=3, n_jobs=2).fit(X, y)
    assert search.best_score_ > 0.9 and len(search.cv_results_["params"]) == 4
    assert cross_val_score(SeriesClassifier(**SMALL), X, y, cv=3).mean() > 0.9
    assert CalibratedClassifierCV(SeriesClassifier(**SMALL), cv=3).fit(X, y).predict_proba(X).shape == (36, 2)


@pytest.mark.slow
def test_another_process_reads_what_was_pickled(fitted, tmp_path):
    X, _ = waves(seed=1)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(fitted))
    np.save(tmp_path / "X.npy", X)
    script = "import numpy, pickle, sys; m = pickle.load(open('model.pkl', 'rb'));"
    script += "numpy.save('told.npy', m.predict_proba(numpy.load('X.npy')))"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert np.array_equal(np.load(tmp_path / "told.npy"), fitted.predict_proba(X))
