"""A language model's run: lanes carry their state, and a run that was stopped goes on with it to the same bits."""

import json
import math
from pathlib import Path

import pytest
import torch
from outcomes import Killed, assert_same_outcome, killed_at, outcome
from torch.nn.functional import cross_entropy
from train_helpers import small_text, text_settings

from gatedrnn.data import Lanes, load_task
from gatedrnn.errors import FolderTaken
from gatedrnn.models import GatedRNNForCausalLM
from gatedrnn.train.folder import RunFolder, read_metrics
from gatedrnn.train.loop import Trainer, run
from gatedrnn.train.objective import NextToken, rows_of
from gatedrnn.train.outcomes import read_outcomes
from gatedrnn.train.result import RunResult
from gatedrnn.train.settings import RunSettings


def test_a_run_stopped_again_and_again_ends_with_the_same_bits(book: Path, text_run: Path, tmp_path: Path) -> None:
    """53 steps an epoch, a checkpoint every 7: before the first, on one, between two, at and after an epoch's end."""
    for step in (1, 7, 20, 53, 54, 60):
        with pytest.raises(Killed):
            run(text_settings(book), tmp_path / "run", killed_at(step))
    run(text_settings(book), tmp_path / "run")
    assert_same_outcome(text_run, tmp_path / "run")


TRAINING_OPTIONS = {
    "shuffled": {"order": "shuffled", "precision": "bfloat16", "total_steps": 12},
    "words": {"tokenizer": "whitespace", "batch_size": 4, "total_steps": 12},
    "lanes": {
        "average": 0.9, "accumulate": 2, "schedule": "plateau", "patience": 0, "validate_every": 3,
        "checkpoint_every": 9, "learning_rate": 3.0, "gradient_checkpointing": True, "block": True, "embedding_size": 8,
        "document_start": r"the \d*0 ", "document_resets": True, "total_steps": 11,
    },
}  # fmt: skip


def killed_and_resumed(settings: RunSettings, folder: Path) -> RunResult:
    """The result of a run that leaves the same as one that was killed."""
    whole, killed = folder / "whole", folder / "killed"
    result = run(settings, whole)
    with pytest.raises(Killed):
        run(settings, killed, killed_at(9))
    carries = bool(list(killed.rglob("step-*/carry-*")))
    assert carries == (settings.data.order == "lanes"), "lanes carry a state, and nothing else does"
    run(settings, killed)
    assert_same_outcome(whole, killed)
    return result


@pytest.mark.parametrize("way", TRAINING_OPTIONS)
def test_every_way_of_training_resumes_to_the_same_bits(book: Path, tmp_path: Path, way: str) -> None:
    killed_and_resumed(text_settings(book, **TRAINING_OPTIONS[way]), tmp_path)


def test_the_scores_are_those_of_a_plain_computation(book: Path, text_run: Path) -> None:
    model = GatedRNNForCausalLM.from_pretrained(text_run / "model").eval()
    result = json.loads((text_run / "result.json").read_text())
    for split in ("validation", "test"):
        stream = load_task(text_settings(book).data).evaluation[split].stream
        tokens = torch.from_numpy(stream.tokens.astype("int64"))[None]
        with torch.no_grad():
            losses = cross_entropy(model(tokens[:, :-1]).logits[0].double(), tokens[0, 1:], reduction="none")
        assert result[f"{split}_tokens"] == len(losses) == stream.predictions
        assert result[f"{split}_loss"] == pytest.approx(losses.mean().item(), rel=1e-6)
        assert result[f"{split}_perplexity"] == pytest.approx(math.exp(losses.mean().item()), rel=1e-6)
        bits = losses.sum().item() / math.log(2) / stream.text_bytes
        assert result[f"{split}_bits_per_byte"] == pytest.approx(bits, rel=1e-6)
        pieces = read_outcomes(text_run / "outcomes.npz")[split]
        assert pieces.unit == "block of 100 tokens" and pieces.counts.sum() == len(losses)
        assert pieces.values.sum() == pytest.approx(losses.sum().item())


