"""Folders of models that anybody may have made: weights, configuration and tokenizer go together, or one line says what
does not."""

import json
import re

import pytest

from gatedrnn.data.text import encode_texts
from gatedrnn.data.tokenizers import encode_stream, learn_tokenizer, unknown_in
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNConfig, GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.opening import open_both, open_model

NUMBERS = {"pad_token_id": None, "unk_token_id": None}
MODELS = {
    "texts": (GatedRNNForSequenceClassification, GatedRNNConfig(
        vocab_size=20, hidden_size=8, embedding_size=8, members=2, character_grams=7, grams_per_token=2,
        linear_path={"pairs": 5, "grams": 4, "grams_per_token": 3},
    )),
    "series": (GatedRNNForSequenceClassification, GatedRNNConfig(
        input_size=3, hidden_size=8, cell="lstm,gru", num_hidden_layers=2, random_convolutions=2000, longest_steps=30,
        pooling="mean", convolution_size=8, flagged_channels=[1], **NUMBERS,
    )),
    "forecasts": (GatedRNNForForecasting, GatedRNNForecastConfig(
        horizon=3, context=24, seasons=[12], known_size=2, hidden_size=8, **NUMBERS,
    )),
    "backbone": (GatedRNNForSequenceClassification, GatedRNNConfig(vocab_size=20, cell="transformer", hidden_size=16)),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each of `MODELS`."""
    place = tmp_path_factory.mktemp("models")
    for name, (kind, config) in MODELS.items():
        kind(config).save_pretrained(place / name)
    return place


@pytest.fixture
def changed(folders, tmp_path):
    """A function: the folder of one of `MODELS` with other values in its configuration."""

    def change(name, values):
        for file in (folders / name).iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | values))
        return tmp_path

    return change


def test_a_folder_that_goes_together_is_opened(folders):
    for name, (kind, config) in MODELS.items():
        assert open_model(kind, folders / name).config.to_dict()["hidden_size"] == config.hidden_size


@pytest.mark.parametrize("values", [
    {"num_hidden_layers": 10**8}, {"members": 10**8}, {"members": 4, "num_hidden_layers": 10}, {"hidden_size": 10**9},
    {"hidden_size": 10**12}, {"embedding_size": 10**9}, {"vocab_size": 10**9}, {"num_labels": 10**8},
    {"character_grams": 10**9}, {"grams_per_token": 10**9},
    {"linear_path": {"pairs": 10**10, "grams": 4, "grams_per_token": 3}}, {"hidden_size": 9}, {"members": 1},
    {"num_hidden_layers": 2}, {"bidirectional": True}, {"cell": "gru"},
], ids=str)  # fmt: skip
def test_a_configuration_that_asks_for_other_weights_is_refused_before_a_module_is_made(changed, values):
    place = changed("texts", values)
    with pytest.raises(DataError, match=re.escape(f"{place}: its weights are not those of its config.json: ")):
        open_model(GatedRNNForSequenceClassification, place)


@pytest.mark.parametrize(("name", "values"), [
    ("series", {"random_convolutions": 10**10}), ("series", {"convolution_size": 10**9}),
    ("series", {"input_size": 10**9}), ("forecasts", {"horizon": 10**9}), ("forecasts", {"future_size": 10**10}),
    ("forecasts", {"linear_size": 10**10}), ("forecasts", {"known_size": 10**9}),
], ids=str)  # fmt: skip
def test_that_holds_for_models_of_numbers(changed, name, values):
    place = changed(name, values)
    with pytest.raises(DataError, match=re.escape(f"{place}: its weights are not those of its config.json: ")):
        open_model(MODELS[name][0], place)


@pytest.mark.parametrize("field", ["num_hidden_layers", "members"])
def test_from_pretrained_builds_no_hundred_million_modules(changed, field):
    place = changed("texts", {field: 10**8})
    with pytest.raises(
        DataError, match=re.escape(f"{place}: its weights are not those of its config.json: {field} is")
    ):
        GatedRNNForSequenceClassification.from_pretrained(place)


@pytest.fixture
def with_tokenizer(changed):
    """A function: a folder of a model of texts whose tokenizer has been changed."""

    def change(edit, **values):
        place = changed("texts", values)
        tokenizer = learn_tokenizer("words", ["a good film", "a bad film"], 1, 0)
        tokenizer.save_pretrained(place)
        file = place / "tokenizer.json"
        held = json.loads(file.read_text())
        edit(held)
        file.write_text(json.dumps(held))
        return place

    return change


def shifted(held):
    held["model"]["vocab"] = {word: number + 10**6 for word, number in held["model"]["vocab"].items()}


def begun(held):
    special = {"id": "[B]", "ids": [777], "tokens": ["[B]"]}
    parts = [{"SpecialToken": {"id": "[B]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    held["post_processor"] = {
        "type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": {"[B]": special},
    }  # fmt: skip


@pytest.mark.parametrize(("edit", "values", "said"), [
    (shifted, {}, "its tokenizer has ids to 1,000,00"), (begun, {}, "its tokenizer has ids to 777, its model 20"),
    (dict.copy, {"unk_token_id": 20}, "unk_token_id of its config.json is 20, and its model has 20"),
])  # fmt: skip
def test_a_tokenizer_whose_numbers_have_no_row_in_the_embedding_is_refused(with_tokenizer, edit, values, said):
    place = with_tokenizer(edit, **values)
    with pytest.raises(DataError, match=re.escape(f"{place}: {said}")):
        open_both(GatedRNNForSequenceClassification, place)


def backtracking(held):
    pattern = {"Regex": "(x+x+)+y"}
    held["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def test_a_tokenizer_that_panics_is_refused_with_the_row(with_tokenizer):
    _, tokenizer = open_both(GatedRNNForSequenceClassification, with_tokenizer(backtracking))
    tokenizer.init_kwargs["stream_kind"] = "words"
    texts = ["a good film", "x" * 60]
    for read in (
        lambda: encode_texts(tokenizer, texts, 10, "x.csv", []), lambda: unknown_in(tokenizer, texts[1]),
        lambda: list(encode_stream(tokenizer, texts)),
    ):  # fmt: skip
        with pytest.raises(DataError, match=r"(x\.csv: row 2|text: row \d): the tokenizer cannot read it: .*retry"):
            read()
