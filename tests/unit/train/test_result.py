"""Records go into JSON and come back, numbers that JSON does not have among them."""

import json
import math

from gatedrnn.train.result import Scores, read_record


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def test_a_loss_beyond_all_numbers_is_kept_in_plain_json(tmp_path):
    """As of a rectifier's state, which has no bound, at a length far beyond that of training."""
    for loss in (math.inf, -math.inf, 1.5):
        Scores(loss=loss, accuracy=math.nan).write(tmp_path / "scores.json")
        json.loads((tmp_path / "scores.json").read_text(), parse_constant=no_constant)
        found = read_record(tmp_path / "scores.json", Scores)
        assert found.loss == loss and math.isnan(found.accuracy) and found.mase is None
