"""At home in transformers: sampling, streaming, batches, pipelines, saved states, Trainer; the state is carried."""

import copy
from pathlib import Path

import pytest
import torch
from covering import over
from safetensors.torch import load_file, save_file
from test_causal_lm import MIXED, model_of, tokens
from tolerances import assert_equal_within
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
    TextStreamer,
    Trainer,
    TrainingArguments,
    pipeline,
)

from gatedrnn.data.tokenizers import is_by_line, learn_tokenizer
from gatedrnn.models import GatedRNNCache, GatedRNNConfig, GatedRNNForCausalLM
from gatedrnn.train.sample import sample


def test_several_answers_to_one_prompt_do_not_share_a_state():
    model, text = model_of(MIXED), tokens(1)
    torch.manual_seed(3)
    found = model.generate(text, max_new_tokens=12, do_sample=True, num_return_sequences=4)
    assert len({tuple(row.tolist()) for row in found}) > 1
    for row in found:  # each is its own continuation: the logits of the whole row predict it
        with torch.no_grad():
            scores = model(row[None, :-1]).logits[0, text.shape[1] - 1 :]
        assert (scores.log_softmax(-1).gather(1, row[text.shape[1] :, None]) > -20).all()


def test_a_saved_state_goes_on_in_another_process_as_it_would_have_here(tmp_path):
    model, text = model_of(MIXED), tokens(2)
    with torch.no_grad():
        state = model(text).past_key_values
        save_file(state.tensors(), tmp_path / "state.safetensors")
        again = GatedRNNCache.of_tensors(model.config, load_file(tmp_path / "state.safetensors"))
        assert again.get_seq_length() == text.shape[1]
        one, other = (model(tokens(2, 3), past_key_values=cache).logits for cache in (copy.deepcopy(state), again))
    assert torch.equal(one, other)


def small_tokenizer() -> PreTrainedTokenizerFast:
    return learn_tokenizer("characters", ["the cat sat on a mat, and that was that."], 1, 300, stream=True)


def model_for(tokenizer, **changes):
    torch.manual_seed(0)
    named = {
        "cell": "mingru", "vocab_size": len(tokenizer), "embedding_size": 8, "hidden_size": 8, "num_hidden_layers": 2,
        "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1, "unk_token_id": 0,
    }  # fmt: skip
    return GatedRNNForCausalLM(GatedRNNConfig(**(named | changes)))


def test_the_pipeline_continues_a_batch_as_it_continues_each_text_alone():
    tokenizer = small_tokenizer()
    write = pipeline("text-generation", model=model_for(tokenizer).eval(), tokenizer=tokenizer)
    prompts = ["the cat", "a mat, and that was", "t"]
    together = write(prompts, max_new_tokens=9, do_sample=False, batch_size=3)
    alone = [write(prompt, max_new_tokens=9, do_sample=False) for prompt in prompts]
    assert [row[0]["generated_text"] for row in together] == [row[0]["generated_text"] for row in alone]
    assert all(row[0]["generated_text"].startswith(prompt) for row, prompt in zip(together, prompts, strict=True))


KINDS = ("words", "whitespace", "tokens", "bpe", "characters", "bytes")
TALE = "the cat sat on a mat\nand the dog sat on the cat\n"


def language_model(kind):
    """A model as `gatedrnn train` builds one, with its tokenizer."""
    tokenizer = learn_tokenizer(kind, [TALE] * 3, 1, 300, stream=True)
    model = model_for(tokenizer).eval()
    if is_by_line(tokenizer):
        model.generation_config.eos_token_id = None
    return model, tokenizer


@over(kind=KINDS, prompt=("", "the cat", "a mat\nand the dog"), way=("generate", "pipeline", "sample"))
def test_the_first_logits_of_generate_are_those_of_forward(kind, prompt, way):
    model, tokenizer = language_model(kind)
    seen = []
    model.register_forward_hook(lambda _, arguments, named, out: seen.append((named, out)), with_kwargs=True)
    if way == "sample":
        sample(model, tokenizer, prompt, 1)
    elif way == "pipeline":
        pipeline("text-generation", model=model, tokenizer=tokenizer)(prompt, max_new_tokens=1)
    elif prompt:
        model.generate(torch.tensor([tokenizer(prompt)["input_ids"]]), max_new_tokens=1)
    else:
        model.generate(max_new_tokens=1)
    named, out = seen[0]
    with torch.no_grad():
        expected = model(input_ids=named["input_ids"]).logits[:, -1]
    assert named["input_ids"][0, 0] == tokenizer.bos_token_id
    assert_equal_within(out.logits[:, -1], expected, torch.float32, "logits")


