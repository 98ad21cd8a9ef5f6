"""Steps as heads read them: padding is nothing, pooling a loop, a direction no other; losses; precision."""

import math

import pytest
import small_models as small
import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification, GatedRNNModel
from gatedrnn.models.modeling import pool

STEPS, IGNORED = 7, -100
MASKS = {
    "right": [[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]],
    "left": [[0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]],
    "between": [[1, 0, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1, 0]],
    "both": [[0, 0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0]],
    "nowhere": [[1, 1, 1, 1, 1, 1, 1]] * 3,
}


def padded_and_alone(kind, place):
    """A batch whose padding holds any values at all, its mask, and each row by itself without padding."""
    batch, mask = small.inputs_of(kind, len(MASKS[place]), STEPS), torch.tensor(MASKS[place])
    ((name, values),) = batch.items()
    return batch, mask, [{name: row[real.bool()][None]} for row, real in zip(values, mask, strict=True)]


def assert_same(model, logits, expected):
    """Logits, and their gradients."""
    assert_equal_within(logits, expected, torch.float64, "logits")
    upstream = torch.randn_like(expected)
    weights = list(model.parameters())
    got, want = (torch.autograd.grad((x * upstream).sum(), weights, retain_graph=True) for x in (logits, expected))
    for name, a, b in zip(dict(model.named_parameters()), got, want, strict=True):
        assert_equal_within(a, b, torch.float64, f"gradient of {name}", gradient=True)


@over(
    lambda head, build, pooling: pooling == "mean" or (head is small.HEADS[0] and small.allows(build, pooling)),
    head=small.HEADS, cell=small.CELL, build=small.BUILD, pooling=small.EVERY_POOLING, kind=small.KIND,
    place=tuple(MASKS),
)  # fmt: skip
def test_a_padded_batch_has_the_logits_and_gradients_of_the_rows_alone(head, cell, build, pooling, kind, place):
    model = small.model_of(head, kind, build=build, cell=cell, pooling=pooling)
    batch, mask, alone = padded_and_alone(kind, place)
    real = mask.bool() if head is GatedRNNForTokenClassification else slice(None)
    expected = torch.cat([model(**row).logits.flatten(0, -2) for row in alone])
    for given in (mask, mask.bool(), *([None] if mask.all() else [])):
        assert_same(model, model(**batch, attention_mask=given).logits[real], expected)


@over(small.allows, build=small.BUILD, pooling=small.EVERY_POOLING, kind=small.KIND)
def test_a_row_without_a_real_step_reads_nothing_or_an_unknown_token_and_disturbs_nobody(build, pooling, kind):
    model = small.model_of(GatedRNNForSequenceClassification, kind, build=build, pooling=pooling)
    batch, mask, _ = padded_and_alone(kind, "left")
    full = model(**batch, attention_mask=mask).logits
    mask[1] = 0
    logits = model(**batch, attention_mask=mask).logits
    expected = model.classifier.bias  # the pooled vector of nothing is zero
    if kind == "tokens":  # `predict` and `pipeline` read a text without tokens so
        expected = model(input_ids=torch.tensor([[model.config.unk_token_id]])).logits[0]
        assert_equal_within(model(input_ids=torch.empty(1, 0)).logits[0], expected, torch.float64, "no token")
    assert_equal_within(logits[1], expected, torch.float64, "a row without a real step")
    assert_equal_within(logits[[0, 2]], full[[0, 2]], torch.float64, "the other rows")
    assert all(g.isfinite().all() for g in torch.autograd.grad(logits.sum(), list(model.parameters())))


READ = {"last": lambda steps: steps[-1], "mean": lambda steps: sum(steps) / len(steps), "max": max}


def by_loops(states, mask, how):
    read = lambda steps: [READ[how](numbers.tolist()) if len(steps) else 0.0 for numbers in steps.T]  # noqa: E731
    rows = [read(row[real.bool()]) for row, real in zip(states, mask, strict=True)]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("how", small.EVERY_POOLING)
