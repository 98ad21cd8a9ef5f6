"""A configuration refuses what cannot work, by name; its rates act where they belong; a model on disk is the model."""

from itertools import product

import pytest
import small_models as small
import torch
from covering import over
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

from gatedrnn import RecurrentLayer
from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification, GatedRNNModel
from gatedrnn.names import REGULARISERS

RATES = (
    "token_dropout", "embedding_dropout", "dropout", "head_dropout", "zoneout", "input_dropout", "state_dropout",
    "weight_dropout",
)  # fmt: skip
KNOWN = {"lstm": "none", "janet": "beta", "mingru": "activation, log_space"}
WRONG = [
    ({"cell": "minigru"}, "there is no cell 'minigru'; did you mean 'mingru'"),
    *(({"cell": cell, "cell_options": {"turbo": True}}, f"cell_options: {cell} has no option 'turbo'; it has: {known}$")
      for cell, known in KNOWN.items()),
    ({"longest_time_scale": 1}, "longest_time_scale should be a number of steps, 2 at least; got 1"),
    ({"pooling": "first"}, "pooling must be one of last, mean, max, last-mean-max, got 'first'"),
    ({"bidirectional": True, "block": True, "pooling": "last"}, r"pooling 'last' .* take 'mean' or 'max'"),
    ({"bidirectional": True, "block": True, "pooling": "last-mean-max"}, r"pooling 'last-mean-max' .* take 'mean'"),
    ({"members": 0}, "members must be at least 1, got 0"),
    *(({"vocab_size": None, "input_size": 3, name: value}, "are of tokens: they need vocab_size")
      for name, value in (("character_grams", 5), ("linear_path", {"pairs": 1, "grams": 1, "grams_per_token": 1}))),
    ({"weight_dropout": 0.5}, "weight_dropout drops recurrent weights, and mingru has none"),
    *(({"cell": "transformer", name: value}, f"{name} is of recurrent layers, and transformer has none; leave it out")
      for name, value in (("zoneout", 0.5), ("layer_norm", True), ("bias_init", "zeros"), ("longest_time_scale", 9))),
    ({"cell": "gru", "longest_time_scale": 9}, "bias_init .time-scales., and that of gru is torch; leave it out"),
    ({"cell": "indrnn", "bias_init": "time-scales", "longest_time_scale": 9}, "spreads .* decays, and indrnn has none"),
    ({"cell": "slstm", "zoneout": 0.5}, "zoneout mixes each state by itself, and those of slstm belong together"),
    *(({"cell": "lstm", name: rate}, rf"{name} must lie in \[0, 1\), got {rate}")
      for name, rate in product(RATES, (1.0, -0.1, 1.5))),
]  # fmt: skip
UNBUILT = [
    ({"token_dropout": 0.5, "unk_token_id": None}, r"token_dropout .*unk_token_id"),
    *(({name: 0, "block": block}, f"{name.removeprefix('num_hidden_')}.* at least 1")
      for name, block in product(("hidden_size", "num_hidden_layers"), (False, True))),
]  # fmt: skip


@over(head=(GatedRNNModel, *small.HEADS))
def test_a_model_wants_one_kind_of_input_and_a_mask_of_its_shape(head):
    ids, values = small.tokens(2, 3), torch.randn(2, 3, small.FEATURES)
    model, of_numbers = small.model_of(head, dtype=torch.float32), small.model_of(head, "numbers", torch.float32)
    for called, given, message in (
        (model, {}, r"input_ids .*or input_values .*one of them"),
        (model, {"input_ids": ids, "input_values": values}, r"input_ids .*or input_values .*one of them"),
        (model, {"input_values": values}, "reads input_ids"),
        (of_numbers, {"input_ids": ids}, "reads input_values"),
        (model, {"input_ids": ids, "attention_mask": torch.ones(2, 4)}, r"mask .*\(2, 3\).*\(2, 4\)"),
    ):
        with pytest.raises(ValueError, match=message):
            called(**given)
    with pytest.raises(ValueError, match=r"vocab_size .* or input_size"):
        head(GatedRNNConfig())