def test_losses_by_document_add_up_to_the_whole(book: Path, tmp_path: Path) -> None:
    settings = text_settings(book, document_start=r"the \d*[02468] ", total_steps=5, test_fraction=0.4)
    result = run(settings, tmp_path / "run")
    stream = load_task(settings.data).evaluation["test"].stream
    found = read_outcomes(tmp_path / "run" / "outcomes.npz")["test"]
    assert found.unit == "document" and len(found.counts) == len(stream.starts) >= 20
    assert found.counts.sum() == stream.predictions
    assert found.rate == pytest.approx(result.scores["test"].loss)


def test_a_state_carried_from_batch_to_batch_is_the_state_of_one_long_batch(book: Path, text_run: Path) -> None:
    model = GatedRNNForCausalLM.from_pretrained(text_run / "model").eval()
    stream = load_task(text_settings(book).data).train.stream

    def loss(length: int, carried: bool = True) -> float:
        objective, lanes = NextToken(model.config, carries=True), Lanes(stream, length, resets=False)
        total = 0.0
        for index in range(lanes.steps_per_epoch(8)):
            if not carried:
                objective.begin()
            total += objective.loss(model, lanes.batch(0, 0, index, 8), stream.predictions // 8 * 8).item()
        return total

    with torch.no_grad():
        assert loss(16) == pytest.approx(loss(10_000), rel=1e-5)
        assert abs(loss(16, carried=False) - loss(16)) > 1e-2


def test_accumulated_batches_make_the_gradient_of_their_mean(book: Path, tmp_path: Path) -> None:
    """Three chunks of 16 in one step, and one of 48: the same tokens and loss; the gradient lacks what is cut."""
    whole = {"dropout": 0.0, "embedding_dropout": 0.0, "total_steps": 1, "log_every": 1}
    run(text_settings(book, accumulate=3, **whole), tmp_path / "three")
    run(text_settings(book, length=48, **whole), tmp_path / "one")
    three, one = (outcome(tmp_path / name)[1][0] for name in ("three", "one"))
    assert three["loss"] == pytest.approx(one["loss"], rel=1e-6)
    assert three["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=0.1)


def test_recomputed_layers_learn_the_same(book: Path, tmp_path: Path) -> None:
    """With the state carried, which transformers' own way of recomputing would drop."""
    plain, recomputed = (
        run(text_settings(book, gradient_checkpointing=way, total_steps=15), tmp_path / str(way))
        for way in (False, True)
    )
    assert plain.scores["test"].loss == pytest.approx(recomputed.scores["test"].loss, rel=1e-4)


def test_the_average_of_the_weights_is_what_is_kept(book: Path, tmp_path: Path) -> None:
    settings = text_settings(book, average=0.9, epochs=1)
    trainer = Trainer(settings, load_task(settings.data), RunFolder(tmp_path / "none"))
    assert trainer.steps_per_epoch == 53
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


def test_training_ends_early_where_validation_does_not_improve(book: Path, tmp_path: Path) -> None:
    settings = text_settings(book, learning_rate=0.3, validate_every=4, early_stop=2, epochs=4)
    result = killed_and_resumed(settings, tmp_path)
    lines = [line for line in read_metrics(tmp_path / "killed" / "metrics.jsonl") if "validation_loss" in line]
    assert result.steps < 4 * 53 and result.steps == lines[-1]["step"]
    best = min(range(len(lines)), key=lambda i: lines[i]["validation_loss"])
    assert best == len(lines) - 3 and result.best_step == lines[best]["step"]
    assert result.scores["validation"].loss == pytest.approx(lines[best]["validation_loss"])


def test_a_text_that_has_changed_is_not_resumed_with(tmp_path: Path) -> None:
    own = small_text(tmp_path / "own.txt")
    with pytest.raises(Killed):
        run(text_settings(own), tmp_path / "run", killed_at(1))
    own.write_text(own.read_text() + "\none line more")
    load_task.cache_clear()
    with pytest.raises(FolderTaken, match="the data have changed since this run began"):
        run(text_settings(own), tmp_path / "run")


def test_the_shares_of_all_processes_are_the_batch() -> None:
    for rows, ranks in ((4, 1), (4, 2), (5, 2), (1, 3)):
        batch = {"input_ids": torch.arange(rows * 3).view(rows, 3), "shift_labels": torch.arange(rows)}
        shares = [rows_of(batch, rank, ranks, torch.device("cpu")) for rank in range(ranks)]
        for name, tensor in batch.items():
            assert torch.equal(torch.cat([share[name] for share in shares]), tensor)
