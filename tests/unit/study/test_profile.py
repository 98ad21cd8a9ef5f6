"""Speeds of contenders are comparable: the same batches, in turn, in one process."""

import pytest
import torch
from test_experiment import small

from gatedrnn.data import load_task, tokens_in
from gatedrnn.study import profile
from gatedrnn.study.experiment import compare
from gatedrnn.study.tables import score_rows
from gatedrnn.timing import Samples
from gatedrnn.train.loop import Trainer


def test_every_contender_takes_the_same_steps_in_turn(monkeypatch):
    steps, settings = [], small()
    step = Trainer._step

    def counted(self, batches, begins, rate):
        (batch,) = batches
        steps.append((self.settings.cell, float(sum(v.double().sum() for v in batch.values()))))
        return step(self, batches, begins, rate)

    monkeypatch.setattr(Trainer, "_step", counted)
    runs = {cell: settings.run(cell, 8, 0) for cell in ("lstm", "mingru")}
    threads = torch.get_num_threads()
    found = profile.training_speed(runs, load_task(settings.data), 0.05)
    batches = {cell: {batch for name, batch in steps if name == cell} for cell in runs}
    assert len(batches["lstm"]) == profile.STEPS and batches["lstm"] == batches["mingru"]
    assert all(one.low <= one.median <= one.high and one.timings >= 1 for one in found.values())
    assert torch.get_num_threads() == threads


def test_a_speed_is_tokens_over_the_median_time(monkeypatch):
    settings = small()
    data, run = load_task(settings.data), settings.run("lstm", 8, 0)
    monkeypatch.setattr(
        profile, "interleave", lambda actions, _: dict.fromkeys(actions, Samples({0: 2.0, 1: 4.0, 2: 8.0}, 1))
    )
    found = profile.training_speed({"lstm": run}, data, 0.05)["lstm"]
    batches = [data.train.batch(0, 0, index, run.train.batch_size) for index in range(profile.STEPS)]
    tokens = sum(tokens_in(batch) for batch in batches)
    assert (found.median, found.low, found.high) == pytest.approx((tokens / 4, tokens / 6, tokens / 3))
    assert found.timings == 3


@pytest.mark.slow
def test_a_speed_is_measured_once_and_shown(tmp_path, monkeypatch):
    folder = tmp_path / "comparison"
    results = compare(small(), folder)
    shown = {row["contender"]: row["tokens/s"] for row in score_rows(results)}
    for name, one in results.measured.speed.items():
        assert shown[name] == f"{one.median:,.0f}"
    monkeypatch.setattr("gatedrnn.study.experiment.training_speed", lambda *_: pytest.fail("measured again"))
    assert compare(small(), folder).measured.speed == results.measured.speed