def test_a_slip_of_a_fields_name_is_refused_and_what_others_keep_in_a_configuration_is_kept():
    with pytest.raises(StrictDataclassError, match="there is no field 'num_layers'; did you mean 'num_hidden_layers'"):
        small.config_of(num_layers=2)
    assert small.config_of(torch_dtype="float32", num_labels=3, note="of ours").note == "of ours"


def test_a_configuration_refuses_what_no_model_has_and_also_on_the_way_from_a_file(tmp_path):
    small.config_of().save_pretrained(tmp_path)
    for fields, message in WRONG:
        with pytest.raises(StrictDataclassError, match=message):
            small.config_of(**fields)
        with pytest.raises((StrictDataclassError, ValueError), match=message):
            GatedRNNForSequenceClassification(AutoConfig.from_pretrained(tmp_path, **fields))
    for fields, message in UNBUILT:
        with pytest.raises((StrictDataclassError, ValueError), match=message):
            GatedRNNModel(small.config_of(**fields))
    with pytest.raises(ValueError, match="a bidirectional model has no state"):
        small.model_of(GatedRNNModel, build="both-directions")(small.tokens(2, 3), use_cache=True)


AUTO = dict(zip((AutoModelForSequenceClassification, AutoModelForTokenClassification), small.HEADS, strict=True))
WEIGHTS = "model.safetensors"


def same_bits(actual, expected):
    """Names of `expected`'s tensors that differ in `actual`."""
    return [name for name, value in expected.items() if not torch.equal(actual[name], value)]


@over(auto=(AutoModel, *AUTO), cell=small.OPTION_CELL, build=small.BUILD, kind=small.KIND)
@torch.no_grad()
def test_a_saved_model_comes_back_bit_for_bit(auto, cell, build, kind, tmp_path):
    fields = {"cell_options": small.OPTIONS.get(cell), "state_dropout": 0.1, "layer_norm": True}
    model = small.model_of(AUTO.get(auto, GatedRNNModel), kind, torch.float32, build=build, cell=cell, **fields)
    model.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", WEIGHTS}
    assert load_file(tmp_path / WEIGHTS).keys() == model.state_dict().keys()
    again = auto.from_pretrained(tmp_path)
    assert type(again) is type(model) and not again.training
    batch = small.inputs_of(kind, 3, 6, dtype=torch.float32)
    batch["attention_mask"] = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [0] + [1] * 5])
    assert torch.equal(again(**batch)[0], model(**batch)[0])


def test_a_configuration_comes_back_with_every_field(tmp_path):
    fields = {
        "cell": "mgu", "cell_options": {"keep": True}, "embedding_size": 9, "hidden_size": 8, "num_hidden_layers": 3,
        "bidirectional": True, "zoneout": 0.15, "input_dropout": 0.25, "state_dropout": 0.35, "weight_dropout": 0.45,
        "layer_norm": True, "block": True, "feed_forward_factor": 5, "token_dropout": 0.1, "embedding_dropout": 0.2,
        "dropout": 0.3, "head_dropout": 0.4, "pooling": "max", "pad_token_id": 4, "unk_token_id": 3, "members": 2,
        "locked_dropout": True, "character_grams": 5, "grams_per_token": 2,
        "linear_path": {"pairs": 1, "triples": 4, "grams": 2, "grams_per_token": 3},
    }  # fmt: skip
    labels = {"id2label": {0: "아니", 1: "네"}, "label2id": {"아니": 0, "네": 1}}
    small.config_of(num_labels=2, **fields, **labels).save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert type(again) is GatedRNNConfig
    assert {name: getattr(again, name) for name in fields | labels} == fields | labels
    layers = [m for m in GatedRNNModel(again).modules() if isinstance(m, RecurrentLayer)]
    names = ("bidirectional", "zoneout", "input_dropout", "state_dropout", "weight_dropout", "layer_norm")
    for layer in layers:
        assert layer.cell.keep and {name: getattr(layer, name) for name in names}.items() <= fields.items()
    assert len(layers) == 3


