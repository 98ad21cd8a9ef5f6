"""Records go into JSON and come back, numbers that JSON does not have among them."""

import json
import math

import pytest

from gatedrnn.train.result import Scores, read_record


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("loss", [math.inf, -math.inf, 1.5])
def test_a_loss_beyond_all_numbers_is_kept_in_plain_json(loss, tmp_path):
    """As of a rectifier's state, which has no bound, at a length far beyond that of training."""
    scores = Scores(loss=loss, accuracy=math.nan)
    scores.write(tmp_path / "scores.json")
    json.loads((tmp_path / "scores.json").read_text(), parse_constant=no_constant)
    found = read_record(tmp_path / "scores.json", Scores)
    assert found.loss == loss and math.isnan(found.accuracy) and found.mase is None
