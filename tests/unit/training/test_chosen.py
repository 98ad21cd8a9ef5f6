"""The values of a recipe that the data decide: taken where nobody gave them, and the same wherever they are asked
for.
"""

import json

import numpy as np
import pytest
from commands import call

from gatedrnn.data import data_settings, load_task
from gatedrnn.tasks.series.chosen import series_recipe
from gatedrnn.tasks.text.chosen import text_recipe
from gatedrnn.training import resources
from gatedrnn.training.chosen import completed
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.recipes import recipe_of
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.task import task_named

SERIES = "series-classification"


def texts(place, rows):
    lines = [f"{'fine' if n % 3 else 'poor'} film {n % 9},{'good' if n % 3 else 'bad'}" for n in range(rows)]
    place.write_text("text,label\n" + "\n".join(lines) + "\n")
    return place


def series(place, gap):
    """Forty series of nine steps, of which some are further apart."""
    times = np.cumsum(1 + gap * (np.arange(9) % 2))
    lines = [f"s{n},{time},{np.sin(time + n):.3f},{'up' if n % 2 else 'down'}" for n in range(40) for time in times]
    place.write_text("series,time,x,label\n" + "\n".join(lines) + "\n")
    return place


def settings_of(task, file, whole=True, **flags):
    recipe = recipe_of(task, whole=whole)
    return RunSettings.from_flat({"cell": "mingru", "task": task, "train_file": str(file), **recipe, **flags})


def test_texts_decide_steps_and_have_a_linear_path_whatever_their_labels(tmp_path):
    settings = settings_of("text-classification", texts(tmp_path / "a.csv", 500))
    found = completed(settings, ())
    steps = text_recipe([3] * 400, 2)["total_steps"].value
    assert found.train.total_steps == steps != 0 and found.model.linear_path
    assert found.data == settings.data, "texts are read once"
    assert completed(settings, ("total_steps", "linear_path")) == settings
    assert completed(settings, ("epochs",)).train.total_steps == 0, "epochs are in the place of steps"
    (tmp_path / "b.csv").write_text("text,label\n" + "\n".join(f"a {n},{'x|y' if n % 2 else 'y'}" for n in range(40)))
    several = settings_of("text-classification", tmp_path / "b.csv", several_labels=True)
    assert completed(several, ()).model.linear_path
    (tmp_path / "c.csv").write_text("text,label\n" + "\n".join(f"a {n},{n / 7}" for n in range(400)))
    numbers = completed(settings_of("text-regression", tmp_path / "c.csv"), ())
    assert numbers.model.linear_path and numbers.train.total_steps == text_recipe([3] * 320, 0)["total_steps"].value


def test_series_decide_their_parts_and_uneven_ones_have_the_cells_alone(tmp_path):
    even = settings_of(SERIES, series(tmp_path / "even.csv", 0))
    rows = len(load_task(even.data).train)
    assert task_named(even.data.task).chosen(load_task(even.data)) == series_recipe(rows, 9, 1, 2)
    assert completed(even, ()).model.convolution_size
    uneven = completed(settings_of(SERIES, series(tmp_path / "uneven.csv", 3), uneven=True), ())
    assert uneven == completed(settings_of(SERIES, tmp_path / "uneven.csv", whole=False, uneven=True), ())
    assert not uneven.model.convolution_size and not uneven.model.random_convolutions


@pytest.mark.parametrize("task", ["digits", "language-model"])
def test_other_recipes_are_fixed(task):
    settings = RunSettings.from_flat({"cell": "gru", "task": task, **recipe_of(task, whole=True)})
    assert completed(settings, ()) is settings


def test_a_run_records_what_was_chosen_and_runs_again_from_its_record(tmp_path):
    small = ["--hidden-size", 4, "--embedding-size", 4, "--character-grams", 0, "--threads", 1, "--baselines", "none"]
    for name, further in (("one", []), ("two", ["--config", tmp_path / "one" / "config.yaml"])):
        flags = [] if further else ["--train-file", texts(tmp_path / "a.csv", 60), *small]
        call("train", *flags, *further, "--output", tmp_path / name)
    assert RunFolder(tmp_path / "one").settings().train.total_steps == 60
    first, second = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two"))
    assert {**first, "measured": None} == {**second, "measured": None}
    assert data_settings("text-classification").validation_fraction == 0.1


def test_a_batch_that_does_not_fit_into_memory_is_halved_until_it_does(tmp_path, monkeypatch):
    (tmp_path / "long.csv").write_text("text,label\n" + "".join(f"{f'word{n} ' * 1100},{n % 2}\n" for n in range(12)))
    flags = {"hidden_size": 4, "embedding_size": 4, "character_grams": 0, "word_vectors": False, "linear_path": False}
    settings = settings_of("text-classification", tmp_path / "long.csv", **flags)
    kept = resources._kept_for_backward(settings, data := load_task(settings.data), data.train.collate(np.array([0])))
    assert kept > 4 * 1100 * 4, "the embedding of each token at least"
    monkeypatch.setattr(resources, "check_room", lambda *_: None)
    for batch in (16, 1):
        monkeypatch.setattr(resources, "_available", lambda batch=batch, **_: 1.5 * batch * kept / resources.SHARE)
        assert completed(settings, ("linear_path",)).train.batch_size == batch
    assert completed(settings, ("linear_path", "batch_size")).train.batch_size == 64


def test_many_series_of_a_table_are_trained_for_more_steps_and_many_values_by_a_larger_network(tmp_path, monkeypatch):
    for series in (99, 100):
        lines = [f"s{n},{time},{(n + time) % 5}" for n in range(series) for time in range(30)]
        (tmp_path / "table.csv").write_text("unique_id,ds,y\n" + "\n".join(lines) + "\n")
        settings = settings_of("forecast", tmp_path / "table.csv")
        assert completed(settings, ()).train.total_steps == (400 if series == 100 else 200)
        assert completed(settings, ("total_steps",)) == settings
    (tmp_path / "one.csv").write_text("ds,y\n" + "\n".join(f"{time},{time % 5}" for time in range(60)) + "\n")
    single = settings_of("forecast", tmp_path / "one.csv")
    assert {name: one.value for name, one in task_named("forecast").chosen(load_task(single.data)).items()} == {
        "batch_size": 16, "total_steps": 120,
    }  # fmt: skip
    assert completed(single, ("batch_size", "total_steps")) == single
    monkeypatch.setattr("gatedrnn.tasks.forecast.chosen._MANY_VALUES", 1_000)
    large = completed(settings, ("hidden_size",))
    assert large.train.total_steps == 1_000 and large.model.layers == 2
    assert large.hidden_size == settings.hidden_size and completed(settings, ()).hidden_size == 128
