"""A run that was stopped is of use as it is, can be ended there, and goes on with another length where that may be."""

import threading

import pytest
import torch
from commands import call
from finished import contents, copy_of
from outcomes import assert_same_outcome
from safetensors.torch import load_file
from train_helpers import digits_settings

from gatedrnn.errors import DataError, Interrupted
from gatedrnn.inspect.diagnose import from_run
from gatedrnn.training.answering import Asked, answering
from gatedrnn.training.finished import model_so_far, open_finished
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import run, with_length

CONSTANT = {"schedule": "constant", "warmup": 0.0, "validate_every": 5}


def stopped(folder, step, **train):
    """A run of the digits that is stopped after some steps; what is said then."""
    stop = threading.Event()
    with pytest.raises(Interrupted) as said:
        run(digits_settings(**train), folder, lambda progress: progress.step == step - 1 and stop.set(), stop)
    return str(said.value)


@pytest.fixture(scope="module")
def at_step_12(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "run"
    said = stopped(folder, 12, epochs=1, **CONSTANT)
    assert said == f"{folder}: stopped at step 12 of 21; kept"
    return folder


def test_its_model_is_of_the_best_weights_so_far_and_the_folder_is_left_as_it_was(at_step_12, tmp_path, caplog):
    caplog.set_level("INFO")
    folder = copy_of(at_step_12, tmp_path)
    before, best = contents(folder), load_file(folder / "checkpoint/step-00000012/best.safetensors")
    weights = dict(open_finished(folder).model.named_parameters())
    assert all(torch.equal(weights[name], best[name]) for name in weights)
    assert answering(folder).score("test", None, Asked()).labels == 360
    assert from_run(folder, "test", 4, 8).model.config.hidden_size == 16
    assert contents(folder) == before and "has not ended; the weights of step 1" in caplog.text
    stopped(tmp_path / "early", 3, epochs=1)
    newest = load_file(model_so_far(tmp_path / "early") / "model.safetensors")
    held = load_file(tmp_path / "early/checkpoint/step-00000003/model.safetensors")
    assert all(torch.equal(newest[name], held[name]) for name in newest)


def test_it_is_ended_there_with_the_best_weights_and_a_result(at_step_12, tmp_path):
    folder = copy_of(at_step_12, tmp_path)
    best = load_file(folder / "checkpoint/step-00000012/best.safetensors")
    call("train", "--finish", folder)
    result = RunFolder(folder).finished()
    assert result.steps == 12 and result.best_step in (5, 10) and "test" in result.scores
    held = load_file(folder / "model/model.safetensors")
    assert all(torch.equal(held[name], best[name]) for name in best)
    stopped(tmp_path / "early", 3, epochs=1)
    assert run(digits_settings(epochs=1), tmp_path / "early", end=True).best_step == 3  # validated for it
    with pytest.raises(DataError, match="no checkpoint yet"):
        run(digits_settings(), tmp_path / "none", end=True)


@pytest.mark.parametrize("length", [{"total_steps": 30}, {"epochs": 2}, {"total_steps": 15}])
def test_it_goes_on_with_another_length_to_the_bits_of_a_run_that_had_it_from_the_first(length, at_step_12, tmp_path):
    folder = copy_of(at_step_12, tmp_path)
    run(with_length(folder, length), folder)
    run(digits_settings(**{"epochs": 1, **CONSTANT, **length}), tmp_path / "at-once")
    assert_same_outcome(folder, tmp_path / "at-once")
    assert (folder / "config.yaml").read_bytes() == (tmp_path / "at-once/config.yaml").read_bytes()
    with pytest.raises(DataError, match="has ended"):
        with_length(folder, length)


def test_another_length_is_refused_where_steps_that_are_done_would_have_been_others(at_step_12, tmp_path):
    stopped(tmp_path / "cosine", 12, epochs=1)
    before = contents(tmp_path / "cosine")
    said = (
        r"with 82 steps instead of 21 step 1 would have had the learning rate .* \(--schedule cosine, --warmup 0.05\)"
    )
    with pytest.raises(DataError, match=said):
        with_length(tmp_path / "cosine", {"total_steps": 82})
    with pytest.raises(DataError, match="has done 12 of 9 steps already"):
        with_length(at_step_12, {"total_steps": 9})
    assert contents(tmp_path / "cosine") == before
