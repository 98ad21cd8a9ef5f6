"""The unit of a series changes nothing, nor what is added to all of it: of every task on numbers."""

from typing import cast

import numpy as np
import pytest
import torch
from scipy.io import wavfile
from tolerances import assert_equal_within

from gatedrnn.data import Examples, Windows, data_settings, load_task
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.tasks.forecast.forecasts import quantiles_of
from gatedrnn.tasks.forecast.read import asked_of, read_tables
from gatedrnn.training.loop import run
from gatedrnn.training.model import build_model
from gatedrnn.training.predict import outputs_of
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

SERIES, STEPS, UP = 40, 60, 2.0**20
CHANGES = {"small": (1e-6, 0.0), "large": (1e6, 0.0), "shifted": (1.0, 1e9)}
TASKS = ("long", "long-regression", "ts", "measurements", "wav", "forecast", "flat-and-flatter", "demand")


def values(kind):
    """(series, steps), of classes by their slope; or demand, zero but now and then."""
    random = np.random.default_rng(0)
    if kind == "demand":
        return np.where(random.random((6, STEPS)) < 0.15, random.poisson(4, (6, STEPS)) + 1.0, 0.0)
    found = np.arange(12) * np.where(np.arange(SERIES) % 2, 1, -1)[:, None] / 4 + random.normal(size=(SERIES, 12))
    if kind.startswith(("forecast", "flat")):
        found = random.normal(size=(2, STEPS)) / 4 + np.sin(np.arange(STEPS) * np.pi / 6)
        found[1, 10:40] = found[1, 10] if kind.startswith("flat") else found[1, 10:40]  # windows of equal values
    return found


def written(folder, kind, change):
    """The file of a task, its numbers in another unit and shifted; and the settings that read it."""
    factor, shift = change
    found = values(kind) * factor + shift
    rows = [(n, step, repr(float(value))) for n, series in enumerate(found) for step, value in enumerate(series)]
    names, file = ["up" if n % 2 else "down" for n in range(len(found))], folder / "series.csv"
    task, given = "series-classification", {}
    if kind == "ts":
        file = folder / "series.ts"
        lines = [",".join(map(repr, map(float, own))) + f":{name}" for own, name in zip(found, names, strict=True)]
        file.write_text("@classLabel true up down\n@data\n" + "\n".join(lines) + "\n")
    elif kind == "wav":
        for n, own in enumerate(found):
            wavfile.write(folder / f"{n}.wav", 8000, own)
        lines = [f"{n}.wav,{name}" for n, name in enumerate(names)]
        file.write_text("\n".join(["file,label", *lines]) + "\n")
        given = {"frames": "samples"}
    elif kind == "measurements":
        lines = [f"s{n},{step},heat,{value},{names[n]}" for n, step, value in rows]
        file.write_text("\n".join(["id,time,parameter,value,label", *lines]) + "\n")
    elif kind.startswith("long"):
        labels = names if kind == "long" else [repr(float(own.mean())) for own in found]
        lines = [f"s{n},{step},{value},{labels[n]}" for n, step, value in rows]
        file.write_text("\n".join(["id,time,heat,label", *lines]) + "\n")
        task = "series-classification" if kind == "long" else "series-regression"
    else:
        past = [repr(float(step % 7 * factor + shift)) for step in range(STEPS)]
        lines = [f"s{n},{step},{value},{past[step]}" for n, step, value in rows]
        file.write_text("\n".join(["id,time,y,rain", *lines]) + "\n")
        task, given = "forecast", {"horizon": 3, "season": (4,), "context": 8, "past": ("rain",)}
    return data_settings(task, train_file=file, **given)


def settings_of(data):
    return RunSettings(
        cell="mingru", hidden_size=8, threads=1, data=data, model=ModelSettings(embedding_size=4, layers=1),
        train=TrainSettings(total_steps=3, batch_size=8, learning_rate=0.01, validate_every=3),
    )  # fmt: skip


def prepared_and_predicted(folder, kind, change):
    """The inputs of the first layer in the validation part, and the predictions of fixed weights for it, in the unit
    and without the shift that were not there."""
    folder.mkdir()
    settings, (factor, shift) = settings_of(written(folder, kind, change)), change
    data = load_task(settings.data)
    torch.manual_seed(0)
    model = build_model(settings, data).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    split = data.evaluation["validation"]
    if isinstance(split, Windows):
        model = cast(GatedRNNForForecasting, model)
        batch = split.collate(split.places)
        labels = split.collate(data.train.training_places)["labels"]
        inputs = model.inputs_of(**{name: own for name, own in batch.items() if name != "labels"})
        asked = asked_of(read_tables(settings.data).table, (), 8, 3)
        loss = model(**batch).loss.detach()
        read = torch.cat([model.model.embeddings.scale(inputs).flatten(), loss.view(1)])
        assert labels.isfinite().any()
        return read, (quantiles_of(model, asked) - shift) / factor
    split = cast(Examples, split)
    batch = split.collate(np.arange(len(split)))
    scale = model.model.uneven.scale if model.model.uneven is not None else model.model.embeddings.scale
    finished = type("Finished", (), {"model": model, "labelled": "sequence"})
    found = np.stack(outputs_of(finished, split.inputs, split.gaps))
    return scale(batch["input_values"]), (found - shift) / factor if kind == "long-regression" else found


@pytest.mark.parametrize("kind", TASKS)
def test_prepared_arrays_and_predictions_of_fixed_weights_do_not_depend_on_unit_and_shift(kind, tmp_path):
    read, predicted = prepared_and_predicted(tmp_path / "as-it-is", kind, (1.0, 0.0))
    assert read.isfinite().all() and read.std() > 0.1
    for name, change in CHANGES.items():
        if kind == "demand" and change[1]:
            continue  # 0 means that nothing was sold: forecasts stop there, and not where it is shifted to
        other, again = prepared_and_predicted(tmp_path / name, kind, change)
        torch.testing.assert_close(other, read, rtol=1e-6, atol=2e-6, msg=lambda said, name=name: f"{name}: {said}")
        assert_equal_within(again, predicted, torch.float32, f"predictions, {name}")


@pytest.mark.parametrize("kind", ["long", "long-regression", "forecast", "demand"])
def test_trained_scores_of_powers_of_two_are_equal_to_the_bit(kind, tmp_path):
    scores = []
    for factor in (1.0, UP, 1 / UP):
        folder = tmp_path / str(factor)
        folder.mkdir()
        result = run(settings_of(written(folder, kind, (factor, 0.0))), folder / "run")
        scores.append({split: own.model_dump(exclude={"mae"}) for split, own in result.scores.items()})
    assert scores[0] == scores[1] == scores[2]
