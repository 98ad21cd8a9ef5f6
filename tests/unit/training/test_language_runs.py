"""A language model's run: lanes carry their state, and a run that was stopped goes on with it to the same bits; its
text is the same for the same seed, token by token what the whole context would give.
"""

import json
import math

import pytest
import torch
from finished import copy_of
from outcomes import Killed, assert_same_outcome, killed_at, outcome
from refusals import refused
from torch.nn.functional import cross_entropy
from train_helpers import digits_settings, small_text, text_settings

from gatedrnn.data import Lanes, load_task, tasks_kept
from gatedrnn.data.batches import StepBatches
from gatedrnn.data.tokenizers import UNK, encode_stream
from gatedrnn.errors import Damaged, DataError, FolderTaken
from gatedrnn.models import GatedRNNForCausalLM
from gatedrnn.tasks.language.objective import NextToken
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.loop import Trainer, run
from gatedrnn.training.objective import rows_of
from gatedrnn.training.optimise import Plateau, learning_rate_at
from gatedrnn.training.outcomes import read_outcomes
from gatedrnn.training.result import Metric
from gatedrnn.training.sample import _TEMPERATURES, load_language_model, sample, sample_to_show
from gatedrnn.training.settings import TrainSettings


def test_a_run_stopped_again_and_again_ends_with_the_same_bits(book, text_run, tmp_path):
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


def killed_and_resumed(settings, folder):
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
def test_every_way_of_training_resumes_to_the_same_bits(book, tmp_path, way):
    killed_and_resumed(text_settings(book, **TRAINING_OPTIONS[way]), tmp_path)


def test_the_scores_are_those_of_a_plain_computation_and_losses_by_document_add_up_to_them(book, text_run, tmp_path):
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
    settings = text_settings(book, document_start=r"the \d*[02468] ", total_steps=5, test_fraction=0.4)
    result, stream = run(settings, tmp_path / "run"), load_task(settings.data).evaluation["test"].stream
    found = read_outcomes(tmp_path / "run" / "outcomes.npz")["test"]
    assert found.unit == "document" and len(found.counts) == len(stream.starts) >= 20
    assert found.counts.sum() == stream.predictions and found.rate == pytest.approx(result.scores["test"].loss)


