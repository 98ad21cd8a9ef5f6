"""`gatedrnn diagnose`: what it says of models whose gates are known, and its page in a browser."""

import math

import numpy as np
import pytest
import torch
from browser import needs_a_browser, visit
from commands import call, outcome
from refusals import refused
from train_helpers import digits_run, small_text, text_run

from gatedrnn.data import Examples, data_settings
from gatedrnn.errors import DataError
from gatedrnn.inspect.diagnose import Diagnosis, Inspected, _inputs_of_examples, diagnose, from_run
from gatedrnn.inspect.report import layer_rows, sentences
from gatedrnn.models import GatedRNNConfig, GatedRNNForTokenClassification
from gatedrnn.training.loop import run
from gatedrnn.training.result import read_record
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

TOKENS, WIDTH, STEPS = 3, 6, 20


def inspected(cell="mingru", **changes):
    torch.manual_seed(0)
    named = {"vocab_size": TOKENS, "pad_token_id": None, "unk_token_id": None, "embedding_size": 4, **changes}
    model = GatedRNNForTokenClassification(GatedRNNConfig(cell=cell, hidden_size=WIDTH, **named)).eval()
    return Inspected(model, {"input_ids": torch.randint(0, TOKENS, (5, STEPS))}, "tokens")


def layer_of(subject):
    return subject.model.model.parts[0].layer


@torch.no_grad()
def with_gate(bias, cell="mingru", weight=0.0):
    """A model whose second gate, of what keeps or updates, has that weight and that bias."""
    subject = inspected(cell)
    layer_of(subject).weight_ih_l0[WIDTH:] = torch.as_tensor(weight)
    layer_of(subject).bias_ih_l0[WIDTH:] = torch.as_tensor(bias)
    return subject


@torch.no_grad()
def with_zeros(cell):
    subject = inspected(cell)
    for weight in layer_of(subject).parameters():
        weight.zero_()
    return subject


def test_a_half_life_is_the_time_in_which_half_is_gone_and_saturated_gates_are_counted():
    (layer,) = diagnose(with_gate(math.log(0.1 / 0.9))).layers
    assert layer.half_life == pytest.approx([math.log(0.5) / math.log(0.9)] * WIDTH, rel=1e-5)
    assert layer.negative is None, "no decay of this cell has a sign"
    gate = layer.gates["update"]
    assert (gate.shut, gate.open) == (0.0, 0.0) and gate.mean == pytest.approx(0.1)
    for value, ends in ((0.01, (1.0, 0.0)), (0.99, (0.0, 1.0))):
        gate = diagnose(with_gate(math.log(value / (1 - value)))).layers[0].gates["update"]
        assert (gate.shut, gate.open) == ends and sum(gate.share) == pytest.approx(1)


def test_a_decay_of_zero_ends_a_memory():
    """Decay 1 on two tokens of three and 0 on the third: what was kept is gone after three steps, on average."""
    subject = with_gate(0.0, "signed-mingru", weight=[1.0, 0, 0, 0])
    subject.inputs["input_ids"] = torch.tensor([[0, 1, 2] * 7])
    subject.model.model.embeddings.map.weight.data.copy_(torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]))
    found = diagnose(subject)
    assert found.layers[0].half_life == pytest.approx([3] * WIDTH)
    assert layer_rows(found)[0]["half-life"] == "3.0"


def test_signs_and_endless_memories_are_found():
    found = diagnose(with_gate([-5.0, -0.5, 0.5, 5.0, 5.0, 5.0], "signed-mingru"))
    (one,) = found.layers
    assert one.negative == [0, 0, 0, 0, 1, 1] and one.half_life == pytest.approx([1, 1, None, None, None, None])
    assert one.dead == 3, "what keeps all of itself takes nothing in; what flips its sign moves"
    row = layer_rows(found)[0]
    assert row["flip"] == "2" and row["longest"] == "endless" and row["dead"] == "3"
    assert "3 channels hardly move on these inputs" in sentences(found)[-1]
    halves = one.model_copy(update={"half_life": [1.0, 2.0, 3.0, None, None, None]})
    halves = found.model_copy(update={"layers": [halves]})
    assert layer_rows(halves)[0]["half-life"] == "3.0", "that of the median channel"


@pytest.mark.parametrize("cell", ["mingru", "lstm"])
def test_the_reach_is_the_norm_of_the_jacobian(cell, monkeypatch):
    """The sum over draws, with a direction along each output in turn, is the whole Jacobian's norm."""
    subject = inspected(cell)
    model, ids = subject.model.model, subject.inputs["input_ids"]
    read, layer = model.embeddings(ids).detach(), layer_of(subject)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x)[0][:, -1], read)
    own = torch.stack([jacobian[row, :, row] for row in range(len(ids))])  # rows, outputs, steps, features
    expected = own.square().sum((1, 3)).mean(0).sqrt().flip(0)
    monkeypatch.setattr("gatedrnn.inspect.diagnose.DRAWS", 800)
    assert diagnose(subject).reach == pytest.approx(expected.tolist(), rel=0.2)


