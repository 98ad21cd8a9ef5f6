"""Language models: one text in parallel, in pieces, or token by token gives the same; `generate` carries the state."""

import copy

import pytest
import torch
from covering import Axis, over
from huggingface_hub.errors import StrictDataclassClassValidationError
from small_models import one_of_each
from tolerances import assert_equal_within
from transformers import AutoModelForCausalLM

from gatedrnn.layers.runners import runner_of
from gatedrnn.models import GatedRNNCache, GatedRNNConfig, GatedRNNForCausalLM
from gatedrnn.models.structure import PARTS, count_parameters, describe_structure

MIXED = "mingru,lstm,mgu"
STATES = one_of_each(lambda cell: (runner_of(cell), cell.carried))
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


@over(
    cell=Axis(*((*part, "mingru,mingru,lstm") for part in STATES)), block=(False, True), hidden_size=(8, 12),
    cuts={"pieces": [3, 8], "tokens": list(range(1, 11))},
)  # fmt: skip
@torch.no_grad()
def test_a_text_in_pieces_or_token_by_token_gives_the_logits_of_the_whole(cell, block, hidden_size, cuts):
    model, text = model_of(cell, block=block, hidden_size=hidden_size), tokens()
    cache, found = None, []
    for piece in text.tensor_split(cuts, dim=1):
        out = model(piece, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        found.append(out.logits)
    assert_equal_within(torch.cat(found, 1), model(text).logits, torch.float64, "logits")
    assert cache.get_seq_length() == 11


def test_padding_on_the_left_changes_nothing():
    model, text = model_of(MIXED), tokens(1)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), text], 1)
    mask = (torch.arange(15) >= 4).long().unsqueeze(0)
    with torch.no_grad():
        logits = model(padded, attention_mask=mask).logits[:, 4:]
        assert_equal_within(logits, model(text).logits, torch.float64, "logits")
    both = model.generate(padded, attention_mask=mask, max_new_tokens=6, do_sample=False)
    assert torch.equal(both[:, 4:], model.generate(text, max_new_tokens=6, do_sample=False))


@pytest.mark.parametrize("cell", [MIXED, "slstm"])
@pytest.mark.parametrize("options", [{"num_beams": 3}, {"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.5}], ids=str)
def test_generation_with_a_state_is_generation_without_one(cell, options):
    model, text, found = model_of(cell), tokens(), []
    for cached in (True, False):
        torch.manual_seed(3)
        drawn = "num_beams" not in options
        found.append(model.generate(text, max_new_tokens=8, use_cache=cached, do_sample=drawn, **options))
    assert torch.equal(*found)


def test_a_conversation_goes_on_from_its_state():
    model, text = model_of(MIXED), tokens(1)
    first = model.generate(text, max_new_tokens=5, do_sample=False, return_dict_in_generate=True)
    kept = copy.deepcopy(first.past_key_values)
    longer = torch.cat([first.sequences, tokens(1, 4)], 1)
    expected = model.generate(longer, max_new_tokens=5, do_sample=False)
    for state in (first.past_key_values, kept):
        found = model.generate(longer, past_key_values=state, max_new_tokens=5, do_sample=False)
        assert torch.equal(found, expected)


def test_the_state_does_not_grow_with_the_text():
    model = model_of(MIXED)

    def size(cache):
        return sum(s.numel() for layer in cache.layers for s in layer.recurrent_states.values())

    with torch.no_grad():
        sizes = {size(model(tokens(2, steps)).past_key_values) for steps in (1, 40)}
    assert sizes == {2 * 8 * 4}


@pytest.mark.parametrize("block", [False, True])
def test_the_structure_of_a_model_of_several_cells_counts_each(block):
    model = model_of(MIXED, block=block, hidden_size=5)
    structure = describe_structure(model)
    with torch.no_grad():
        state = model(tokens(1)).past_key_values
    assert structure["state_size"] == sum(s.numel() for layer in state.layers for s in layer.recurrent_states.values())
    assert structure["state_size"] == 4 * 5 and structure["reads_state"]
    parameters = count_parameters(model)
    assert parameters["head"] == 0 and parameters["embedding"] == 17 * 8
    assert sum(parameters[part] for part in PARTS) == parameters["total"] == sum(p.numel() for p in model.parameters())


@over(training=(False, True), piece=(1, 17 * 5, 1 << 20))
def test_the_loss_and_its_gradients_are_those_of_all_logits_at_once(training, piece, monkeypatch):
    monkeypatch.setattr("gatedrnn.ops.cross_entropy.CHUNK", piece)
    model, text = model_of().train(training), tokens()
    labels = text.clone()
    labels[0, 5:8] = -100
    out = model(text, labels=labels)
    found = torch.autograd.grad(out.loss, list(model.parameters()))
    model.eval()
    logits = model(text).logits[:, :-1]
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    assert_equal_within(out.loss, expected, torch.float64, "loss")
    for got, want in zip(found, torch.autograd.grad(expected, list(model.parameters())), strict=True):
        assert_equal_within(got, want, torch.float64, "gradient", gradient=True)
    assert (out.logits is None) == training


def test_a_loss_over_accumulated_batches_is_divided_by_all_their_labels():
    model, text = model_of().train(), tokens()
    with torch.no_grad():
        alone = model(text, labels=text).loss
        assert_equal_within(
            model(text, labels=text, num_items_in_batch=40).loss, alone * 20 / 40, torch.float64, "loss"
        )


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


def test_a_state_that_is_carried_through_training_can_be_cut_off_from_its_history():
    model, text = model_of(MIXED).train(), tokens()
    cache = GatedRNNCache(model.config)
    first = model(text, labels=text, past_key_values=cache).loss
    second = model(text, labels=text, past_key_values=cache).loss
    (first + second).backward()  # through both: nothing was written over
    cache.detached()
    model(text, labels=text, past_key_values=cache).loss.backward()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"vocab_size": None, "input_size": 3}, "needs vocab_size"), ({"bidirectional": True}, "forwards alone"),
        ({"cell": "mingru,lstm"}, "names 2 layers"),
        ({"cell": "mingru,lstm,gr"}, "there is no cell 'gr'; did you mean 'gru'"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_language_model_is_refused(changes, message):
    with pytest.raises((ValueError, StrictDataclassClassValidationError), match=message):
        model_of(**changes)
