"""Each rate acts in its own place, in training alone; a regularised model learns, the same with the same seed."""

import pytest
import torch
from covering import over
from small_models import BUILD, UNK, VOCABULARY, config_of, every_build, inputs_of, model_of, tokens

from gatedrnn import RecurrentLayer
from gatedrnn.layers.dropout import REGULARISERS
from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNModel
from gatedrnn.models.configuration import RATES

OF_LAYERS = {
    "lstm": ("zoneout", "input_dropout", "state_dropout", "weight_dropout"),
    "mingru": ("zoneout", "input_dropout", "state_dropout"),  # no recurrent weights
    "slstm": ("input_dropout", "state_dropout", "weight_dropout"),  # states that belong together
}


def toy(rows=32):
    """Short sequences whose label is their first token's half of the vocabulary."""
    batch = tokens(rows, 3)
    return {"input_ids": batch, "labels": (batch[:, 0] > 5).long()}


def train(cell, build, seed, steps):
    """A model after a few steps on the toy, and its losses."""
    torch.manual_seed(seed)
    fields = {"dropout": 0.1, "layer_norm": True, "num_labels": 2, **dict.fromkeys(OF_LAYERS[cell], 0.2)}
    model = GatedRNNForSequenceClassification(config_of(build=build, cell=cell, **fields)).train()
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=0.03), []
    for _ in range(steps):
        loss = model(**toy()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def test_a_longest_time_scale_reaches_the_layers_that_spread_theirs_and_no_other():
    config = config_of(cell="mingru,lstm", hidden_size=500, longest_time_scale=1000)
    scan, loop = (part.layer for part in GatedRNNForSequenceClassification(config).model.parts)
    assert 1 / 1000 - 1e-6 <= torch.sigmoid(scan.bias_ih_l0[500:]).min() < 1 / 800  # of the gate that replaces
    assert loop.bias_init == "torch"


@pytest.mark.parametrize("cell, build", [("lstm", "plain"), ("mingru", "both-directions-block")])
def test_a_regularised_model_learns_and_the_same_with_the_same_seed(cell, build):
    model, losses = train(cell, build, seed=0, steps=60)
    assert model.eval()(**toy(200)).loss < 0.8 * losses[0]
    assert train(cell, build, seed=0, steps=5)[1] == losses[:5]
    assert train(cell, build, seed=1, steps=1)[1] != losses[:1]


@every_build
def test_rates_of_a_configuration_reach_every_layer_that_has_them(build):
    rates = {name: 0.1 * (i + 1) for i, name in enumerate(OF_LAYERS["lstm"])}
    config = config_of(build=build, cell="lstm,lstm,mingru,slstm", num_hidden_layers=4, dropout=0.6, **rates)
    layers = [m for m in GatedRNNForSequenceClassification(config).modules() if isinstance(m, RecurrentLayer)]
    assert [layer.cell.name for layer in layers] == config.cell.split(",")["block" not in build :]
    for layer in layers:
        known = {name: rate if name in OF_LAYERS[layer.cell.name] else 0.0 for name, rate in rates.items()}
        assert {name: getattr(layer, name) for name in rates} == known
        assert layer.dropout == (0.6 if layer.num_layers == 2 else 0.0)
        assert layer.bidirectional is ("both-directions" in build)
        assert layer.batch_first


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


@over(lambda name, build: name not in REGULARISERS or build == "block", name=RATES, build=BUILD)
def test_every_dropout_acts_in_training_alone_and_zoneout_always(name, build):
    # gru, because a scan cell has no recurrent weight to drop.
    model = model_of(GatedRNNForSequenceClassification, build=build, cell="gru", **{name: 0.5})
    plain = model_of(GatedRNNForSequenceClassification, build=build, cell="gru")
    plain.load_state_dict(model.state_dict())
    batch = inputs_of("tokens", 20, 6)
    before = torch.get_rng_state()
    assert torch.equal(model(**batch).logits, plain(**batch).logits) == (name != "zoneout")
    assert torch.equal(torch.get_rng_state(), before), "nothing is drawn"
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
