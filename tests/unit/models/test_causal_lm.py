"""Language models keep the laws of recurrent modules and are at home in transformers, as are classifiers."""

import copy
from dataclasses import astuple
from itertools import cycle, product

import pytest
import small_models as small
import torch
from covering import Axis, over
from huggingface_hub.errors import StrictDataclassClassValidationError
from safetensors.torch import load_file, save_file
from small_models import one_of_each
from tolerances import assert_equal_within
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer, Trainer, TrainingArguments, pipeline

from gatedrnn.data.tokenizers import is_by_line, learn_tokenizer
from gatedrnn.kinds import kind_of
from gatedrnn.models import GatedRNNCache, GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForSequenceClassification
from gatedrnn.models.structure import count_parameters, describe_structure
from gatedrnn.registry import CellChoice
from gatedrnn.training.sample import sample
from gatedrnn.verify import check

MIXED = "mingru,lstm,mgu"
STATES = one_of_each(lambda cell: (kind_of(cell), len(CellChoice(cell.name).state_names)))
"""A cache knows of a cell how many tensors its state has; a stream, what runs it."""


def model_of(cell="mingru", **changes):
    torch.manual_seed(0)
    named = {
        "cell": cell, "vocab_size": 17, "embedding_size": 8, "hidden_size": 8, "num_hidden_layers": 3,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
    }  # fmt: skip
    return GatedRNNForCausalLM(GatedRNNConfig(**(named | changes))).double().eval()


def tokens(batch=2, steps=11):
    return torch.randint(2, 17, (batch, steps), generator=torch.Generator().manual_seed(1))


FEW, EVERY = ((*part, "mingru,mingru,lstm") for part in STATES)
FORMS = tuple(product((False, True), (8, 12)))
"""Whether layers are in blocks, and their width: the embedding's, or another."""


@over(model=Axis(fast=[*zip(FEW, cycle(FORMS), strict=False)], every=[*product(EVERY, FORMS)]))
def test_a_language_model_breaks_no_law_of_recurrent_modules(model):
    """Fed in pieces, by tokens, padded, packed into one row, generating: `gatedrnn.verify` has the laws. What a cell
    gives its model is asked of each; a block and another width, which no cell sees, of the cells in turn.
    """
    cell, (block, hidden_size) = model
    report = check(model_of(cell, block=block, hidden_size=hidden_size), draws=1)
    assert report.failures == [] and sum(one.verdict == "holds" for one in report.outcomes) >= 33


def test_a_token_of_its_own_for_padding_is_hidden_without_a_mask():
    model, text = model_of(MIXED), tokens(1)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), text], 1)
    found, expected = (model.generate(x, max_new_tokens=6, do_sample=False) for x in (padded, text))
    assert torch.equal(found[:, 4:], expected)


