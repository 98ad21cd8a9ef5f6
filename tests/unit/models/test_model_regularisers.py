"""A regularised model learns, the same with the same seed, and is itself again in evaluation."""

import pytest
import torch
from small_models import JOINT, MULTIPLIES_STATE, config_of, every_build, every_cell, model_of, tokens
from tolerances import assert_equal_within

from gatedrnn import RecurrentLayer
from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification

STEPS = 6


def rates_of(cell, rate=0.2):
    names = ["input_dropout", "state_dropout", *(["weight_dropout"] if cell in MULTIPLIES_STATE else [])]
    names += [] if cell in JOINT else ["zoneout"]
    return dict.fromkeys(names, rate)


def toy(rows=32):
    """Short sequences whose label is their first token's half of the vocabulary."""
    batch = tokens(rows, 3)
    return {"input_ids": batch, "labels": (batch[:, 0] > 5).long()}


def train(cell, build, seed, steps):
    """A model after a few steps on the toy, and its losses."""
    torch.manual_seed(seed)
    fields = {"dropout": 0.1, "layer_norm": True, "num_labels": 2, **rates_of(cell)}
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


@pytest.mark.parametrize("cell", ["lstm", "mgu", "mingru", "para-gru", "block-orthogonal"])  # of each kind
def test_a_regularised_model_learns_and_the_same_with_the_same_seed(cell):
    for build in ("plain", "both-directions-block"):
        model, losses = train(cell, build, seed=0, steps=60)
        assert model.eval()(**toy(200)).loss < 0.8 * losses[0]
        assert train(cell, build, seed=0, steps=5)[1] == losses[:5]
        assert train(cell, build, seed=1, steps=1)[1] != losses[:1]


@every_cell
@every_build
@torch.no_grad()
def test_in_evaluation_nothing_is_dropped_and_nothing_drawn(cell, build):
    rates = rates_of(cell, 0.5) | {"zoneout": 0.0}
    model = model_of(GatedRNNForSequenceClassification, build=build, cell=cell, **rates)
    plain = model_of(GatedRNNForSequenceClassification, build=build, cell=cell)
    plain.load_state_dict(model.state_dict())
    batch, before = tokens(4, STEPS), torch.get_rng_state()
    assert_equal_within(model(batch).logits, plain(batch).logits, torch.float64, "logits")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("cell", ["mingru", "lstm-input-gated", "gru-input-gated"])
@torch.no_grad()
def test_zoneout_in_evaluation_is_the_mean_of_training_where_a_step_is_linear_in_the_state(cell):
    # With one step from zeros the state is (1 - p) of what it would be, and in part of the draws all of it.
    model = model_of(GatedRNNForTokenClassification, cell=cell, zoneout=0.25, num_hidden_layers=1)
    layer = next(m for m in model.modules() if isinstance(m, RecurrentLayer))
    x = torch.randn(1, 1, layer.input_size).double()
    expected = layer(x)[1]
    layer.zoneout = 0.0
    assert_equal_within(expected, 0.75 * layer(x)[1], torch.float64, "the expectation")
    layer.zoneout = 0.25
    drawn = layer.train()(x.expand(20_000, 1, -1))[1].mean(1)
    full = expected.abs().max() / 0.75
    # Six standard deviations of the mean of 20,000 draws.
    assert (drawn - expected[:, 0]).abs().max() < 6 * (0.25 * 0.75 / 20_000) ** 0.5 * full


@every_cell
@every_build
@torch.no_grad()
def test_zoneout_alone_still_acts_in_evaluation_and_draws_nothing(cell, build):
    if cell in JOINT:
        return
    model = model_of(GatedRNNForTokenClassification, build=build, cell=cell, zoneout=0.5)
    plain = model_of(GatedRNNForTokenClassification, build=build, cell=cell)
    plain.load_state_dict(model.state_dict())
    batch = tokens(3, STEPS)
    once = model(batch).logits
    assert torch.equal(once, model(batch).logits)
    assert not torch.allclose(once, plain(batch).logits)


@every_cell
@every_build
def test_rates_of_a_configuration_reach_every_layer(cell, build):
    rates = {name: 0.1 * (i + 1) for i, name in enumerate(rates_of(cell))}
    model = GatedRNNForSequenceClassification(config_of(build=build, cell=cell, dropout=0.6, **rates))
    layers = [m for m in model.modules() if isinstance(m, RecurrentLayer)]
    assert len(layers) == (2 if "block" in build else 1)
    for layer in layers:
        assert {name: getattr(layer, name) for name in rates} == rates
        assert layer.dropout == (0.0 if "block" in build else 0.6)
        assert layer.bidirectional is ("both-directions" in build)
        assert layer.batch_first
