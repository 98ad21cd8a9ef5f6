"""The recipe of texts grows with them, within bounds, and is made of flags of `gatedrnn train`."""

from itertools import pairwise

from gatedrnn.train.settings import ModelSettings, TrainSettings
from gatedrnn.train.text_recipe import FEWEST_STEPS, text_recipe


def test_more_texts_and_more_classes_take_more_steps_and_fewer_passes():
    sizes = (1, 30, 500, 2_000, 10_000, 150_000)
    for classes in (2, 6):
        steps = [text_recipe(rows, classes)["total_steps"] for rows in sizes]
        assert steps[0] == FEWEST_STEPS and all(few <= more for few, more in pairwise(steps))
        assert all(
            few / rows > more / others for (few, rows), (more, others) in pairwise(zip(steps, sizes, strict=True))
        )
    assert text_recipe(500, 6)["total_steps"] > text_recipe(500, 2)["total_steps"]
    assert text_recipe(500, 1) == text_recipe(500, 2)
    assert text_recipe(500, 2)["linear_path"] and not text_recipe(500, 2, several=True)["linear_path"]
    assert text_recipe(500, 2).keys() <= {*ModelSettings.model_fields, *TrainSettings.model_fields}
