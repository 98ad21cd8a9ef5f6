"""Equal layers, equal parameters: who is compared with whom."""

from dataclasses import replace
from typing import Any

import pytest

from gatedrnn.data import data_settings, load_task
from gatedrnn.errors import NoMatch
from gatedrnn.registry import CELLS
from gatedrnn.study.match import Contender, contenders, solve_width
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.train.settings import ModelSettings, TrainSettings


def settings(model: dict[str, Any] | None = None, **chosen: Any) -> CompareSettings:
    return CompareSettings(
        contenders=ContenderSettings(**chosen), threads=1, data=data_settings(task="digits"),
        model=ModelSettings(**model or {}), train=TrainSettings(),
    )  # fmt: skip


def planned(model: dict[str, Any] | None = None, **chosen: Any) -> dict[str, Any]:
    comparison = settings(model, **chosen)
    return {contender.name: contender for contender in contenders(comparison, load_task(comparison.data))}


@pytest.fixture(scope="module")
def found():
    """The cells of the recipe, by name."""
    return planned(hidden_size=64)


def test_every_cell_is_a_contender_once_for_each_kind_of_match_and_the_baseline_once_for_both(
    found,
):
    assert list(found) == [
        "lstm", "gru-layers", "minlstm-layers", "mingru-layers", "gru-params", "minlstm-params", "mingru-params",
    ]  # fmt: skip
    option = replace(found["gru-layers"], cell="gru:reset_after=false")
    assert option.name == "gru.reset_after=false-layers", "a name is a folder's, which may have no colon"


def test_core_parameters_are_those_of_the_formulas(found):
    width = state = 64
    assert found["lstm"].parameters.core == 4 * state * (width + state) + 8 * state
    assert found["gru-layers"].parameters.core == 3 * state * (width + state) + 6 * state
    assert found["minlstm-layers"].parameters.core == 3 * state * width + 3 * state
    assert found["mingru-layers"].parameters.core == 2 * state * width + 2 * state


def test_matched_layers_have_one_depth_and_width():
    found = planned({"layers": 2}, match=["layers"], hidden_size=48)
    assert {(e.structure.layers, e.hidden_size) for e in found.values()} == {(2, 48)}


@pytest.mark.parametrize(
    ("match", "model", "cells"),
    [
        ("params", {}, ["lstm", "gru", "minlstm"]),
        ("params", {"layers": 3, "block": True}, ["lstm", "mingru"]),
        ("multiply-adds", {"layers": 3}, ["lstm", "mingru", "transformer"]),
    ],
)
def test_what_is_matched_is_the_nearest_that_an_integer_width_gives(match, model, cells):
    def size(contender: Contender) -> int:
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


@pytest.mark.parametrize("expansion", [1, 2, 3, 4])
def test_the_papers_ratios_of_parameters_follow_from_the_counts(expansion):
    """Without biases: minGRU / GRU = 2 / (3 (1 + a)) and minLSTM / LSTM = 3 / (4 (1 + a)) at hidden = a * input."""

    def count(cell: str) -> int:
        return sum(p.numel() for p in CELLS[cell].layer(24, 24 * expansion, bias=False).parameters())

    assert count("mingru") / count("gru") == pytest.approx(2 / (3 * (1 + expansion)))
    assert count("minlstm") / count("lstm") == pytest.approx(3 / (4 * (1 + expansion)))


def test_with_a_block_embedding_block_and_head_are_equal_and_the_projection_counts_as_core():
    found = planned({"block": True, "layers": 2}, hidden_size=32)
    for part in ("embedding", "block", "head"):
        assert len({getattr(contender.parameters, part) for contender in found.values()}) == 1
    mingru = found["mingru-layers"]
    assert mingru.parameters.core == 2 * (2 * 32 * 64 + 2 * 32 + 32 * 64)


def test_a_width_that_no_match_can_reach_names_the_nearest():
    comparison = settings({"embedding_size": 512}, cells=["mingru", "lstm"], hidden_size=1)
    with pytest.raises(NoMatch, match=r"lstm: no hidden_size .* within 5 %.* the nearest are 1 .* and 2 "):
        solve_width(comparison, load_task(comparison.data), "lstm", 1500)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"cells": ["lstm", "mingur"]}, "did you mean 'mingru'"),
        ({"cells": ["lstm", "lstm"]}, "each once"),
        ({"seeds": []}, "each once"),
        ({"seeds": [-1]}, "greater than or equal to 0"),
        ({"hidden_size": 0}, "greater than or equal to 1"),
    ],
)
def test_contenders_that_make_no_sense_are_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        ContenderSettings(**chosen)
