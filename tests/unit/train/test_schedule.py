"""The learning rate as a function of the step."""

import pytest

from gatedrnn.train.optimise import Plateau, learning_rate_at
from gatedrnn.train.settings import TrainSettings


def rates(schedule: str, total: int = 100) -> list[float]:
    settings = TrainSettings(schedule=schedule, learning_rate=1.0, warmup=0.1)
    return [learning_rate_at(step, total, settings) for step in range(total)]


def test_the_rate_rises_in_equal_parts_to_its_highest() -> None:
    for schedule in ("cosine", "linear", "constant", "plateau"):
        assert rates(schedule)[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
        assert max(rates(schedule)) == 1.0


def test_the_line_and_the_cosine_fall_to_zero_and_cross_half_way() -> None:
    for schedule in ("linear", "cosine"):
        after = rates(schedule)[10:]
        assert after == sorted(after, reverse=True)
        assert after[45] == pytest.approx(0.5)
        assert after[-1] < 0.02


def test_the_plateau_rule_halves_after_more_than_patience_evaluations_without_a_lower_loss() -> None:
    plateau, factors = Plateau(patience=1), []
    for loss in (1.0, 0.9, 0.9, 0.95, 0.8, 0.9, 0.9, 0.9, 0.9):
        plateau.update(loss)
        factors.append(plateau.factor)
    assert factors == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
