"""A model on disk is the model: the same bits back, through transformers' own classes, and nothing drawn anew."""

import torch
from covering import over
from safetensors.torch import load_file, save_file
from small_models import (
    BUILD,
    KEPT_CELL,
    KIND,
    LABELS,
    OPTION_CELL,
    OPTIONS,
    config_of,
    every_build,
    inputs_of,
    model_of,
)
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

from gatedrnn import RecurrentLayer
from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

HEADS = {
    AutoModel: GatedRNNModel,
    AutoModelForSequenceClassification: GatedRNNForSequenceClassification,
    AutoModelForTokenClassification: GatedRNNForTokenClassification,
}
WEIGHTS = "model.safetensors"


def same_bits(actual, expected):
    """Names of `expected`'s tensors that differ in `actual`."""
    return [name for name, value in expected.items() if not torch.equal(actual[name], value)]


@over(auto=tuple(HEADS), cell=OPTION_CELL, build=BUILD, kind=KIND)
@torch.no_grad()
def test_a_saved_model_comes_back_bit_for_bit(auto, cell, build, kind, tmp_path):
    fields = {"cell_options": OPTIONS.get(cell), "zoneout": 0.1, "layer_norm": True}
    model = model_of(HEADS[auto], kind, torch.float32, build=build, cell=cell, **fields)
    model.save_pretrained(tmp_path)
    again = auto.from_pretrained(tmp_path)
    assert type(again) is HEADS[auto]
    assert not again.training
    batch, mask = inputs_of(kind, 3, 6, dtype=torch.float32), torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [0] + [1] * 5])
    assert torch.equal(again(**batch, attention_mask=mask)[0], model(**batch, attention_mask=mask)[0])


def test_a_configuration_comes_back_with_every_field(tmp_path):
    fields = {
        "cell": "mgu", "cell_options": {"keep": True}, "embedding_size": 9, "hidden_size": 8, "num_hidden_layers": 3,
        "bidirectional": True, "zoneout": 0.15, "input_dropout": 0.25, "state_dropout": 0.35, "weight_dropout": 0.45,
        "layer_norm": True, "block": True, "feed_forward_factor": 5, "token_dropout": 0.1, "embedding_dropout": 0.2,
        "dropout": 0.3, "head_dropout": 0.4, "pooling": "max", "pad_token_id": 4, "unk_token_id": 3,
    }  # fmt: skip
    labels = {"id2label": {0: "아니", 1: "네"}, "label2id": {"아니": 0, "네": 1}}
    config_of(num_labels=2, **fields, **labels).save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert type(again) is GatedRNNConfig
    assert {name: getattr(again, name) for name in fields | labels} == fields | labels
    layers = [m for m in GatedRNNModel(again).modules() if isinstance(m, RecurrentLayer)]
    assert [layer.cell.keep for layer in layers] == [True] * 3
    assert {(layer.zoneout, layer.input_dropout) for layer in layers} == {(0.15, 0.25)}
    assert {(layer.state_dropout, layer.weight_dropout) for layer in layers} == {(0.35, 0.45)}
    assert {(layer.bidirectional, layer.layer_norm) for layer in layers} == {(True, True)}


def test_the_weights_are_safetensors_alone(tmp_path):
    model = model_of(GatedRNNForSequenceClassification, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", WEIGHTS}
    stored = load_file(tmp_path / WEIGHTS)
    assert stored.keys() == model.state_dict().keys()
    assert not same_bits(stored, model.state_dict())


@every_build
def test_a_head_is_drawn_for_a_model_without_one_and_left_out_of_a_model_with_one(build, tmp_path):
    model = model_of(GatedRNNModel, dtype=torch.float32, build=build)
    model.save_pretrained(tmp_path)
    for auto in (AutoModelForSequenceClassification, AutoModelForTokenClassification):
        classifier = auto.from_pretrained(tmp_path, num_labels=LABELS)
        assert not same_bits(classifier.model.state_dict(), model.state_dict())
        weight, bias = classifier.classifier.weight, classifier.classifier.bias
        assert 0.0 < weight.std() and max(weight.abs().max(), bias.abs().max()) < 1.0, "of the size of a new layer"
    classifier.save_pretrained(tmp_path / "classifier")
    assert not same_bits(AutoModel.from_pretrained(tmp_path / "classifier").state_dict(), model.state_dict())


@over(lambda cell, build: cell == "lstm" or build == "plain", cell=KEPT_CELL, build=("plain", "block"))
def test_a_tensor_missing_from_the_file_is_drawn_and_no_other_one(cell, build, tmp_path):
    model = model_of(GatedRNNModel, dtype=torch.float32, build=build, cell=cell, num_hidden_layers=1, layer_norm=True)
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / WEIGHTS)
    redrawn = {}
    for missing in stored:
        kept = {name: value for name, value in stored.items() if name != missing}
        save_file(kept, tmp_path / WEIGHTS, metadata={"format": "pt"})
        again = AutoModel.from_pretrained(tmp_path).state_dict()
        assert again[missing].abs().max() < 10.0, f"{missing} is drawn at the size that a new layer has"
        redrawn |= {name: missing for name in same_bits(again, kept)}
    assert not redrawn, "tensors of the file that were drawn anew, and which one was missing"


def test_each_layer_of_a_mixed_stack_has_options_of_its_own(tmp_path):
    model = model_of(
        GatedRNNModel, dtype=torch.float32, cell="mingru:activation=identity,mingru,gru:reset_after=false",
        num_hidden_layers=3,
    )  # fmt: skip
    model.save_pretrained(tmp_path)
    for found in (model, GatedRNNModel.from_pretrained(tmp_path)):
        cells = [part.layer.cell for part in found.parts]
        assert [cells[0].activation, cells[1].activation, cells[2].reset_after] == ["identity", "g", False]


def test_a_configuration_of_an_earlier_version_gives_its_options_to_the_cells_that_have_them(tmp_path):
    config = config_of(cell="mingru,gru", cell_options={"activation": "identity", "reset_after": False})
    assert [str(cell) for cell in config.cells] == ["mingru:activation=identity", "gru:reset_after=false"]
