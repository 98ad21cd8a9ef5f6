"""Folders of strangers: nothing in them is run, whatever they ask for and whatever is answered."""

import gzip
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from commands import call, outcome
from finished import copy_of
from refusals import refused
from train_helpers import digits_settings

from gatedrnn import manifest, unpacking
from gatedrnn.cli.app import build_app
from gatedrnn.data.tokenizers import learn_tokenizer
from gatedrnn.errors import CheckpointDamaged, DataError
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForSequenceClassification, backbones
from gatedrnn.models.opening import open_model, open_tokenizer
from gatedrnn.records import read_yaml
from gatedrnn.study.results import Curves
from gatedrnn.training.checkpoint import newest
from gatedrnn.training.loop import run
from gatedrnn.training.outcomes import read_outcomes
from gatedrnn.training.result import read_record
from gatedrnn.training.sample import load_language_model
from gatedrnn.trust import trusting

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


OPENS = {
    "compare": ["--config {cells}", "--suite {suite}", "--task digits --cells gru --output {study}"],
    "train": ["--config {cell}", "--resume {run}"], "forecast": ["{table} --target y --config {cell}"],
    "evaluate": ["{run}"], "diagnose": ["{run}"], "probe": [], "cache": [], "describe": [], "verify": [],
    "report": ["{study}"], "predict": ["{run} {table} --output {table}.csv"], "generate": ["{run}"],
    "view": ["{run} --html {table}.html"], "export": ["{run} --output {table}.onnx"],
}  # fmt: skip
"""The files that each command opens and strangers may have written: settings, and in the last two lines what names no
cells."""
COMMANDS = [pytest.param(name, marks=pytest.mark.slow) if name in ("export", "view") else name for name in OPENS]


@pytest.fixture
def evil(tmp_path, mark, digits_run, comparison):
    """A run, a study and settings that name a Python file, which would write the mark."""
    word, run, study = f"{tmp_path}/evil.py:Own", copy_of(digits_run, tmp_path), comparison.copy(tmp_path / "study")
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\ndef Own(*sizes, **flags): raise ValueError\n")
    for folder, name, changes in (
        (run, "config.yaml", {"cell": word}),
        (study, "comparison.yaml", {"cells": ["lstm", word]}),
    ):
        (folder / manifest.MANIFEST).unlink()
        held = yaml.safe_load((folder / name).read_text())
        held.get("contenders", held).update(changes)
        (folder / name).write_text(yaml.safe_dump(held))
    places = {name: tmp_path / f"{name}.yaml" for name in ("cell", "cells", "suite")} | {
        "table": tmp_path / "table.csv"
    }
    places["cell"].write_text(yaml.safe_dump({"cell": word}))
    places["cells"].write_text(yaml.safe_dump({"cells": ["gru", word]}))
    tasks = {name: {"task": "digits", "cells": ["gru", word]} for name in "ab"}
    places["suite"].write_text(yaml.safe_dump({"tasks": tasks}))
    places["table"].write_text("t,y\n" + "".join(f"2020-01-{day:02},{day}\n" for day in range(1, 31)))
    return {"run": run, "study": study, **places}


def test_no_command_is_forgotten_here():
    assert OPENS.keys() == {name for name in build_app() if not name.startswith("-")}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_a_file_that_what_it_opens_names(command, evil, mark, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for line in OPENS[command]:
        said = outcome(capsys, command, *line.format(**evil).split())[1]
        assert not mark.exists() and ("would be run" in said or command in [*OPENS][-5:]), (line, said)


def test_a_file_that_the_command_line_names_is_run_and_with_trust_code_any(evil, mark, capsys):
    said = outcome(capsys, "evaluate", evil["run"])[1]
    assert "evil.py:Own: this Python file would be run" in said and "--trust-code" in said
    outcome(capsys, "evaluate", evil["run"], "--trust-code")
    assert mark.exists()


def test_a_run_of_a_contender_of_a_file_is_opened_where_the_file_may_be_run(tmp_path, monkeypatch, capsys):
    word = f"{Path(__file__).parents[3] / 'examples' / 'own_contender.py'}:TCN"
    with trusting(trust_code=True):
        run(digits_settings(word, total_steps=1), tmp_path / "run")
    monkeypatch.delitem(backbones.BACKBONES, "TCN")
    monkeypatch.setattr(backbones, "_FILES", {})
    assert f"{word}: this Python file would be run" in outcome(capsys, "evaluate", tmp_path / "run")[1]
    call("evaluate", tmp_path / "run", "--trust-code")
    assert "accuracy" in capsys.readouterr().out


def test_a_checkpoint_that_would_run_something_is_damaged(tmp_path, mark):
    class Evil:
        def __reduce__(self):
            return (open, (str(mark), "w"))

    step = tmp_path / "step-00000001"
    step.mkdir()
    torch.save({"step": 1}, step / "custom_checkpoint_0.pkl")
    listed = {"custom_checkpoint_0.pkl": manifest.entry_at(step / "custom_checkpoint_0.pkl")}
    manifest.write(step, listed)
    assert newest(tmp_path) == step
    torch.save({"step": Evil()}, step / "custom_checkpoint_0.pkl")
    manifest.write(step, {"custom_checkpoint_0.pkl": manifest.entry_at(step / "custom_checkpoint_0.pkl")})
    refused(CheckpointDamaged, "would be run", newest, tmp_path)
    assert not mark.exists()


def test_what_unpacks_to_far_more_than_itself_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    (tmp_path / "aliases.yaml").write_text("a: &a [x, x]\nb: [*a, *a]\n")
    refused(yaml.YAMLError, "alias", read_yaml, tmp_path / "aliases.yaml")
    (tmp_path / "deep.yaml").write_text("[" * 5000)
    refused(yaml.YAMLError, "nested too deeply", read_yaml, tmp_path / "deep.yaml")
    np.savez_compressed(tmp_path / "outcomes.npz", **{"run/test/values": np.zeros(1 << 20)})
    refused(DataError, "takes [\\d,]+ bytes or more", read_outcomes, tmp_path / "outcomes.npz")
    (tmp_path / "curves.json.gz").write_bytes(gzip.compress(b" " * (1 << 23)))
    refused(DataError, "unpacks to more", read_record, tmp_path / "curves.json.gz", Curves)


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
    with pytest.raises(DataError, match=r"cannot be loaded: .*safetensors") as refused:
        load_language_model(folder)
    assert "\n" not in str(refused.value)
    for asked in ({"attn_implementation": "someone/some-kernels"}, {"quantization_config": {"quant_method": "aqlm"}}):
        folder = foreign(tmp_path / "model", mark, GatedRNNForCausalLM, **asked)
        try:
            load_language_model(folder)
        except DataError as refused:
            assert "\n" not in str(refused)
        assert not mark.exists()
