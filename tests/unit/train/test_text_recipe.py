"""The recipe of texts grows with them, within bounds, and is made of flags of `gatedrnn train`."""

from itertools import pairwise

from gatedrnn.data import TextTask
from gatedrnn.train.recipes import RECIPES
from gatedrnn.train.settings import ModelSettings, TrainSettings
from gatedrnn.train.text_recipe import FEWEST_STEPS, TOKENS, text_recipe


def test_more_texts_and_more_classes_take_more_steps_and_fewer_passes_and_long_texts_more_tokens():
    sizes = (1, 30, 500, 2_000, 10_000, 150_000)
    for classes in (2, 6):
        steps = [text_recipe(rows, [20] * rows, classes)["total_steps"] for rows in sizes]
        assert steps[0] == FEWEST_STEPS and all(few <= more for few, more in pairwise(steps))
        assert all(
            few / rows > more / others for (few, rows), (more, others) in pairwise(zip(steps, sizes, strict=True))
        )
    assert text_recipe(500, [20], 6)["total_steps"] > text_recipe(500, [20], 2)["total_steps"]
    assert text_recipe(500, [20], 1) == text_recipe(500, [20], 2)
    longest = [text_recipe(9, [length] * 9, 2)["max_tokens"] for length in (1, 64, 65, 300, 10_000)]
    assert longest == [64, 64, 128, 320, 512] and (min(longest), max(longest)) == TOKENS
    assert text_recipe(1_000, [10] * 999 + [400], 2)["max_tokens"] == 64, "one long text among a thousand is cut"
    assert text_recipe(0, [], 2)["max_tokens"] == 64


def test_what_the_recipe_chooses_are_settings_that_it_does_not_fix():
    fixed = {name for part in RECIPES["text-classification"].values() for name in part}
    known = {*TextTask.model_fields, *ModelSettings.model_fields, *TrainSettings.model_fields}
    chosen = set(text_recipe(500, [20], 2))
    assert chosen <= known and chosen & fixed <= {"max_tokens"}, "which is for data whose lengths are not yet known"
