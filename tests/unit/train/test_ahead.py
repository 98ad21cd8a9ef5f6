"""Batches that processes prepare ahead of the step: no bit of a run changes, resumed in the middle of an epoch too."""

import pytest
import torch
from outcomes import Killed, assert_same_outcome, killed_at
from train_helpers import digits_run, small_text, text_run

from gatedrnn.data import load_task
from gatedrnn.data.ahead import StepBatches
from gatedrnn.train.loop import run


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return small_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_bring_the_batches_of_each_step_in_turn(workers, accumulate, text):
    for settings in (digits_run(), text_run(text)):
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


def test_a_run_with_workers_has_the_bits_of_one_without(text, tmp_path):
    settings = text_run(text)
    run(settings, tmp_path / "without")
    run(settings, tmp_path / "with", workers=2)
    assert_same_outcome(tmp_path / "without", tmp_path / "with")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(9), workers=2)
    result = run(settings, tmp_path / "killed", workers=1)
    assert_same_outcome(tmp_path / "without", tmp_path / "killed")
    assert 0 <= result.measured.waiting_share <= 1