def test_pooling_is_a_loop_over_the_real_steps_and_the_last_of_the_second_direction_is_the_first_real_one(how):
    states, mask = torch.randn(40, 6, 6).double(), torch.rand(40, 6) < 0.5
    mask[0], mask[1] = False, True
    forwards, backwards = states.chunk(2, dim=2)
    turned = (lambda x: x.flip(1)) if how == "last" else (lambda x: x)
    for given, real in ((mask, mask), (None, torch.ones(40, 6))):
        assert_equal_within(pool(states, given, how), by_loops(states, real, how), torch.float64, how)
        both = torch.cat([by_loops(forwards, real, how), by_loops(turned(backwards), turned(real), how)], 1)
        assert_equal_within(pool(states, given, how, bidirectional=True), both, torch.float64, how)
    for anything in (float("nan"), float("inf"), float("-inf"), 1e30):
        assert torch.equal(pool(torch.where(mask[..., None], states, anything), mask, how), pool(states, mask, how))


@over(small.allows, cell=small.CELL, build=small.BUILD, pooling=small.EVERY_POOLING)
def test_a_classifier_is_its_head_on_the_pooled_states(cell, build, pooling):
    batch, mask = small.inputs_of("tokens", 3, 6), torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1] * 6])
    model = small.model_of(GatedRNNForSequenceClassification, build=build, cell=cell, pooling=pooling)
    states = model.model(**batch, attention_mask=mask).last_hidden_state.detach()
    pooled = by_loops(states, mask, pooling)
    if (pooling, build) == ("last", "both-directions"):
        assert pooled.shape[1] == 2 * small.HIDDEN
        pooled[:, small.HIDDEN :] = states[[0, 1, 2], [0, 2, 0], small.HIDDEN :]
    expected = pooled @ model.classifier.weight.T + model.classifier.bias
    assert_equal_within(model(**batch, attention_mask=mask).logits, expected, torch.float64, "logits")


@over(cell=small.CELL, build=("plain", "block"), checkpointing=(False, True))
def test_the_last_step_alone_is_the_last_of_all_steps_and_so_are_its_gradients(cell, build, checkpointing):
    model = small.model_of(GatedRNNForSequenceClassification, "numbers", build=build, cell=cell, pooling="last").train()
    if checkpointing:
        model.activation_checkpointing_enable()
    inputs, up = small.inputs_of("numbers", 3, 7), torch.randn(3, small.LABELS).double()
    found = []
    for mask in (None, torch.ones(3, 7)):  # with a mask, every step is computed
        logits = model(**inputs, attention_mask=mask).logits
        found.append([logits, *torch.autograd.grad((logits * up).sum(), list(model.parameters()))])
    assert model.model(**inputs, last_only=True).last_hidden_state.shape == (3, 1, model.model.output_size)
    for alone, whole in zip(*found, strict=True):
        assert_equal_within(alone, whole, torch.float64, "logits and gradients", gradient=True)


def with_directions_turned(weights):
    """A state dict of a model of two layers whose directions have changed places."""
    found = {}
    for name, value in weights.items():
        if "weight_ih_l1" in name or name == "classifier.weight":
            value = value.unflatten(1, (-1, 2, small.HIDDEN)).flip(2).flatten(1)
        if ".layer." in name:
            name = name.removesuffix("_reverse") if name.endswith("_reverse") else f"{name}_reverse"
        found[name] = value
    return found


@over(cell=small.CELL, how=small.EVERY_POOLING, head=small.HEADS)
@torch.no_grad()
def test_a_sequence_read_backwards_by_the_other_direction_scores_the_same(cell, how, head):
    batch, mask = small.tokens(3, STEPS), torch.tensor(MASKS["between"])
    model, other = (small.model_of(head, build="both-directions", cell=cell, pooling=how) for _ in range(2))
    other.load_state_dict(with_directions_turned(model.state_dict()))
    expected = model(batch, attention_mask=mask).logits
    logits = other(batch.flip(1), attention_mask=mask.flip(1)).logits
    at_steps = head is GatedRNNForTokenClassification
    assert_equal_within(logits.flip(1) if at_steps else logits, expected, torch.float64, "logits")


