"""What cannot work is refused where it is asked for, in words that name the argument and the rule."""

import pytest
import torch
from covering import over
from huggingface_hub.errors import StrictDataclassError
from small_models import FEATURES, config_of, model_of, tokens
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
def test_a_model_wants_one_kind_of_input_and_a_mask_of_its_shape(head):
    ids, values = tokens(2, 3), torch.randn(2, 3, FEATURES)
    model, of_numbers = model_of(head, dtype=torch.float32), model_of(head, "numbers", torch.float32)
    for given in ({}, {"input_ids": ids, "input_values": values}):
        with pytest.raises(ValueError, match=r"input_ids .*or input_values .*not both"):
            model(**given)
    with pytest.raises(ValueError, match="reads input_ids"):
        model(input_values=values)
    with pytest.raises(ValueError, match="reads input_values"):
        of_numbers(ids)
    with pytest.raises(ValueError, match=r"mask .*\(2, 3\).*\(2, 4\)"):
        model(ids, attention_mask=torch.ones(2, 4))


@every_head
def test_a_configuration_without_an_input_builds_no_model(head):
    with pytest.raises(ValueError, match=r"vocab_size .* or input_size"):
        head(GatedRNNConfig())


@pytest.mark.parametrize("name", WRONG)
def test_a_configuration_refuses_what_no_model_has_and_also_on_the_way_from_a_file(name, tmp_path):
    value, message = WRONG[name]
    with pytest.raises(StrictDataclassError, match=message):
        config_of(**{name: value})
    config_of().save_pretrained(tmp_path)
    with pytest.raises((StrictDataclassError, ValueError), match=message):
        GatedRNNForSequenceClassification(AutoConfig.from_pretrained(tmp_path, **{name: value}))


@pytest.mark.parametrize("name", RATES)
def test_a_rate_outside_of_0_to_1_is_refused_by_name(name):
    for rate in (1.0, -0.1, 1.5):
        with pytest.raises(StrictDataclassError, match=rf"{name} must lie in \[0, 1\), got {rate}"):
            config_of(cell="lstm", **{name: rate})


@pytest.mark.parametrize("cell, known", [("lstm", "none"), ("janet", "beta"), ("mingru", "activation, log_space")])
def test_a_cell_names_the_options_it_has_and_refuses_another(cell, known):
    with pytest.raises(StrictDataclassError, match=f"cell_options: {cell} has no option 'turbo'; it has: {known}$"):
        config_of(cell=cell, cell_options={"turbo": True})
    for none in (None, {}):
        GatedRNNModel(config_of(cell=cell, cell_options=none))


def test_a_block_that_mixes_both_directions_has_no_last_step():
    with pytest.raises(StrictDataclassError, match=r"pooling 'last' .* take 'mean' or 'max'"):
        config_of(bidirectional=True, block=True, pooling="last")
    for pooling in ("mean", "max"):
        config_of(bidirectional=True, block=True, pooling=pooling)
    config_of(bidirectional=True, pooling="last")
    config_of(block=True, pooling="last")


def test_a_model_of_both_directions_has_no_state_to_go_on_from():
    with pytest.raises(ValueError, match="a bidirectional model has no state"):
        model_of(GatedRNNModel, build="both-directions")(tokens(2, 3), use_cache=True)


def test_an_unknown_activation_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="activation must be one of g, identity, got 'relu'"):
        GatedRNNModel(config_of(cell_options={"activation": "relu"}))


@over(name=("hidden_size", "num_hidden_layers"), block=(False, True))
def test_a_size_below_one_is_refused_by_name(name, block):
    with pytest.raises((StrictDataclassError, ValueError), match=f"{name.removeprefix('num_hidden_')}.* at least 1"):
        GatedRNNModel(config_of(block=block, **{name: 0}))


def test_token_dropout_without_an_unknown_token_is_refused():
    with pytest.raises(ValueError, match=r"token_dropout .*unk_token_id"):
        GatedRNNModel(config_of(token_dropout=0.5, unk_token_id=None))
