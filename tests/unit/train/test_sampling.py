"""Text from a trained model: the same for the same seed, token by token what the whole context would give."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from finished import copy_of

from gatedrnn.data.tokenizers import UNK, encode_stream
from gatedrnn.errors import Damaged, DataError
from gatedrnn.train.sample import TEMPERATURES, load_language_model, sample


@pytest.fixture(params=["text_run", "words_run"])
def finished(request: pytest.FixtureRequest):
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


def test_text_is_heard_of_as_it_comes(finished):
    heard = []
    text = sample(*finished, "the ", 10, temperature=0.5, on_text=heard.append)
    assert heard[-1] == text and len(heard) >= 5
    assert all(later.startswith(earlier.rstrip()) for earlier, later in pairwise(heard))


def test_the_same_seed_draws_the_same_text_and_another_another(text_run: Path):
    model, tokenizer = load_language_model(text_run)
    before = torch.get_rng_state()
    texts = [sample(model, tokenizer, "the ", 40, temperature=1.5, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2] and all(text.startswith("the") for text in texts)
    assert len(sample(model, tokenizer, "", 30, temperature=1.0, endless=True)) >= 15, "no prompt begins a text"
    assert torch.equal(torch.get_rng_state(), before), "a number was drawn that others should have"


def test_from_few_likely_tokens_fewer_different_ones_are_drawn(text_run: Path):
    model, tokenizer = load_language_model(text_run)
    hot = sample(model, tokenizer, "the ", 60, temperature=5.0)
    greedy = sample(model, tokenizer, "the ", 60, temperature=0)
    assert sample(model, tokenizer, "the ", 60, temperature=5.0, top_k=1) == greedy != hot
    assert sample(model, tokenizer, "the ", 60, temperature=5.0, top_p=1e-6) == greedy


def test_the_unknown_token_can_be_forbidden(words_run: Path):
    model, tokenizer = load_language_model(words_run)
    model.lm_head = torch.nn.Linear(model.lm_head.in_features, model.lm_head.out_features, bias=True)
    torch.nn.init.zeros_(model.lm_head.bias)
    with torch.no_grad():
        model.lm_head.bias[tokenizer.unk_token_id] = 100.0  # it would be written always
    assert UNK in sample(model, tokenizer, "the ", 5)
    assert UNK not in sample(model, tokenizer, "the ", 40, temperature=2.0, no_unk=True)


def test_samples_are_written_for_the_report(text_run: Path):
    samples = json.loads((text_run / "samples.json").read_text())
    assert list(samples) == [f"{heat:g}" for heat in TEMPERATURES] and all(map(len, samples.values()))


def test_what_is_no_language_model_is_refused(text_run: Path, tmp_path: Path):
    with pytest.raises(DataError, match="holds no model"):
        load_language_model(tmp_path)
    torn = copy_of(text_run, tmp_path) / "model"
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(Damaged, match=r"model\.safetensors: has"):
        load_language_model(torn)
    (torn / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"model: cannot be loaded as a language model"):
        load_language_model(torn)
