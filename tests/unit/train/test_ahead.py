"""Batches that processes prepare ahead of the step: no bit of a run changes, resumed in the middle of an epoch too."""

from pathlib import Path

import pytest
import torch
from outcomes import Killed, assert_same_outcome, killed_at
from train_helpers import digits_settings, text_settings

from gatedrnn.data import load_task
from gatedrnn.data.ahead import StepBatches
from gatedrnn.train.loop import run


@pytest.mark.parametrize("workers, accumulate", [(1, 1), (2, 3)])
def test_workers_bring_the_batches_of_each_step_in_turn(workers: int, accumulate: int, book: Path) -> None:
    for settings in (digits_settings(), text_settings(book)):
        data = load_task(settings.data)
        batches = StepBatches(data.train, 3, settings.train.batch_size, accumulate)
        steps = range(batches.steps_per_epoch - 2, batches.steps_per_epoch + 3)  # over the end of an epoch
        before = torch.random.get_rng_state()
        found = list(batches.ahead(steps, workers))
        assert torch.equal(torch.random.get_rng_state(), before), "a number was drawn that dropout should have"
        for got, want in zip(found, map(batches.__getitem__, steps), strict=True):
            assert len(got) == len(want)
            for one, other in zip(got, want, strict=True):
                assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_a_run_with_workers_has_the_bits_of_one_without(book: Path, text_run: Path, tmp_path: Path) -> None:
    settings = text_settings(book)
    with pytest.raises(Killed):
        run(settings, tmp_path / "run", killed_at(9), workers=2)
    result = run(settings, tmp_path / "run", workers=1)
    assert_same_outcome(text_run, tmp_path / "run")
    assert 0 <= result.measured.waiting_share <= 1