def test_a_padding_token_of_its_own_is_hidden_without_a_mask():
    model, text = model_of(), tokens(1)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), text], 1)
    both = model.generate(padded, max_new_tokens=6, do_sample=False)
    assert torch.equal(both[:, 4:], model.generate(text, max_new_tokens=6, do_sample=False))


@pytest.mark.parametrize("kind", KINDS)
def test_a_continuation_joins_its_prompt_as_the_whole_text_reads(kind, tmp_path, capsys):
    model, tokenizer = language_model(kind)
    tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    write = pipeline("text-generation", model=model, tokenizer=tokenizer)
    named = {"do_sample": False, "suppress_tokens": [tokenizer.unk_token_id, tokenizer.eos_token_id]}
    (found,) = write("the cat", max_new_tokens=6, **named)
    ids = torch.tensor([tokenizer("the cat")["input_ids"]])
    whole = tokenizer.decode(model.generate(ids, max_new_tokens=6, **named)[0], skip_special_tokens=True)
    assert found["generated_text"] == whole.removeprefix(" ") and len(whole) > len(" the cat")
    streamer = TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    capsys.readouterr()
    model.generate(ids, max_new_tokens=6, streamer=streamer, **named)
    assert "the cat" + capsys.readouterr().out.removesuffix("\n") == found["generated_text"]


def test_the_token_between_texts_has_an_embedding_that_learns_though_it_pads():
    model = model_for(small_tokenizer())
    table = model.get_input_embeddings()
    assert table.padding_idx is None and table.weight[1].abs().sum() > 0
    text = torch.tensor([[1, 3, 4, 5]])
    model(text, labels=text).loss.backward()
    assert table.weight.grad[1].abs().sum() > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_trainer_trains_and_resumes_to_the_same_weights(tmp_path):
    tokenizer = small_tokenizer()
    ids = tokenizer("the cat sat on a mat, and that was that.", add_special_tokens=False)["input_ids"]
    rows = [{"input_ids": ids[i : i + 8], "labels": ids[i : i + 8]} for i in range(24)]

    def trained(folder, steps, resume=None):
        arguments = TrainingArguments(
            output_dir=str(folder), max_steps=steps, per_device_train_batch_size=4, gradient_accumulation_steps=2,
            save_steps=2, report_to=[], use_cpu=True, seed=0, learning_rate=1e-2, disable_tqdm=True,
            lr_scheduler_type="constant",
        )  # fmt: skip
        trainer = Trainer(model=model_for(tokenizer, dropout=0.1), args=arguments, train_dataset=rows)
        trainer.train(resume_from_checkpoint=resume)
        return trainer.model.state_dict()

    whole = trained(tmp_path / "whole", 4)
    trained(tmp_path / "halves", 2)
    halves = trained(tmp_path / "halves", 4, str(tmp_path / "halves" / "checkpoint-2"))
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


def test_decoding_that_cannot_work_is_refused():
    model, text = model_of(), tokens(1)
    for way, why in (
        ({"prompt_lookup_num_tokens": 2}, "stateful"),
        ({"assistant_model": copy.deepcopy(model)}, "stateful"),
        ({"past_key_values": ((torch.zeros(1), torch.zeros(1)),)}, "must be a GatedRNNCache"),
        ({"generation_config": GenerationConfig(cache_implementation="static")}, "constant size"),
    ):
        with pytest.raises((ValueError, TypeError), match=why):
            model.generate(text, max_new_tokens=4, **way)
    with pytest.raises(ValueError, match="cannot be cropped"):
        model(text).past_key_values.crop(2)


def test_an_empty_prompt_is_refused_and_none_begins_a_text():
    model = model_of()
    with pytest.raises(ValueError, match="holds no token"):
        model(torch.zeros(1, 0, dtype=torch.long))
    assert model.generate(max_new_tokens=4, do_sample=False).shape == (1, 5)


@pytest.mark.slow
def test_ten_thousand_tokens_take_no_more_memory_than_a_thousand():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    torch.set_num_threads(1)
    config = GatedRNNConfig(cell="mingru", vocab_size=256, embedding_size=512, hidden_size=512, num_hidden_layers=4)
    model, token = GatedRNNForCausalLM(config).eval(), torch.zeros(1, 1, dtype=torch.long)
    state, before = None, 0
    with torch.inference_mode():
        for number in range(10_000):
            out = model(token, past_key_values=state, use_cache=True)
            token, state = out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values
            if number == 1_000:
                before = resident()
    assert resident() - before < 1 << 20, "a state that is kept would take 8 KiB a token"
    assert sum(s.numel() for layer in state.layers for s in layer.recurrent_states.values()) == 4 * 512