@small.every_build
def test_a_head_is_drawn_for_a_model_without_one_and_left_out_of_a_model_with_one(build, tmp_path):
    model = small.model_of(GatedRNNModel, dtype=torch.float32, build=build)
    model.save_pretrained(tmp_path)
    for auto in AUTO:
        classifier = auto.from_pretrained(tmp_path, num_labels=small.LABELS)
        assert not same_bits(classifier.model.state_dict(), model.state_dict())
        weight, bias = classifier.classifier.weight, classifier.classifier.bias
        assert 0.0 < weight.std() and max(weight.abs().max(), bias.abs().max()) < 1.0, "of the size of a new layer"
    classifier.save_pretrained(tmp_path / "classifier")
    assert not same_bits(AutoModel.from_pretrained(tmp_path / "classifier").state_dict(), model.state_dict())


@over(lambda cell, build: cell == "lstm" or build == "plain", cell=small.KEPT_CELL, build=("plain", "block"))
def test_a_tensor_missing_from_the_file_is_drawn_and_no_other_one(cell, build, tmp_path):
    fields = {"build": build, "cell": cell, "num_hidden_layers": 1, "layer_norm": True}
    small.model_of(GatedRNNModel, dtype=torch.float32, **fields).save_pretrained(tmp_path)
    stored, redrawn = load_file(tmp_path / WEIGHTS), {}
    for missing in stored:
        kept = {name: value for name, value in stored.items() if name != missing}
        save_file(kept, tmp_path / WEIGHTS, metadata={"format": "pt"})
        again = AutoModel.from_pretrained(tmp_path).state_dict()
        assert again[missing].abs().max() < 10.0, f"{missing} is drawn at the size that a new layer has"
        redrawn |= {name: missing for name in same_bits(again, kept)}
    assert not redrawn, "tensors of the file that were drawn anew, and which one was missing"


def test_each_layer_of_a_mixed_stack_has_options_of_its_own_or_as_an_earlier_version_those_that_its_cell_has(tmp_path):
    mixed = {"cell": "mingru:activation=identity,mingru,gru:reset_after=false", "num_hidden_layers": 3}
    model = small.model_of(GatedRNNModel, dtype=torch.float32, **mixed)
    model.save_pretrained(tmp_path)
    for found in (model, GatedRNNModel.from_pretrained(tmp_path)):
        cells = [part.layer.cell for part in found.parts]
        assert [cells[0].activation, cells[1].activation, cells[2].reset_after] == ["identity", "g", False]
    config = small.config_of(cell="mingru,gru", cell_options={"activation": "identity", "reset_after": False})
    assert [str(cell) for cell in config.cells] == ["mingru:activation=identity", "gru:reset_after=false"]


OF_LAYERS = {
    "lstm": ("zoneout", "input_dropout", "state_dropout", "weight_dropout"),
    "mingru": ("zoneout", "input_dropout", "state_dropout"),  # no recurrent weights
    "slstm": ("input_dropout", "state_dropout", "weight_dropout"),  # states that belong together
}


