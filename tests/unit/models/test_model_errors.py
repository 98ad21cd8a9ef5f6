"""What cannot work is refused where it is asked for, in words that name the argument and the rule."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from small_models import FEATURES, MULTIPLIES_STATE, OPTIONS, config_of, every_cell, inputs_of, model_of, tokens
from transformers import AutoConfig

from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

HEADS = (GatedRNNModel, GatedRNNForSequenceClassification, GatedRNNForTokenClassification)
every_head = pytest.mark.parametrize("head", HEADS, ids=lambda head: head.__name__)
WRONG = {
    "cell": ("minigru", "there is no cell 'minigru'; did you mean 'mingru'"),
    "cell_options": ({"keep": True}, "cell_options: mingru has no option 'keep'; it has: activation"),
    "longest_time_scale": (1, "longest_time_scale should be a number of steps, 2 at least; got 1"),
    "pooling": ("first", "pooling must be one of last, mean, max, got 'first'"),
    "weight_dropout": (0.5, "weight_dropout drops recurrent weights, and mingru has none"),
}
RATES = (
    "token_dropout", "embedding_dropout", "dropout", "head_dropout", "zoneout", "input_dropout", "state_dropout",
    "weight_dropout",
)  # fmt: skip


@every_head
def test_a_model_wants_tokens_or_numbers_and_not_both(head):
    model = model_of(head, dtype=torch.float32)
    both = inputs_of("tokens", 2, 3) | inputs_of("numbers", 2, 3)
    for given in ({}, both):
        with pytest.raises(ValueError, match=r"input_ids .*or input_values .*not both"):
            model(**given)


@every_head
def test_a_model_names_the_input_that_it_reads_instead(head):
    with pytest.raises(ValueError, match="reads input_ids"):
        model_of(head, dtype=torch.float32)(input_values=torch.randn(2, 3, FEATURES))
    with pytest.raises(ValueError, match="reads input_values"):
        model_of(head, "numbers", torch.float32)(tokens(2, 3))


@every_head
def test_a_mask_of_another_shape_is_refused(head):
    with pytest.raises(ValueError, match=r"mask .*\(2, 3\).*\(2, 4\)"):
        model_of(head)(tokens(2, 3), attention_mask=torch.ones(2, 4))


@every_head
def test_a_configuration_without_an_input_builds_no_model(head):
    with pytest.raises(ValueError, match=r"vocab_size .* or input_size"):
        head(GatedRNNConfig())


@pytest.mark.parametrize("name", WRONG)
def test_a_configuration_refuses_what_no_model_has(name):
    value, message = WRONG[name]
    with pytest.raises(StrictDataclassError, match=message):
        config_of(**{name: value})


@pytest.mark.parametrize("name", WRONG)
def test_a_value_changed_on_the_way_from_a_file_is_refused_before_a_model_runs(name, tmp_path):
    value, message = WRONG[name]
    config_of().save_pretrained(tmp_path)
    with pytest.raises((StrictDataclassError, ValueError), match=message):
        GatedRNNForSequenceClassification(AutoConfig.from_pretrained(tmp_path, **{name: value}))


@pytest.mark.parametrize("rate", [1.0, -0.1, 1.5])
@pytest.mark.parametrize("name", RATES)
def test_a_rate_outside_of_0_to_1_is_refused_by_name(name, rate):
    with pytest.raises(StrictDataclassError, match=rf"{name} must lie in \[0, 1\), got {rate}"):
        config_of(cell="lstm", **{name: rate})


@every_cell
def test_every_cell_names_the_options_it_has_and_refuses_another(cell):
    known = ", ".join(OPTIONS.get(cell, ())) or "none"
    with pytest.raises(StrictDataclassError, match=f"cell_options: {cell} has no option 'turbo'; it has: {known}$"):
        config_of(cell=cell, cell_options={"turbo": True})
    for none in (None, {}):
        GatedRNNModel(config_of(cell=cell, cell_options=none))


@every_cell
def test_weights_are_dropped_where_there_are_recurrent_ones(cell):
    if cell in MULTIPLIES_STATE:
        GatedRNNModel(config_of(cell=cell, weight_dropout=0.5))
    else:
        with pytest.raises(StrictDataclassError, match=f"weight_dropout .*{cell} has none; leave it at 0"):
            config_of(cell=cell, weight_dropout=0.5)


def test_a_block_that_mixes_both_directions_has_no_last_step():
    with pytest.raises(StrictDataclassError, match=r"pooling 'last' .* take 'mean' or 'max'"):
        config_of(bidirectional=True, block=True, pooling="last")
    for pooling in ("mean", "max"):
        config_of(bidirectional=True, block=True, pooling=pooling)
    config_of(bidirectional=True, pooling="last")
    config_of(block=True, pooling="last")


@pytest.mark.parametrize("cell", ["mingru", "minlstm"])
def test_an_unknown_activation_is_refused_with_the_known_ones(cell):
    with pytest.raises(ValueError, match="activation must be one of g, identity, got 'relu'"):
        GatedRNNModel(config_of(cell=cell, cell_options={"activation": "relu"}))


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers"])
def test_a_size_below_one_is_refused_by_name(name, block):
    with pytest.raises((StrictDataclassError, ValueError), match=f"{name.removeprefix('num_hidden_')}.* at least 1"):
        GatedRNNModel(config_of(block=block, **{name: 0}))


def test_token_dropout_without_an_unknown_token_is_refused():
    with pytest.raises(ValueError, match=r"token_dropout .*unk_token_id"):
        GatedRNNModel(config_of(token_dropout=0.5, unk_token_id=None))