@pytest.mark.parametrize("cell", [MIXED, "slstm"])
@pytest.mark.parametrize("options", [{"num_beams": 3}, {"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.5}], ids=str)
def test_generation_with_a_state_is_generation_without_one(cell, options):
    model, text, found = model_of(cell), tokens(), []
    for cached in (True, False):
        torch.manual_seed(3)
        drawn = "num_beams" not in options
        found.append(model.generate(text, max_new_tokens=8, use_cache=cached, do_sample=drawn, **options))
    assert torch.equal(*found)


def test_a_conversation_goes_on_from_its_state_or_a_copy_or_one_that_was_saved(tmp_path):
    model, text = model_of(MIXED), tokens(1)
    first = model.generate(text, max_new_tokens=5, do_sample=False, return_dict_in_generate=True)
    save_file(first.past_key_values.tensors(), tmp_path / "state.safetensors")
    again = GatedRNNCache.of_tensors(model.config, load_file(tmp_path / "state.safetensors"))
    assert again.get_seq_length() == first.past_key_values.get_seq_length() == first.sequences.shape[1] - 1
    longer = torch.cat([first.sequences, tokens(1, 4)], 1)
    expected = model.generate(longer, max_new_tokens=5, do_sample=False)
    for state in (copy.deepcopy(first.past_key_values), again, first.past_key_values):
        found = model.generate(longer, past_key_values=state, max_new_tokens=5, do_sample=False)
        assert torch.equal(found, expected)


def numbers_in(cache):
    return sum(s.numel() for layer in cache.layers for s in layer.recurrent_states.values())


@pytest.mark.parametrize("block", [False, True])
def test_the_structure_of_a_model_of_several_cells_counts_each_and_the_state_does_not_grow_with_the_text(block):
    model = model_of(MIXED, block=block, hidden_size=5)
    structure, parameters = describe_structure(model), count_parameters(model)
    with torch.no_grad():
        sizes = {numbers_in(model(tokens(1, steps)).past_key_values) for steps in (1, 40)}
    assert sizes == {structure.state_size} == {4 * 5} and structure.reads_state
    assert parameters.head == 0 and parameters.embedding == 17 * 8
    assert sum(astuple(parameters)) == 2 * parameters.total == 2 * sum(p.numel() for p in model.parameters())


@over(training=(False, True), piece=(1, 17 * 5, 1 << 20))
def test_the_loss_and_its_gradients_are_those_of_all_logits_at_once(training, piece, monkeypatch):
    monkeypatch.setattr("gatedrnn.models.next_token.CHUNK", piece)
    model, text = model_of().train(training), tokens()
    labels = text.clone()
    labels[0, 5:8] = -100
    out = model(text, labels=labels, skip_logits=training)
    found = torch.autograd.grad(out.loss, list(model.parameters()), retain_graph=True)
    model.eval()
    logits = model(text).logits[:, :-1]
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    assert_equal_within(out.loss, expected, torch.float64, "loss")
    for got, want in zip(found, torch.autograd.grad(expected, list(model.parameters())), strict=True):
        assert_equal_within(got, want, torch.float64, "gradient", gradient=True)
    assert out.logits is None if training else torch.equal(out.logits[:, :-1], logits)
    assert model.train()(text, labels=labels).logits is not None


def test_the_gradient_of_a_shared_table_is_dense_however_large_the_vocabulary():
    """The embedding's part is of the rows of a few tokens alone; the sum with the head's is that of a dense part."""
    model = model_of(vocab_size=97).train()
    text, table = tokens()[:, :6], model.get_input_embeddings()
    for accumulated in (1, 2):
        model(text, labels=text, skip_logits=True).loss.backward()
        assert table.sparse and table.weight.grad.layout == torch.strided
        found = table.weight.grad.clone()
        table.weight.grad = None
        logits = model(text).logits[:, :-1]
        assert not table.sparse, "nothing else has a dense gradient to add it to"
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        assert_equal_within(found, accumulated * table.weight.grad, torch.float64, "gradient", gradient=True)
        table.weight.grad = found


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_is_the_same_model(tied, tmp_path):
    model, text = model_of("mingru,mingru,lstm", tie_word_embeddings=tied), tokens()
    assert (model.lm_head.weight is model.model.embeddings.map.weight) == tied
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    for (name, weight), (_, saved) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(saved, weight), name
    with torch.no_grad():  # some libraries' products depend on where in memory a weight begins
        torch.testing.assert_close(again(text).logits, model(text).logits, rtol=1e-13, atol=1e-15)
    assert (again.lm_head.weight is again.model.embeddings.map.weight) == tied


def test_a_state_can_be_cut_off_from_its_history_and_a_loss_is_divided_by_the_labels_of_all_accumulated_batches():
    model, text = model_of(MIXED).train(), tokens()
    cache = GatedRNNCache(model.config)
    losses = [model(text, labels=text, past_key_values=cache).loss for _ in range(2)]
    sum(losses).backward()  # through both: nothing was written over
    cache.detached()
    model(text, labels=text, past_key_values=cache).loss.backward()
    alone, found = model(text, labels=text).loss, model(text, labels=text, num_items_in_batch=40).loss
    assert_equal_within(found, alone * 20 / 40, torch.float64, "loss")


def test_several_answers_to_one_prompt_do_not_share_a_state():
    model, text = model_of(MIXED), tokens(1)
    torch.manual_seed(3)
    found = model.generate(text, max_new_tokens=12, do_sample=True, num_return_sequences=4)
    assert len({tuple(row.tolist()) for row in found}) > 1
    for row in found:  # each is its own continuation: the logits of the whole row predict it
        with torch.no_grad():
            scores = model(row[None, :-1]).logits[0, text.shape[1] - 1 :]
        assert (scores.log_softmax(-1).gather(1, row[text.shape[1] :, None]) > -20).all()


KINDS = ("words", "whitespace", "tokens", "bpe", "characters", "bytes")
TALE = "the cat sat on a mat\nand the dog sat on the cat\n"


def language_model(kind):
    """A model as `gatedrnn train` builds one, with its tokenizer."""
    tokenizer = learn_tokenizer(kind, [TALE] * 3, 1, 300, stream=True)
    named = {"vocab_size": len(tokenizer), "num_hidden_layers": 2, "eos_token_id": 1, "pad_token_id": 1}
    model = model_of(**named, unk_token_id=0).float()
    if is_by_line(tokenizer):
        model.generation_config.eos_token_id = None
    return model, tokenizer


def test_the_pipeline_continues_a_batch_as_it_continues_each_text_alone():
    model, tokenizer = language_model("characters")
    write = pipeline("text-generation", model=model, tokenizer=tokenizer)
    prompts = ["the cat", "a mat and the dog sat", "t"]
    together = write(prompts, max_new_tokens=9, do_sample=False, batch_size=3)
    alone = [write(prompt, max_new_tokens=9, do_sample=False) for prompt in prompts]
    assert [row[0]["generated_text"] for row in together] == [row[0]["generated_text"] for row in alone]
    assert all(row[0]["generated_text"].startswith(prompt) for row, prompt in zip(together, prompts, strict=True))
    table, text = model.get_input_embeddings(), torch.tensor([[1, 3, 4, 5]])
    model(text, labels=text).loss.backward()
    assert table.padding_idx is None and table.weight[1].any() and table.weight.grad[1].any(), "the token between texts"


@over(kind=KINDS, prompt=("", "the cat", "a mat\nand the dog"), way=("generate", "pipeline", "sample"))
def test_the_first_logits_of_generate_are_those_of_forward(kind, prompt, way):
    model, tokenizer = language_model(kind)
    seen = []
    model.register_forward_hook(lambda _, arguments, named, out: seen.append((named, out)), with_kwargs=True)
    if way == "sample":
        sample(model, tokenizer, prompt, 1)
    elif way == "pipeline":
        pipeline("text-generation", model=model, tokenizer=tokenizer)(prompt, max_new_tokens=1)
    else:
        model.generate(torch.tensor([tokenizer(prompt)["input_ids"]]) if prompt else None, max_new_tokens=1)
    named, out = seen[0]
    with torch.no_grad():
        expected = model(input_ids=named["input_ids"]).logits[:, -1]
    assert named["input_ids"][0, 0] == tokenizer.bos_token_id
    assert_equal_within(out.logits[:, -1], expected, torch.float32, "logits")


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_ends_before_its_stop_and_its_pieces_join_to_it(kind):
    model, tokenizer = language_model(kind)
    whole = sample(model, tokenizer, "the cat", 30, seed=4, endless=True)
    added = whole.removeprefix("the cat")
    assert whole != added
    for stop in (added[5:7], added[-1:], added[:1], added[3:9]):
        if "\ufffd" in stop:  # half a character, which the bytes after it complete
            continue
        for others in ([], ["never in any text", stop + "!"]):
            pieces = []
            found = sample(
                model, tokenizer, "the cat", 30, seed=4, endless=True, stop=[*others, stop], on_text=pieces.append
            )
            assert found == "the cat" + added.partition(stop)[0] == "".join(pieces)
    pieces = []
    assert sample(model, tokenizer, "the cat", 30, seed=4, endless=True, stop=["at"], on_text=pieces.append) == "".join(
        pieces
    )
    assert pieces[0] == "the cat", "a stop in the prompt ends nothing"


def test_a_model_in_training_writes_as_in_evaluation_and_stays_in_training():
    model, tokenizer = language_model("characters")
    expected = sample(model, tokenizer, "the", 9)
    assert sample(model.train(), tokenizer, "the", 9) == expected and model.training


@pytest.mark.parametrize("named", [
    {"stop_strings": ["\n", "a"]}, {"assistant_tokenizer": None}, {"token_healing": True},
    {"stop_strings": "a", "num_beams": 2}, {"stop_strings": "a", "num_return_sequences": 3, "do_sample": True},
])  # fmt: skip
def test_generate_takes_the_tokenizers_that_it_reads_and_forward_refuses_them(named):
    model, tokenizer = language_model("bytes")
    text = torch.tensor([tokenizer("the cat")["input_ids"]])
    named = {name: tokenizer if value is None else value for name, value in named.items()}
    found = model.generate(text, max_new_tokens=9, tokenizer=tokenizer, **named)
    assert text.shape[1] < found.shape[1] <= text.shape[1] + 9
    with pytest.raises(TypeError, match="unexpected keyword argument 'tokenizer'"):
        model(text, tokenizer=tokenizer)


def test_a_pipeline_stops_at_a_sequence():
    model, tokenizer = language_model("bytes")
    write = pipeline("text-generation", model=model, tokenizer=tokenizer)
    for named in ({"stop_sequence": "e"}, {"stop_strings": ["e"], "tokenizer": tokenizer}):
        torch.manual_seed(0)
        found = write("cat", max_new_tokens=200, do_sample=True, return_full_text=False, **named)[0]["generated_text"]
        assert "e" not in found[:-1] and len(found) < 200


def test_models_and_decoding_that_cannot_work_are_refused_and_no_prompt_begins_a_text():
    for changes, message in (
        ({"vocab_size": None, "input_size": 3}, "needs vocab_size"), ({"bidirectional": True}, "forwards alone"),
        ({"cell": "mingru,lstm"}, "names 2 layers"),
        ({"cell": "mingru,lstm,gr"}, "there is no cell 'gr'; did you mean 'gru'"),
    ):  # fmt: skip
        with pytest.raises((ValueError, StrictDataclassClassValidationError), match=message):
            model_of(**changes)
    model, text = model_of(), tokens(1)
    for way, why in (
        ({"prompt_lookup_num_tokens": 2}, "stateful"),
        ({"assistant_model": copy.deepcopy(model)}, "stateful"),
        ({"past_key_values": ((torch.zeros(1), torch.zeros(1)),)}, "must be a GatedRNNCache"),
        ({"cache_implementation": "static"}, "constant size"),
    ):
        with pytest.raises((ValueError, TypeError), match=why):
            model.generate(text, max_new_tokens=4, **way)
    with pytest.raises(ValueError, match="cannot be cropped"):
        model(text).past_key_values.crop(2)
    with pytest.raises(ValueError, match="holds no token"):
        model(torch.zeros(1, 0, dtype=torch.long))
    assert model.generate(max_new_tokens=4, do_sample=False).shape == (1, 5)


TEXTS = [
    "Good!", "이 영화는 정말 재미있다 👍 , really , really good .", "bad bad bad", "never seen such words", "so-so",
]  # fmt: skip


@pytest.mark.parametrize("kind, pooling", [("words", "last"), ("whitespace", "mean"), ("bpe", "max")])
def test_a_batch_of_unequal_texts_scores_as_each_text_alone(kind, pooling, tmp_path):
    tokenizer = learn_tokenizer(kind, TEXTS, min_count=1, vocabulary_size=400)
    named = {"vocab_size": len(tokenizer), "pooling": pooling}
    model = small.model_of(GatedRNNForSequenceClassification, dtype=torch.float32, **named)
    tokenizer.save_pretrained(tmp_path)
    for chosen in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        classify = pipeline("text-classification", model=model, tokenizer=chosen, device="cpu")
        together = classify(TEXTS, batch_size=len(TEXTS), top_k=None)
        for text, scores in zip(TEXTS, together, strict=True):
            (alone,) = classify([text], top_k=None)
            assert [row["label"] for row in scores] == [row["label"] for row in alone]
            numbers = ([row["score"] for row in rows] for rows in (scores, alone))
            assert_equal_within(*numbers, torch.float32, text)


def test_the_trainer_takes_the_steps_of_plain_gradient_descent(tmp_path):
    rows, accumulation, steps, rate = 8, 2, 3, 0.5
    inputs, labels = small.tokens(rows, 5), torch.arange(rows) % 4
    model = small.model_of(GatedRNNForSequenceClassification, dtype=torch.float32)
    expected, optimizer = copy.deepcopy(model), torch.optim.SGD(model.parameters(), lr=rate)
    arguments = TrainingArguments(
        tmp_path, max_steps=steps, per_device_train_batch_size=rows // accumulation, max_grad_norm=0.0, logging_steps=1,
        gradient_accumulation_steps=accumulation, report_to="none", use_cpu=True, disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    data = [{"input_ids": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]
    optimizers = optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    trainer = Trainer(model, arguments, train_dataset=data, optimizers=optimizers)
    trainer.train()
    optimizer, losses = torch.optim.SGD(expected.parameters(), lr=rate), []
    for _ in range(steps):
        loss = expected(inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for (name, value), found in zip(expected.named_parameters(), model.parameters(), strict=True):
        assert_equal_within(found, value, torch.float32, name, gradient=True)
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert_equal_within(logged, losses, torch.float32, "logged losses", gradient=True)
