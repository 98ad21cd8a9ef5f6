"""The recipe of texts grows with them, within bounds, and is made of flags of `gatedrnn train`."""

from itertools import pairwise

from gatedrnn.data.registry import settings_of
from gatedrnn.tasks.text.chosen import _MIN_TEXT_STEPS, SHORT, text_recipe
from gatedrnn.training.settings import ModelSettings, TrainSettings


def values(rows, classes):
    return {name: one.value for name, one in text_recipe([20] * rows, classes).items()}


def test_more_texts_and_more_classes_take_more_steps_and_fewer_passes():
    sizes = (1, 30, 500, 2_000, 10_000, 150_000)
    for classes in (2, 6):
        steps = [values(rows, classes)["total_steps"] for rows in sizes]
        assert steps[0] == _MIN_TEXT_STEPS and all(few <= more for few, more in pairwise(steps))
        assert all(
            few / rows > more / others for (few, rows), (more, others) in pairwise(zip(steps, sizes, strict=True))
        )
    assert values(500, 6)["total_steps"] > values(500, 2)["total_steps"]
    assert values(500, 0) == values(500, 1) == values(500, 2), "numbers are as two classes"


def test_long_texts_are_read_whole_but_for_the_longest():
    assert "max_tokens" not in text_recipe([SHORT] * 100, 2), "no text is longer: the recipe's own bound does"
    assert text_recipe([30] * 999 + [2048], 2)["max_tokens"].value == SHORT
    assert text_recipe([700] * 990 + [2048] * 10, 2)["max_tokens"].value == 700 < 2048


def test_all_of_it_are_flags():
    of_text = settings_of("text-classification").model_fields
    flags = {*of_text, *ModelSettings.model_fields, *TrainSettings.model_fields}
    assert text_recipe([3000] * 500, 2).keys() == {"total_steps", "max_tokens"} <= flags
