"""The precision that a measurement chooses is the run's; a compiled model trains as the model does."""

import pytest
import torch
import yaml
from commands import call, outcome
from refusals import refused
from small_bench import SIZES
from train_helpers import digits_settings

from benchmarks.standards import standards
from benchmarks.steps import training_step
from gatedrnn.data import load_task
from gatedrnn.errors import UsageError
from gatedrnn.training import precision
from gatedrnn.training.loop import run

TRAIN = "train --task digits --epochs 1 --hidden-size 8 --embedding-size 8 --threads 1"
STANDARDS = {standard.title: standard for standard in standards(SIZES)}


@pytest.mark.parametrize(("ratio", "found"), [(0.9, "bfloat16"), (1.1, "float32")])
def test_the_faster_precision_is_written_into_the_configuration(ratio, found, monkeypatch, tmp_path):
    monkeypatch.setattr(precision, "_ratio", lambda settings, data: ratio)
    monkeypatch.setattr(precision, "_has_amx", lambda: False)
    call(*TRAIN.split(), "--precision", "auto", "--output", tmp_path / "run")
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["precision"] == found


@pytest.mark.slow
def test_a_ratio_is_measured_here_and_by_a_process_whose_end_leaves_float32(monkeypatch):
    """A processor that announces AMX is one whose machine may end the process."""
    settings = digits_settings(precision="auto")
    state = torch.get_rng_state()
    assert 0 < precision._ratio(settings, load_task(settings.data)) < 100
    assert torch.equal(torch.get_rng_state(), state), "the run's random numbers are its own"
    monkeypatch.setattr(precision, "SECONDS", 0.1)
    assert 0 < precision._ratio_in_child(settings) < 100
    monkeypatch.setattr(precision, "_has_amx", lambda: True)
    monkeypatch.setattr(precision, "_CHILD", "import os; os._exit(132)")
    assert precision.faster_precision(settings, load_task(settings.data)) == "float32"


def test_a_comparison_and_several_processes_name_their_precision(capsys, monkeypatch, tmp_path):
    given = ("--precision", "auto", "--output", tmp_path / "run")
    code, said = outcome(capsys, "compare", "--task", "digits", *given)
    assert code == 2 and "name one for all" in said
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, said = outcome(capsys, *TRAIN.split(), *given)
    assert code == 2 and "name the precision" in said


def test_without_a_compiler_a_run_that_needs_one_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    refused(UsageError, "no-such-compiler is not there", run, digits_settings(compile=True), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["mingru", "lstm"])
@pytest.mark.parametrize("title", STANDARDS)
def test_a_model_is_compiled_as_one_graph_and_its_loss_is_the_models(title, cell):
    step = training_step(STANDARDS[title], cell, 0)
    step.model.eval().config.use_cache = False
    expected = step.loss_of_batch()
    step.model.compile(fullgraph=True)
    torch._dynamo.reset()
    torch.testing.assert_close(step.loss_of_batch(), expected, rtol=1e-4, atol=1e-5)
    step.train_step()


@pytest.mark.slow
def test_a_compiled_run_learns_as_the_run_does(tmp_path):
    losses = [
        run(digits_settings(total_steps=40, compile=compile), tmp_path / str(compile)).scores["validation"].loss
        for compile in (False, True)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.1)
