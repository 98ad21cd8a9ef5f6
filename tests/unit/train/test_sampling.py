"""Text from a trained model: the same for the same seed, token by token what the whole context would give."""

from itertools import pairwise

import pytest
import torch
from train_helpers import small_text, text_run

from gatedrnn.data.tokenizers import UNK, encode_stream
from gatedrnn.errors import Damaged, DataError
from gatedrnn.train.loop import run
from gatedrnn.train.sample import load_language_model, sample, write_samples


@pytest.fixture(scope="module", params=["characters", "whitespace"])
def finished(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    text = small_text(folder / "text.txt")
    run(text_run(text, tokenizer=request.param, batch_size=4, epochs=3), folder / "run")
    return folder / "run"


def test_the_likeliest_token_is_the_argmax_over_the_whole_context(finished):
    model, tokenizer = load_language_model(finished)
    prompt, length = "the 3 cat ", 12
    found = sample(model, tokenizer, prompt, length, temperature=0)
    ids = [tokenizer.bos_token_id, *next(encode_stream(tokenizer, [prompt]))]
    for _ in range(length):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    again = [tokenizer.bos_token_id, *next(encode_stream(tokenizer, [found]))]
    assert again == ids[: len(again)] and len(again) >= len(ids) - 1  # a last <eos> ends a text without a letter


def test_the_same_seed_draws_the_same_text_and_another_another(finished):
    model, tokenizer = load_language_model(finished)
    texts = [sample(model, tokenizer, "the ", 40, temperature=1.5, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2] and all(text.startswith("the") for text in texts)


def test_text_is_heard_of_as_it_comes(finished):
    model, tokenizer = load_language_model(finished)
    heard = []
    text = sample(model, tokenizer, "the ", 10, temperature=0.5, on_text=heard.append)
    assert heard[-1] == text and len(heard) >= 5
    assert all(later.startswith(earlier.rstrip()) for earlier, later in pairwise(heard))


def test_an_empty_prompt_begins_a_text_and_does_not_touch_the_random_numbers_of_others(finished):
    model, tokenizer = load_language_model(finished)
    before = torch.get_rng_state()
    assert len(sample(model, tokenizer, "", 30, temperature=1.0, endless=True)) >= 15
    assert torch.equal(torch.get_rng_state(), before)


def test_from_few_likely_tokens_fewer_different_ones_are_drawn(finished):
    model, tokenizer = load_language_model(finished)
    hot = sample(model, tokenizer, "the ", 60, temperature=5.0)
    greedy = sample(model, tokenizer, "the ", 60, temperature=0)
    assert sample(model, tokenizer, "the ", 60, temperature=5.0, top_k=1) == greedy != hot
    assert sample(model, tokenizer, "the ", 60, temperature=5.0, top_p=1e-6) == greedy


def test_the_unknown_token_can_be_forbidden(finished):
    model, tokenizer = load_language_model(finished)
    model.lm_head = torch.nn.Linear(model.lm_head.in_features, model.lm_head.out_features, bias=True)
    torch.nn.init.zeros_(model.lm_head.bias)
    with torch.no_grad():
        model.lm_head.bias[tokenizer.unk_token_id] = 100.0  # it would be written always
    assert UNK in sample(model, tokenizer, "the ", 5)
    assert UNK not in sample(model, tokenizer, "the ", 40, temperature=2.0, no_unk=True)


def test_samples_are_written_for_the_report(finished):
    first = write_samples(finished)
    assert first and (finished / "samples.json").stat().st_size > len(first)


def test_what_is_no_language_model_is_refused(tmp_path, finished):
    with pytest.raises(DataError, match="holds no model"):
        load_language_model(tmp_path)
    torn = tmp_path / "torn"
    torn.mkdir()
    for file in (finished / "model").iterdir():
        (torn / file.name).write_bytes(file.read_bytes())
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(Damaged, match=r"model\.safetensors: has"):
        load_language_model(torn)
    (torn / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"torn: cannot be loaded as a language model"):
        load_language_model(torn)
