"""Speeds of contenders are comparable: the same batches, in turn, in one process."""

import pytest
import torch
from finished_comparison import small_comparison

from gatedrnn.data import load_task, tokens_in
from gatedrnn.study import profile
from gatedrnn.timing import Samples
from gatedrnn.train.loop import Trainer


def test_every_contender_takes_the_same_steps_in_turn(reviews, monkeypatch):
    steps, settings = [], small_comparison(reviews, train={"batch_size": 8})
    step = Trainer._step

    def counted(self, batches, begins, rate):
        (batch,) = batches
        steps.append((self.settings.cell, float(sum(v.double().sum() for v in batch.values()))))
        return step(self, batches, begins, rate)

    monkeypatch.setattr(Trainer, "_step", counted)
    runs = {cell: settings.run(cell, 8, 0) for cell in ("lstm", "mingru")}
    threads = torch.get_num_threads()
    found = profile.training_speed(runs, load_task(settings.data), 0.01)
    batches = {cell: {batch for name, batch in steps if name == cell} for cell in runs}
    assert len(batches["lstm"]) == profile.STEPS and batches["lstm"] == batches["mingru"]
    assert all(one.low <= one.median <= one.high and one.timings >= 1 for one in found.values())
    assert torch.get_num_threads() == threads


def test_a_speed_is_tokens_over_the_median_time(reviews, monkeypatch):
    settings = small_comparison(reviews, train={"batch_size": 8})
    data, run = load_task(settings.data), settings.run("lstm", 8, 0)
    samples = Samples({0: 2.0, 1: 4.0, 2: 8.0}, 1)
    monkeypatch.setattr(profile, "interleave", lambda actions, _: dict.fromkeys(actions, samples))
    found = profile.training_speed({"lstm": run}, data, 0.01)["lstm"]
    batches = [data.train.batch(0, 0, index, run.train.batch_size) for index in range(profile.STEPS)]
    tokens = sum(tokens_in(batch) for batch in batches)
    assert (found.median, found.low, found.high) == pytest.approx((tokens / 4, tokens / 6, tokens / 3))
    assert found.timings == 3