def test_a_state_carried_from_batch_to_batch_is_the_state_of_one_long_batch(book, text_run):
    model = GatedRNNForCausalLM.from_pretrained(text_run / "model").eval()
    stream = load_task(text_settings(book).data).train.stream

    def loss(length, carried=True):
        objective, lanes = (
            NextToken(model.config, Metric(name="perplexity", higher_is_better=False), carries=True),
            Lanes(stream, length, resets=False),
        )
        total = 0.0
        for index in range(lanes.steps_per_epoch(8)):
            if not carried:
                objective.begin()
            total += objective.loss(model, lanes.batch(0, 0, index, 8), stream.predictions // 8 * 8).item()
        return total

    with torch.no_grad():
        assert loss(16) == pytest.approx(loss(10_000), rel=1e-5)
        assert abs(loss(16, carried=False) - loss(16)) > 1e-2


def test_accumulated_batches_make_the_gradient_of_their_mean(book, tmp_path):
    """Three chunks of 16 in one step, and one of 48: the same tokens and loss; the gradient lacks what is cut."""
    whole = {"dropout": 0.0, "embedding_dropout": 0.0, "total_steps": 1, "log_every": 1}
    run(text_settings(book, accumulate=3, **whole), tmp_path / "three")
    run(text_settings(book, length=48, **whole), tmp_path / "one")
    three, one = (outcome(tmp_path / name)[1][0] for name in ("three", "one"))
    assert three["loss"] == pytest.approx(one["loss"], rel=1e-6)
    assert three["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=0.1)


def test_recomputed_layers_learn_the_same(book, tmp_path):
    """The state is carried, which transformers' own activation checkpointing would drop."""
    asked = [text_settings(book, gradient_checkpointing=given, total_steps=15) for given in (False, True)]
    plain, recomputed = (run(one, tmp_path / str(n)).scores["test"].loss for n, one in enumerate(asked))
    assert plain == pytest.approx(recomputed, rel=1e-4)


def test_the_average_of_the_weights_is_what_is_kept(book, tmp_path):
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


def test_training_ends_early_where_validation_does_not_improve(book, tmp_path):
    settings = text_settings(book, learning_rate=0.3, validate_every=4, early_stop=2, epochs=4)
    result = killed_and_resumed(settings, tmp_path)
    lines = [line for line in read_metrics(tmp_path / "killed" / "metrics.jsonl") if "validation_loss" in line]
    assert result.steps < 4 * 53 and result.steps == lines[-1]["step"]
    best = min(range(len(lines)), key=lambda i: lines[i]["validation_loss"])
    assert best == len(lines) - 3 and result.best_step == lines[best]["step"]
    assert result.scores["validation"].loss == pytest.approx(lines[best]["validation_loss"])


def test_a_text_that_has_changed_is_not_resumed_with(tmp_path):
    own = small_text(tmp_path / "own.txt")
    with pytest.raises(Killed):
        run(text_settings(own), tmp_path / "run", killed_at(1))
    own.write_text(own.read_text() + "\none line more")
    refused(FolderTaken, "the data have changed since this run began", run, text_settings(own), tmp_path / "run")


def test_a_file_that_has_changed_is_read_again_by_the_next_run_and_not_within_a_comparison(tmp_path):
    own = small_text(tmp_path / "own.txt")
    settings = text_settings(own).data
    with tasks_kept():
        before = load_task(settings)
        own.write_text(own.read_text() + "\none line more")
        assert load_task(settings) is before
    after = load_task(settings)
    assert after.sources != before.sources and after.sources == load_task(settings).sources


def test_the_shares_of_all_processes_are_the_batch():
    for rows, ranks in ((4, 1), (4, 2), (5, 2), (1, 3)):
        batch = {"input_ids": torch.arange(rows * 3).view(rows, 3), "shift_labels": torch.arange(rows)}
        shares = [rows_of(batch, rank, ranks, torch.device("cpu")) for rank in range(ranks)]
        for name, tensor in batch.items():
            assert torch.equal(torch.cat([share[name] for share in shares]), tensor)


@pytest.mark.parametrize("workers, accumulate", [(1, 1), (2, 3)])
def test_workers_bring_the_batches_of_each_step_in_turn(workers, accumulate, book):
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
def test_a_run_with_workers_has_the_bits_of_one_without(book, text_run, tmp_path):
    settings = text_settings(book)
    with pytest.raises(Killed):
        run(settings, tmp_path / "run", killed_at(9), workers=2)
    result = run(settings, tmp_path / "run", workers=1)
    assert_same_outcome(text_run, tmp_path / "run")
    assert 0 <= result.measured.waiting_share <= 1


def rates(schedule, total=100):
    settings = TrainSettings(schedule=schedule, learning_rate=1.0, warmup=0.1)
    return [learning_rate_at(step, total, settings) for step in range(total)]


def test_the_rate_rises_in_equal_parts_line_and_cosine_fall_to_zero_and_a_plateau_halves_after_its_patience():
    for schedule in ("cosine", "linear", "constant", "plateau"):
        assert rates(schedule)[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
        assert max(rates(schedule)) == 1.0
    for schedule in ("linear", "cosine"):
        after = rates(schedule)[10:]
        assert after == sorted(after, reverse=True) and after[45] == pytest.approx(0.5) and after[-1] < 0.02
    plateau, factors = Plateau(patience=1), []
    for loss in (1.0, 0.9, 0.9, 0.95, 0.8, 0.9, 0.9, 0.9, 0.9):
        plateau.update(loss)
        factors.append(plateau.factor)
    assert factors == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]


@pytest.fixture(params=["text_run", "words_run"])
def finished(request):
    return load_language_model(request.getfixturevalue(request.param))


def test_the_likeliest_token_is_the_argmax_over_the_whole_context(finished):
    model, tokenizer = finished
    prompt, length = "the 3 cat ", 12
    found = sample(model, tokenizer, prompt, length, temperature=0)
    ids = [tokenizer.bos_token_id, *next(encode_stream(tokenizer, [prompt]))]
    for _ in range(length):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    again = [tokenizer.bos_token_id, *next(encode_stream(tokenizer, [found]))]
    assert again == ids[: len(again)] and len(again) >= len(ids) - 1  # a last <eos> ends a text without a letter


def test_the_same_seed_draws_the_same_text_and_another_another_heard_of_as_it_comes(finished):
    model, tokenizer = finished
    before, heard = torch.get_rng_state(), []
    texts = [sample(model, tokenizer, "the ", 40, temperature=1.5, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2] and all(text.startswith("the") for text in texts)
    assert len(sample(model, tokenizer, "", 30, temperature=1.0, endless=True)) >= 15, "no prompt begins a text"
    text = sample(model, tokenizer, "the ", 10, temperature=0.5, on_text=heard.append)
    assert "".join(heard) == text and len(heard) >= 5
    assert torch.equal(torch.get_rng_state(), before), "a number was drawn that others should have"


def test_the_sample_that_is_printed_is_not_the_coolest_and_has_no_row_of_blanks():
    texts = {"1": "Ir-_ryd", "0.5": ";\nI" + 297 * " ", "0.8": ";\nI in to   baciit\n   \n \n\ton  on "}
    assert sample_to_show(texts) == ("0.8", ";\nI in to baciit\n\n on on")
    assert sample_to_show(texts | {"0.8": " \n" * 150}) == ("1", "Ir-_ryd")
    assert sample_to_show({"0.5": "a", "0.8": " ", "1": "\n"}) == ("0.5", "a")
    assert sample_to_show({heat: 300 * " " for heat in texts}) == ("0.5", "only blanks")


def test_from_few_likely_tokens_fewer_different_ones_are_drawn_and_samples_are_written_for_the_report(text_run):
    model, tokenizer = load_language_model(text_run)
    hot, greedy = (sample(model, tokenizer, "the ", 60, temperature=heat) for heat in (5.0, 0))
    assert sample(model, tokenizer, "the ", 60, temperature=5.0, top_k=1) == greedy != hot
    assert sample(model, tokenizer, "the ", 60, temperature=5.0, top_p=1e-6) == greedy
    samples = json.loads((text_run / "samples.json").read_text())
    assert list(samples) == [f"{heat:g}" for heat in _TEMPERATURES] and all(map(len, samples.values()))


def test_the_unknown_token_can_be_forbidden(words_run):
    model, tokenizer = load_language_model(words_run)
    model.lm_head = torch.nn.Linear(model.lm_head.in_features, model.lm_head.out_features, bias=True)
    torch.nn.init.zeros_(model.lm_head.bias)
    with torch.no_grad():
        model.lm_head.bias[tokenizer.unk_token_id] = 100.0  # it would be written always
    assert UNK in sample(model, tokenizer, "the ", 5)
    assert UNK not in sample(model, tokenizer, "the ", 40, temperature=2.0, no_unk=True)


def test_what_is_no_language_model_is_refused(text_run, tmp_path):
    refused(DataError, "holds no model", load_language_model, tmp_path)
    torn = copy_of(text_run, tmp_path) / "model"
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(Damaged, r"model\.safetensors: has", load_language_model, torn)
    (torn / "manifest.json").unlink()
    refused(DataError, r"model: cannot be loaded", load_language_model, torn)