@over(cell=small.CELL, build=small.BUILD, kind=small.KIND, head=small.HEADS)
def test_every_parameter_learns(cell, build, kind, head):
    """Some of three models learns with all of its parameters: a small one may be drawn with units that are zero, or
    forget all, at every step.
    """
    fields, still = {"layer_norm": True, "problem_type": "single_label_classification"}, None
    for _ in range(3):
        labels = torch.randint(small.LABELS, (4, STEPS))
        model = small.model_of(head, kind, torch.float32, build=build, cell=cell, **fields).train()
        wanted = labels if head is GatedRNNForTokenClassification else labels[:, 0]
        model(**small.inputs_of(kind, 4, STEPS, dtype=torch.float32), labels=wanted).loss.backward()
        unmoved = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
        still = unmoved if still is None else still & unmoved
    assert not still, "parameters without a gradient"


def cross_entropy(logits, labels):
    """Mean of -log softmax(logits)[label] over the labels that count, in plain Python."""
    counted = [(row, label) for row, label in zip(logits, labels, strict=True) if label != IGNORED]
    return sum(math.log(sum(map(math.exp, row))) - row[label] for row, label in counted) / len(counted)


@small.every_kind
def test_a_class_or_a_step_costs_its_cross_entropy_and_nothing_without_a_label_and_a_number_its_squared_error(kind):
    steps = torch.randint(small.LABELS, (5, 6))
    steps[0, 2:], steps[1, :5], steps[2, 3] = IGNORED, IGNORED, IGNORED
    # transformers takes the loss of steps in float32, whatever the logits are.
    for head, labels, dtype in zip(
        small.HEADS, (torch.arange(5) % small.LABELS, steps), (torch.float64, torch.float32), strict=True
    ):
        model, batch = small.model_of(head, kind), small.inputs_of(kind, 5, 6)
        output, without = model(**batch, labels=labels), model(**batch)
        expected = cross_entropy(output.logits.flatten(0, -2).tolist(), labels.flatten().tolist())
        assert_equal_within(output.loss, torch.tensor(expected, dtype=torch.float64), dtype, "loss")
        assert without.loss is None and torch.equal(without.logits, output.logits)
    for numbers in (1, 3):
        model = small.model_of(small.HEADS[0], kind, num_labels=numbers, problem_type="regression")
        labels = torch.randn(5, numbers).double()
        # One number a row comes as (batch,), as transformers has it.
        output = model(**small.inputs_of(kind, 5, 6), labels=labels[:, 0] if numbers == 1 else labels)
        assert_equal_within(output.loss, ((output.logits - labels) ** 2).sum() / labels.numel(), torch.float64, "loss")


@over(cell=small.SMOOTH_CELL, build=small.BUILD, kind=small.KIND, masked=(False, True))
def test_bfloat16_autocast_stays_near_float32(cell, build, kind, masked):
    model = GatedRNNForSequenceClassification(small.config_of(kind, build=build, cell=cell, pooling="mean"))
    batch, labels = small.inputs_of(kind, 4, 9, dtype=torch.float32), torch.arange(4)
    mask = torch.tensor([[1] * 9, [1] * 5 + [0] * 4, [0] * 2 + [1] * 7, [0] * 9]) if masked else None
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            output = model(**batch, attention_mask=mask, labels=labels)
        results.append((output, torch.autograd.grad(output.loss, list(model.parameters()))))
    (single, expected), (mixed, found) = results
    assert mixed.logits.dtype == torch.bfloat16
    # The table small.allows one rounding. A block adds up some eight in each logit, of either sign: not in the loss.
    if "block" not in build:
        assert_equal_within(mixed.logits, single.logits, torch.bfloat16, "logits")
    assert_equal_within(mixed.loss, single.loss, torch.bfloat16, "loss")
    for (name, _), a, b in zip(model.named_parameters(), found, expected, strict=True):
        assert a.dtype == torch.float32 and a.isfinite().all()
        if "block" not in build:
            assert_equal_within(a, b, torch.bfloat16, f"gradient of {name}", gradient=True)


@over(cell=small.CELL, build=("plain", "block"))
@torch.no_grad()
def test_the_cache_of_a_bfloat16_model_is_wide(cell, build):
    model = small.model_of(GatedRNNModel, dtype=torch.bfloat16, cell=cell, build=build)
    cache = None
    for steps in (5, 1):
        cache = model(small.tokens(2, steps), past_key_values=cache, use_cache=True).past_key_values
        assert {s.dtype for name, s in cache.tensors().items() if name.startswith("layer")} == {torch.float32}