def test_where_nothing_moves_all_is_dead_and_the_gradient_is_zero():
    found = diagnose(with_zeros("lstm"))
    assert found.layers[0].dead == WIDTH and max(found.reach) == 0
    assert "gradient of the last step is zero" in sentences(found)[1]
    far = found.model_copy(update={"reach": [0.0, 0.0, 1.0, 0.5, 0.001]})
    assert "for 3 of the 4 steps before it" in sentences(far)[1], "the farthest step that matters"


def test_an_infinite_gradient_outputs_that_are_not_finite_and_models_without_layers_are_refused():
    subject = with_zeros("gru")
    layer_of(subject).weight_hh_l0.data[2 * WIDTH :] = 1e30 * torch.eye(WIDTH)
    layer_of(subject).weight_ih_l0.data[2 * WIDTH :, 0] = 1e-3
    subject.model.model.embeddings.map.weight.data.zero_()
    refused(DataError, "gradient is not finite", diagnose, subject)
    refused(DataError, "not finite", diagnose, with_gate(torch.nan))
    refused(DataError, "transformer has no recurrent layers", diagnose, inspected("transformer"))


def test_rows_are_as_long_as_half_of_the_longest():
    examples = Examples([np.zeros(n, np.int64) for n in (1, 9, 8, 7, 6, 2)], np.zeros(6, np.int64))
    assert _inputs_of_examples(examples, 5, 99)["input_ids"].shape == (3, 7)
    refused(DataError, "2 steps or more", _inputs_of_examples, Examples([np.zeros(1, int)], np.zeros(1, int)), 5, 99)


def test_each_layer_direction_and_cell_has_a_row_and_its_class():
    found = diagnose(inspected("mingru,lstm", num_hidden_layers=2, bidirectional=True, block=True, pooling="max"))
    names = ["layer 0", "layer 0, backwards", "layer 1", "layer 1, backwards"]
    assert [row["layer"] for row in layer_rows(found)] == names
    first, second, _ = sentences(found)
    assert first.startswith("mingru is positive") and "parity" in first and "arXiv:2411.12537" in first
    assert second.startswith("lstm is state-dependent")


@pytest.mark.slow
@needs_a_browser
def test_the_page_of_a_run_shows_every_figure(tmp_path):
    settings = RunSettings(
        cell="signed-mingru", hidden_size=8, threads=1, data=data_settings(task="parity", length=12),
        model=ModelSettings(embedding_size=4), train=TrainSettings(epochs=1),
    )  # fmt: skip
    run(settings, tmp_path / "run")
    call("diagnose", tmp_path / "run", "--split", "test_48", "--rows", 4)
    page = tmp_path / "run" / "diagnosis" / "report.html"
    seen = visit(page)
    assert not seen.said and len(seen.asked) == 1 and not seen.cut_off and not seen.wide and not visit(page, 400).wide
    assert seen.titles[:5] == ["Layers", "layer 0: gates", "Memory", "Signs of the decays", "Reach of the gradient"]
    assert all(seen.figures), "no figure is empty"
    assert "parity, test_48 split: 4 rows of 48 steps" in seen.text and str(tmp_path) not in seen.text
    kept = read_record(tmp_path / "run" / "diagnosis" / "diagnosis.json", Diagnosis)
    assert len(kept.reach) == 48 and kept.layers[0].channels == 8


def test_a_language_model_is_inspected_on_its_split_or_on_any_text(tmp_path, capsys):
    run(text_run(small_text(tmp_path / "text.txt"), total_steps=2), tmp_path / "run")
    assert from_run(tmp_path / "run", "validation", 4, 16).inputs["input_ids"].shape == (4, 16)
    other = tmp_path / "other.txt"
    other.write_text("the cat sat on the mats\n" * 20)
    page = tmp_path / "page"
    call("diagnose", tmp_path / "run" / "model", "--file", other, "--steps", 30, "--output", page)
    assert "other.txt" in capsys.readouterr().out and (page / "report.html").exists()


def test_numbers_are_inspected_like_tokens_and_what_cannot_be_inspected_is_named(tmp_path, capsys):
    run(digits_run("gru", total_steps=2), tmp_path / "run")
    found = diagnose(from_run(tmp_path / "run", "test", 5, 99))
    assert (found.rows, found.steps) == (5, 8) and set(found.layers[0].gates) == {"reset", "update"}
    for arguments, said in (
        (("nowhere",), "nowhere: is no run's folder"),
        ((tmp_path / "run", "--split", "train"), "has no split 'train'; there are validation, test"),
        ((tmp_path / "run", "--rows", 0), "must be at least 1"),
        ((tmp_path / "run", "--file", tmp_path / "missing.txt"), "is no language model, but predicts labels"),
    ):
        code, error = outcome(capsys, "diagnose", *arguments)
        assert code == 2 and said in " ".join(error.split())
