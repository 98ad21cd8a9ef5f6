"""Folders of strangers: nothing in them is run, whatever they ask for and whatever is answered."""

import io
import json
import shutil

import pytest
from commands import call

from gatedrnn.data.tokenizers import learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForSequenceClassification
from gatedrnn.models.opening import open_model, open_tokenizer
from gatedrnn.train.sample import load_language_model

AUTO = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification")


@pytest.fixture
def mark(tmp_path):
    """A file that code of the folder would write."""
    return tmp_path / "it-was-run"


def foreign(folder, mark, kind, **changes):
    """A model's folder with code of its own, named wherever transformers looks for a name."""
    tokenizer = learn_tokenizer("characters", ["the cat sat on a mat"], 1, 300, stream=True)
    named = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1, "unk_token_id": 0}
    kind(GatedRNNConfig(vocab_size=len(tokenizer), embedding_size=8, hidden_size=8, **named)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for place in (folder / "own.py", folder / "custom_generate" / "generate.py"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"open({str(mark)!r}, 'w').close()\nclass Own: pass\ndef generate(model, *a, **k): pass\n")
    tokenizers = {"AutoTokenizer": ["own.Own", "own.Own"]}
    for name, auto_map in (("config.json", dict.fromkeys(AUTO, "own.Own")), ("tokenizer_config.json", tokenizers)):
        held = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**held, "auto_map": auto_map, "tokenizer_class": "Own", **changes}))
    return folder


@pytest.mark.parametrize("command", [
    "generate --length 5", "evaluate --file text.txt --threads 1", "diagnose --file text.txt --output page",
    pytest.param("export --output onnx", marks=pytest.mark.slow),
])  # fmt: skip
def test_no_command_runs_the_code_of_a_folder_though_the_answer_is_yes(tmp_path, mark, monkeypatch, command):
    name, *flags = command.split()
    (tmp_path / "text.txt").write_text("the cat sat on a mat\n" * 20)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    call(name, foreign(tmp_path / "model", mark, GatedRNNForCausalLM), *flags)
    assert not mark.exists()


def test_our_own_classes_open_a_folder_pickles_are_refused_and_no_code_is_fetched(tmp_path, mark, monkeypatch):
    folder = foreign(tmp_path / "model", mark, GatedRNNForSequenceClassification)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    assert type(open_model(GatedRNNForSequenceClassification, folder)) is GatedRNNForSequenceClassification
    assert open_tokenizer(folder).decode([2]) and not mark.exists()
    folder = foreign(tmp_path / "model", mark, GatedRNNForCausalLM)
    shutil.move(folder / "model.safetensors", folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"cannot be loaded as a language model: .*safetensors") as refused:
        load_language_model(folder)
    assert "\n" not in str(refused.value)
    for asked in ({"attn_implementation": "someone/some-kernels"}, {"quantization_config": {"quant_method": "aqlm"}}):
        folder = foreign(tmp_path / "model", mark, GatedRNNForCausalLM, **asked)
        try:
            load_language_model(folder)
        except DataError as refused:
            assert "\n" not in str(refused)
        assert not mark.exists()
