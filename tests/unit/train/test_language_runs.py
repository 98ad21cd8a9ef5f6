"""A language model's run: lanes carry their state, and a run that was stopped goes on with it to the same bits."""

import json
import math

import pytest
import torch
from outcomes import Killed, assert_same_outcome, killed_at, outcome
from torch.nn.functional import cross_entropy
from train_helpers import small_text, text_run

from gatedrnn.data import Lanes, load_task
from gatedrnn.errors import FolderTaken
from gatedrnn.models import GatedRNNForCausalLM
from gatedrnn.train.folder import RunFolder, read_metrics
from gatedrnn.train.loop import Trainer, run
from gatedrnn.train.objective import NextToken, rows_of
from gatedrnn.train.outcomes import read_outcomes


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return small_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="module")
def undisturbed(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(text_run(text), folder)
    return folder


@pytest.mark.parametrize("step", [7, 54, *(pytest.param(step, marks=pytest.mark.slow) for step in (1, 20, 53, 60))])
def test_a_run_stopped_at_any_step_ends_with_the_same_bits(text, undisturbed, tmp_path, step):
    # 53 steps an epoch, a checkpoint every 7: before the first, on one, between two, at and after an epoch's end.
    assert Trainer(text_run(text), load_task(text_run(text).data), RunFolder(tmp_path / "none")).steps_per_epoch == 53
    with pytest.raises(Killed):
        run(text_run(text), tmp_path / "run", killed_at(step))
    run(text_run(text), tmp_path / "run")
    assert_same_outcome(undisturbed, tmp_path / "run")


TRAINING_OPTIONS = {
    "averaged": {"average": 0.9},
    "accumulated": {"accumulate": 3, "schedule": "plateau", "patience": 0, "validate_every": 5},
    "checkpointed": {"gradient_checkpointing": True},
    "bfloat16": {"precision": "bfloat16"},
    "document resets": {"document_start": r"the \d*0 ", "document_resets": True},
    "stopping early": {"learning_rate": 0.3, "validate_every": 4, "early_stop": 2, "epochs": 4},
    "in blocks": {"block": True, "embedding_size": 8},
    "words": {"tokenizer": "whitespace", "batch_size": 4},
}


@pytest.mark.parametrize("way", [
    way if way in ("in blocks", "document resets") else pytest.param(way, marks=pytest.mark.slow)
    for way in TRAINING_OPTIONS
])  # fmt: skip
def test_every_way_of_training_resumes_to_the_same_bits(text, tmp_path, way):
    settings = text_run(text, **TRAINING_OPTIONS[way])
    run(settings, tmp_path / "whole")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(9))
    run(settings, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


def test_a_shuffled_run_resumes_to_the_same_bits_and_carries_no_state(text, tmp_path):
    settings = text_run(text, order="shuffled")
    run(settings, tmp_path / "whole")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(9))
    assert list((tmp_path / "killed").rglob("step-*")) and not list((tmp_path / "killed").rglob("carry-*"))
    run(settings, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


def test_the_scores_are_those_of_a_plain_computation(undisturbed, text):
    model = GatedRNNForCausalLM.from_pretrained(undisturbed / "model").eval()
    result = json.loads((undisturbed / "result.json").read_text())
    for split in ("validation", "test"):
        stream = load_task(text_run(text).data).evaluation[split].stream
        tokens = torch.from_numpy(stream.tokens.astype("int64"))[None]
        with torch.no_grad():
            losses = cross_entropy(model(tokens[:, :-1]).logits[0].double(), tokens[0, 1:], reduction="none")
        assert result[f"{split}_tokens"] == len(losses) == stream.predictions
        assert result[f"{split}_loss"] == pytest.approx(losses.mean().item(), rel=1e-6)
        assert result[f"{split}_perplexity"] == pytest.approx(math.exp(losses.mean().item()), rel=1e-6)
        bits = losses.sum().item() / math.log(2) / stream.text_bytes
        assert result[f"{split}_bits_per_byte"] == pytest.approx(bits, rel=1e-6)
        pieces = read_outcomes(undisturbed / "outcomes.npz")[split]
        assert pieces.unit == "block of 100 tokens" and pieces.counts.sum() == len(losses)
        assert pieces.values.sum() == pytest.approx(losses.sum().item())


def test_losses_by_document_add_up_to_the_whole(text, tmp_path):
    settings = text_run(text, document_start=r"the \d*[02468] ", epochs=1, test_fraction=0.4)
    result = run(settings, tmp_path / "run")
    stream = load_task(settings.data).evaluation["test"].stream
    found = read_outcomes(tmp_path / "run" / "outcomes.npz")["test"]
    assert found.unit == "document" and len(found.counts) == len(stream.starts) >= 20
    assert found.counts.sum() == stream.predictions
    assert found.rate == pytest.approx(result.scores["test"].loss)


def test_a_state_carried_from_batch_to_batch_is_the_state_of_one_long_batch(undisturbed, text):
    model = GatedRNNForCausalLM.from_pretrained(undisturbed / "model").eval()
    stream = load_task(text_run(text).data).train.stream

    def loss(length, carried=True):
        objective, lanes = NextToken(model.config, carries=True), Lanes(stream, length, resets=False)
        total = 0.0
        for index in range(lanes.steps_per_epoch(8)):
            if not carried:
                objective.begin()
            total += objective.loss(model, lanes.batch(0, 0, index, 8), stream.predictions // 8 * 8).item()
        return total

    assert loss(8) == pytest.approx(loss(10_000), rel=1e-5)
    assert abs(loss(8, carried=False) - loss(8)) > 1e-2


def test_accumulated_batches_make_the_gradient_of_their_mean(text, tmp_path):
    """Three stretches of 16 in one step, and one of 48: the same tokens and loss; the gradient lacks what is cut."""
    whole = {"dropout": 0.0, "embedding_dropout": 0.0, "epochs": 1, "log_every": 1}
    run(text_run(text, accumulate=3, **whole), tmp_path / "three")
    run(text_run(text, length=48, **whole), tmp_path / "one")
    three, one = (outcome(tmp_path / name)[1][0] for name in ("three", "one"))
    assert three["loss"] == pytest.approx(one["loss"], rel=1e-6)
    assert three["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=0.1)


@pytest.mark.slow
def test_recomputed_layers_learn_the_same(text, tmp_path):
    """With the state carried, which transformers' own way of recomputing would drop."""
    plain, recomputed = (run(text_run(text, gradient_checkpointing=way), tmp_path / str(way)) for way in (False, True))
    assert plain.scores["test"].loss == pytest.approx(recomputed.scores["test"].loss, rel=1e-4)


def test_the_average_of_the_weights_is_what_is_kept(text, tmp_path):
    settings = text_run(text, average=0.9, epochs=1)
    data = load_task(settings.data)
    trainer = Trainer(settings, data, RunFolder(tmp_path / "none"))
    averages = {name: p.detach().clone() for name, p in trainer.bare.named_parameters()}
    for index in range(6):
        trainer._step(trainer.batches[index], index == 0, 1e-2)
        for name, parameter in trainer.bare.named_parameters():
            averages[name] = 0.9 * averages[name] + 0.1 * parameter.detach()
    own = {name: p.detach().clone() for name, p in trainer.bare.named_parameters()}
    with trainer.average.in_place(trainer.bare):
        for name, parameter in trainer.bare.named_parameters():
            torch.testing.assert_close(parameter, averages[name])
            assert not torch.equal(parameter, own[name])
    assert all(torch.equal(p, own[name]) for name, p in trainer.bare.named_parameters())


def test_training_ends_early_where_validation_does_not_improve(text, tmp_path):
    result = run(text_run(text, **TRAINING_OPTIONS["stopping early"]), tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "validation_loss" in line]
    assert result.steps < 4 * 53 and result.steps == lines[-1]["step"]
    best = min(range(len(lines)), key=lambda i: lines[i]["validation_loss"])
    assert best == len(lines) - 3 and result.best_step == lines[best]["step"]
    assert result.scores["validation"].loss == pytest.approx(lines[best]["validation_loss"])


def test_a_text_that_has_changed_is_not_resumed_with(text, tmp_path):
    own = small_text(tmp_path / "own.txt")
    with pytest.raises(Killed):
        run(text_run(own), tmp_path / "run", killed_at(9))
    own.write_text(own.read_text() + "\none line more")
    load_task.cache_clear()
    with pytest.raises(FolderTaken, match="the data have changed since this run began"):
        run(text_run(own), tmp_path / "run")


@pytest.mark.parametrize("rows, ranks", [(4, 1), (4, 2), (5, 2), (1, 3)])
def test_the_shares_of_all_processes_are_the_batch(rows, ranks):
    batch = {"input_ids": torch.arange(rows * 3).view(rows, 3), "shift_labels": torch.arange(rows)}
    shares = [rows_of(batch, rank, ranks, torch.device("cpu")) for rank in range(ranks)]
    for name, tensor in batch.items():
        assert torch.equal(torch.cat([share[name] for share in shares]), tensor)
