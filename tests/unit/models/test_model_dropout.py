"""Dropout acts in training alone, each kind on its own place."""

import pytest
import torch
from small_models import UNK, VOCABULARY, every_build, inputs_of, model_of, tokens

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNModel

LAYER_RATES = ("input_dropout", "state_dropout", "weight_dropout")
KINDS_OF_DROPOUT = ("token_dropout", "embedding_dropout", "dropout", "head_dropout", *LAYER_RATES)


def test_token_dropout_replaces_whole_tokens_by_the_unknown_one_as_often_as_it_says():
    embeddings = model_of(GatedRNNModel, token_dropout=0.3).train().embeddings
    table, inputs = embeddings.map.weight, tokens(100, 100)
    found = embeddings(inputs)
    replaced = (found == table[UNK]).all(2)
    assert torch.equal(found, table[torch.where(replaced, UNK, inputs)])
    # 10,000 draws: six standard deviations are 0.0275.
    assert abs(replaced.double().mean() - 0.3) < 0.0275
    assert replaced.any(1).all(), "drawn for every row by itself"
    assert not torch.equal(found, embeddings(inputs)), "drawn anew at every call"


def test_token_dropout_does_nothing_in_evaluation_and_nothing_to_numbers():
    inputs = tokens(50, 50)
    embeddings = model_of(GatedRNNModel, token_dropout=0.9).embeddings
    assert torch.equal(embeddings(inputs), embeddings.map.weight[inputs])
    model, batch = model_of(GatedRNNModel, "numbers", token_dropout=0.9), inputs_of("numbers", 4, 6)
    expected = model(**batch).last_hidden_state
    assert torch.equal(model.train()(**batch).last_hidden_state, expected)


@every_build
@pytest.mark.parametrize("name", KINDS_OF_DROPOUT)
def test_every_dropout_acts_in_training_alone(name, build):
    # gru, because a scan cell has no recurrent weight to drop.
    model = model_of(GatedRNNForSequenceClassification, build=build, cell="gru", **{name: 0.5})
    plain = model_of(GatedRNNForSequenceClassification, build=build, cell="gru")
    plain.load_state_dict(model.state_dict())
    batch = inputs_of("tokens", 20, 6)
    assert torch.equal(model(**batch).logits, plain(**batch).logits)
    assert torch.equal(plain.train()(**batch).logits, plain.eval()(**batch).logits), "none is none in training too"
    model.train()
    assert not torch.equal(model(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize("silent", ["projection.weight", "feed_forward.2.weight"])
def test_a_block_drops_both_of_its_branches(silent):
    model = model_of(GatedRNNModel, block=True, num_hidden_layers=1, dropout=0.5).train()
    torch.nn.init.zeros_(model.parts[0].get_parameter(silent))
    torch.nn.init.zeros_(model.parts[0].feed_forward[2].bias)
    batch = inputs_of("tokens", 5, 6)
    assert not torch.equal(model(**batch).last_hidden_state, model(**batch).last_hidden_state)


def test_head_dropout_leaves_the_states_alone():
    model = model_of(GatedRNNForSequenceClassification, head_dropout=0.5).train()
    batch = inputs_of("tokens", 5, 6)
    assert torch.equal(model.model(**batch).last_hidden_state, model.model(**batch).last_hidden_state)


def test_a_padding_token_embeds_to_zero_and_never_learns():
    model = GatedRNNModel(model_of(GatedRNNModel).config)
    table = model.embeddings.map.weight
    assert not table[model.config.pad_token_id].any()
    every_token = torch.arange(VOCABULARY)[None]
    model(every_token).last_hidden_state.sum().backward()
    assert not table.grad[model.config.pad_token_id].any()
    assert table.grad[1:].any(1).all()