@small.every_build
def test_rates_and_the_longest_time_scale_of_a_configuration_reach_every_layer_that_has_them(build):
    rates = {name: 0.1 * (i + 1) for i, name in enumerate(OF_LAYERS["lstm"])}
    config = small.config_of(build=build, cell="lstm,lstm,mingru,slstm", num_hidden_layers=4, dropout=0.6, **rates)
    layers = [m for m in GatedRNNForSequenceClassification(config).modules() if isinstance(m, RecurrentLayer)]
    assert [layer.cell.name for layer in layers] == config.cell.split(",")["block" not in build :]
    for layer in layers:
        known = {name: rate if name in OF_LAYERS[layer.cell.name] else 0.0 for name, rate in rates.items()}
        assert {name: getattr(layer, name) for name in rates} == known and layer.batch_first
        assert layer.dropout == (0.6 if layer.num_layers == 2 else 0.0)
        assert layer.bidirectional is ("both-directions" in build)
    config = small.config_of(cell="mingru,lstm", hidden_size=500, longest_time_scale=1000)
    scan, loop = (part.layer for part in GatedRNNForSequenceClassification(config).model.parts)
    assert 1 / 1000 - 1e-6 <= torch.sigmoid(scan.bias_ih_l0[500:]).min() < 1 / 800  # of the gate that replaces
    assert loop.bias_init == "torch", "whose biases are spread over no time scales"


def test_token_dropout_replaces_whole_tokens_by_the_unknown_one_in_training_alone_and_padding_embeds_to_zero():
    embeddings, inputs = small.model_of(GatedRNNModel, token_dropout=0.3).train().embeddings, small.tokens(100, 100)
    table, found = embeddings.map.weight, embeddings(inputs)
    replaced = (found == table[small.UNK]).all(2)
    assert torch.equal(found, table[torch.where(replaced, small.UNK, inputs)])
    # 10,000 draws: six standard deviations are 0.0275.
    assert abs(replaced.double().mean() - 0.3) < 0.0275
    assert replaced.any(1).all(), "drawn for every row by itself"
    assert not torch.equal(found, embeddings(inputs)), "drawn anew at every call"
    assert torch.equal(embeddings.eval()(inputs), table[inputs])
    model, batch = small.model_of(GatedRNNModel, "numbers", token_dropout=0.9), small.inputs_of("numbers", 4, 6)
    states = [one(**batch).last_hidden_state for one in (model.eval(), model.train())]
    assert torch.equal(*states), "numbers are no tokens"
    model = GatedRNNModel(small.config_of())
    table, pad = model.embeddings.map.weight, model.config.pad_token_id
    model(torch.arange(small.VOCABULARY)[None]).last_hidden_state.sum().backward()
    assert not table[pad].any() and not table.grad[pad].any() and table.grad[1:].any(1).all(), "padding never learns"


@over(lambda name, build: name not in REGULARISERS or build == "block", name=RATES, build=small.BUILD)
def test_every_dropout_acts_in_training_alone_and_zoneout_always(name, build):
    # gru, because a scan cell has no recurrent weight to drop.
    model = small.model_of(GatedRNNForSequenceClassification, build=build, cell="gru", **{name: 0.5})
    plain = small.model_of(GatedRNNForSequenceClassification, build=build, cell="gru")
    plain.load_state_dict(model.state_dict())
    batch = small.inputs_of("tokens", 20, 6)
    before = torch.get_rng_state()
    assert torch.equal(model(**batch).logits, plain(**batch).logits) == (name != "zoneout")
    assert torch.equal(torch.get_rng_state(), before), "nothing is drawn"
    assert torch.equal(plain.train()(**batch).logits, plain.eval()(**batch).logits), "none is none in training too"
    model.train()
    assert not torch.equal(model(**batch).logits, model(**batch).logits)
    if name == "head_dropout":
        assert torch.equal(model.model(**batch).last_hidden_state, model.model(**batch).last_hidden_state)


@pytest.mark.parametrize("silent", ["projection.weight", "feed_forward.2.weight"])
def test_a_block_drops_both_of_its_branches(silent):
    model = small.model_of(GatedRNNModel, block=True, num_hidden_layers=1, dropout=0.5).train()
    for weight in (model.parts[0].get_parameter(silent), model.parts[0].feed_forward[2].bias):
        torch.nn.init.zeros_(weight)
    batch = small.inputs_of("tokens", 5, 6)
    assert not torch.equal(model(**batch).last_hidden_state, model(**batch).last_hidden_state)
