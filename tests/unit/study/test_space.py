"""A space is drawn from evenly, alike for all contenders where theirs agree, and refuses what no run could have."""

import math

import numpy as np
import pytest
from train_helpers import digits_settings

from gatedrnn.errors import UsageError
from gatedrnn.study.space import Dimension, Space, default_space, draw, read_space
from gatedrnn.train.recipes import RECIPES
from gatedrnn.train.settings import ModelSettings, TrainSettings

RATE = {"learning_rate": {"low": 1e-4, "high": 1e-1, "scale": "log"}}


def space(**changes):
    shared = {**RATE, "batch_size": {"choices": [32, 64, 128]}, "head_dropout": {"low": 0.0, "high": 0.5}}
    return Space.model_validate({"shared": shared, **changes})


def values(of, cell="mingru", seed=0, trials=50):
    return [draw(of, digits_settings(cell), seed, trial).values for trial in range(trials)]


def test_draws_fill_a_range_evenly_on_its_scale():
    found = values(space(), trials=400)
    for name, share in {
        "learning_rate": [math.log10(own["learning_rate"] / 1e-4) / 3 for own in found],
        "head_dropout": [own["head_dropout"] / 0.5 for own in found],
    }.items():
        assert np.histogram(share, bins=4, range=(0, 1))[0].min() > 70, name
    assert min([own["batch_size"] for own in found].count(size) for size in (32, 64, 128)) > 100


def test_contenders_draw_the_same_wherever_their_spaces_agree():
    own = space(contenders={"gru": {"learning_rate": {"low": 1e-5, "high": 1e-3, "scale": "log"}}})
    mingru, gru = values(own), values(own, "gru")
    for one, other in zip(mingru, gru, strict=True):
        assert {k: v for k, v in one.items() if k != "learning_rate"} == {
            k: v for k, v in other.items() if k != "learning_rate"
        }
        # The same random number, on another range.
        assert math.log(one["learning_rate"] / 1e-4) / 3 == pytest.approx(math.log(other["learning_rate"] / 1e-5) / 2)
    fewer = Space.model_validate({"shared": RATE})
    assert [own["learning_rate"] for own in values(fewer)] == [own["learning_rate"] for own in mingru]


def test_another_seed_and_another_trial_draw_other_values():
    found = values(space()) + values(space(), seed=1)
    assert len({own["learning_rate"] for own in found}) == len(found)


def test_a_draw_is_a_run_with_those_values_and_no_other_change():
    run = digits_settings()
    found, own = draw(space(), run, 0, 0)
    assert found.train.learning_rate == own["learning_rate"] and found.train.batch_size == own["batch_size"]
    assert found.model.head_dropout == own["head_dropout"]
    changed = {"learning_rate", "batch_size", "head_dropout"}
    assert {k for k, v in found.flat().items() if v != run.flat()[k]} <= changed


def test_a_contender_has_only_the_dimensions_that_are_its_own():
    every = Space.model_validate({
        "shared": {**RATE, "weight_dropout": {"low": 0, "high": 0.5}, "zoneout": {"low": 0, "high": 0.3}}
    })  # fmt: skip
    assert list(every.of(digits_settings("gru"))) == ["learning_rate", "weight_dropout", "zoneout"]
    assert list(every.of(digits_settings("mingru"))) == ["learning_rate", "zoneout"]
    assert list(every.of(digits_settings("transformer"))) == ["learning_rate"]


def test_a_value_at_an_edge_is_told():
    for dimension, edges in (
        ({"low": 1e-4, "high": 1e-2, "scale": "log"}, {1.1e-4: "lowest", 1e-3: None, 9e-3: "highest"}),
        ({"low": 0.0, "high": 0.5}, {0.001: None, 0.49: "highest"}),  # there is nothing below 0
        ({"low": 0.1, "high": 0.5}, {0.101: "lowest"}),
        ({"choices": [128, 32, 64]}, {32: "lowest", 64: None, 128: "highest"}),
        ({"choices": ["cosine", "linear"]}, {"cosine": None}),
    ):
        own = Dimension.model_validate(dimension)
        assert {value: own.edge(value) for value in edges} == edges, dimension


def test_every_task_has_a_space_around_its_recipe():
    for task, recipe in RECIPES.items():
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

    def refusal() -> str:
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
