"""What a sequence classifier reads of its steps, against loops of plain Python."""

import pytest
import torch
from covering import over
from small_models import BUILD, CELL, EVERY_POOLING, HIDDEN, LABELS, allows, inputs_of, model_of
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.models.modeling import pool

READ = {
    "last": lambda steps: steps[-1],
    "mean": lambda steps: sum(steps) / len(steps),
    "max": max,
}


def by_loops(states, mask, how):
    return [
        [
            READ[how]([float(row[t, feature]) for t in range(len(row)) if real[t]]) if any(real) else 0.0
            for feature in range(row.shape[1])
        ]
        for row, real in zip(states, mask.tolist(), strict=True)
    ]


@pytest.mark.parametrize("how", EVERY_POOLING)
def test_pooling_is_a_loop_over_the_real_steps_which_are_all_without_a_mask(how):
    states, mask = torch.randn(40, 6, 3).double(), torch.rand(40, 6) < 0.5
    mask[0], mask[1] = False, True
    for given, real in ((mask, mask), (None, torch.ones(40, 6))):
        expected = torch.tensor(by_loops(states, real, how), dtype=torch.float64)
        assert_equal_within(pool(states, given, how), expected, torch.float64, how)


@pytest.mark.parametrize("how", EVERY_POOLING)
def test_what_stands_in_a_padded_step_is_not_read(how):
    states, mask = torch.randn(4, 6, 3), torch.tensor([[0, 1, 1, 0, 1, 0]] * 4).bool()
    for anything in (float("nan"), float("inf"), float("-inf"), 1e30):
        spoilt = torch.where(mask[..., None], states, anything)
        assert torch.equal(pool(spoilt, mask, how), pool(states, mask, how))


@pytest.mark.parametrize("how", EVERY_POOLING)
def test_of_both_directions_the_last_step_of_the_second_is_the_first_real_one(how):
    states, mask = torch.randn(40, 6, 6).double(), torch.rand(40, 6) < 0.5
    mask[0], mask[1] = False, True
    forwards, backwards = states.chunk(2, dim=2)
    if how == "last":
        backwards = backwards.flip(1)
    halves = by_loops(forwards, mask, how), by_loops(backwards, mask.flip(1) if how == "last" else mask, how)
    expected = torch.cat([torch.tensor(half, dtype=torch.float64) for half in halves], dim=1)
    assert_equal_within(pool(states, mask, how, bidirectional=True), expected, torch.float64, how)
    everything = pool(states, torch.ones_like(mask), how, bidirectional=True)
    assert_equal_within(pool(states, None, how, bidirectional=True), everything, torch.float64, how)


@over(allows, cell=CELL, build=BUILD, pooling=EVERY_POOLING)
def test_a_classifier_is_its_head_on_the_pooled_states(cell, build, pooling):
    batch, mask = inputs_of("tokens", 3, 6), torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1] * 6])
    model = model_of(GatedRNNForSequenceClassification, build=build, cell=cell, pooling=pooling)
    states = model.model(**batch, attention_mask=mask).last_hidden_state.detach()
    pooled = torch.tensor(by_loops(states, mask, pooling), dtype=torch.float64)
    if (pooling, build) == ("last", "both-directions"):
        assert pooled.shape[1] == 2 * HIDDEN
        pooled[:, HIDDEN:] = states[[0, 1, 2], [0, 2, 0], HIDDEN:]
    expected = pooled @ model.classifier.weight.T + model.classifier.bias
    assert_equal_within(model(**batch, attention_mask=mask).logits, expected, torch.float64, "logits")


@over(cell=CELL, build=("plain", "block"), checkpointing=(False, True))
def test_the_last_step_alone_is_the_last_of_all_steps_and_so_are_its_gradients(cell, build, checkpointing):
    model = model_of(GatedRNNForSequenceClassification, "numbers", build=build, cell=cell, pooling="last").train()
    if checkpointing:
        model.activation_checkpointing_enable()
    inputs, up = inputs_of("numbers", 3, 7), torch.randn(3, LABELS).double()
    found = {}
    for mask in (None, torch.ones(3, 7)):  # with a mask, every step is computed
        logits = model(**inputs, attention_mask=mask).logits
        found[mask is None] = [logits, *torch.autograd.grad((logits * up).sum(), list(model.parameters()))]
    assert model.model(**inputs, last_only=True).last_hidden_state.shape == (3, 1, model.model.output_size)
    for alone, whole in zip(found[True], found[False], strict=True):
        assert_equal_within(alone, whole, torch.float64, "logits and gradients", gradient=True)
