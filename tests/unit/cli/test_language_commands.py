"""Commands of a language model, and its token cache, from the command line; bad input gets one clear line."""

import json
import re
from pathlib import Path

import pytest
import yaml
from browser import needs_a_browser, visit
from commands import call, outcome, printed
from finished import copy_of
from train_helpers import small_text, text_settings

import gatedrnn
from gatedrnn.data import load_task
from gatedrnn.data.token_cache import cache_folder
from gatedrnn.errors import UsageError
from gatedrnn.training.report import write_report


def said(capsys, *arguments):
    return " ".join(printed(capsys, *arguments).split())


def test_a_run_leaves_a_report_a_picture_samples_and_a_card_without_path_or_text_of_the_data(text_run, book):
    written = "config.yaml data.json manifest.json metrics.jsonl model outcomes.npz result.json"
    assert {path.name for path in text_run.iterdir()} == {*written.split(), "report.html", "curves.svg", "samples.json"}
    card, result = (text_run / "model" / "README.md").read_text(), json.loads((text_run / "result.json").read_text())
    front = yaml.safe_load(card.split("---")[1])
    assert front["pipeline_tag"] == "text-generation" and {"mingru", "lstm"} <= set(front["tags"])
    for number in (result["test_perplexity"], result["test_bits_per_byte"], result["validation_loss"]):
        assert f"{number:.4f}" in card
    assert all(source["sha256"] in card for source in json.loads((text_run / "data.json").read_text()))
    for content in (card, (text_run / "report.html").read_text()):
        assert str(book.parent) not in content and "the 17 cat sat 0 on 2 mats" not in content


@pytest.mark.usefixtures("drawn_curves")
@pytest.mark.parametrize("kind", ["text_run", "digits_run", "forecast_run"])
def test_the_picture_of_a_run_has_its_curves_side_by_side(kind, request, tmp_path):
    """A perplexity, an accuracy and a scaled error are among them."""
    run = copy_of(request.getfixturevalue(kind), tmp_path)
    (run / "curves.svg").unlink()
    write_report(run)
    picture = (run / "curves.svg").read_text()
    assert "<svg" in picture and [f'id="axes_{place}"' in picture for place in (1, 2, 3, 4)] == [True] * 3 + [False]


@pytest.mark.slow
@needs_a_browser
def test_the_report_of_a_run_draws_its_curves(text_run):
    seen = visit(text_run / "report.html")
    assert seen.said == [] and len(seen.asked) == 1 and not seen.wide and not seen.cut_off
    assert seen.titles[:4] == ["Scores", "Loss", "Perplexity", "Learning rate"] and "What it writes" in seen.titles
    assert seen.figures == [2, 2, 1]


def test_evaluate_says_what_a_perplexity_counts_and_shows_no_two_vocabularies_in_a_column(text_run, capsys, words_run):
    result = json.loads((text_run / "result.json").read_text())
    found = said(capsys, "evaluate", text_run, "--threads", 1)
    numbers = f"{result['test_perplexity']:.2f}", f"{result['test_bits_per_byte']:.4f}", f"{result['test_tokens']:,}"
    assert all(part in found for part in (*numbers, "bytes", "<eos>"))
    Path("other.txt").write_text("the 5 cat sat ✓ 8 on 0 mats\n" * 3)
    found = said(capsys, "evaluate", text_run, "--file", "other.txt", "--threads", 1)
    assert "other.txt" in found and re.search(r"\b84\b", found)
    found = said(capsys, "evaluate", text_run, words_run, "--threads", 1)
    assert "vocabularies differ" in found and "perplexity │" not in found and "bits" in found
    same = said(capsys, "evaluate", text_run, text_run, "--split", "validation", "--threads", 1)
    assert "vocabularies differ" not in same


def test_generate_writes_a_text_for_each_temperature_and_names_what_the_vocabulary_lacks(text_run, words_run, capsys):
    flags = ["--prompt", "the 3", "--length", 20, "--temperature"]
    found = said(capsys, "generate", text_run, *flags, 0, 0.8, 1.2)
    assert found.count("the 3") >= 3 and "temperature 0: the likeliest token each time" in found
    assert said(capsys, "generate", text_run, *flags, 0.8) in found
    call("generate", words_run, "--prompt", "the dragon sat", "--length", 5)
    assert "not in the vocabulary, read as <unk>: 'dragon'" in capsys.readouterr().err
    flags = ["--prompt", "the", "--length", 120, "--temperature", 50]
    assert "<unk>" in said(capsys, "generate", words_run, *flags)
    assert "<unk>" not in said(capsys, "generate", words_run, *flags, "--no-unk")


def test_python_writes_what_the_shell_writes_and_a_prompt_its_text_whatever_is_beside_it(text_run, capsys, monkeypatch):
    run = gatedrnn.load(text_run)
    prompts, options = ["the 3", "a cat on the mat", "t"], {"stop": ["2", "99"], "seed": 7, "temperature": 1.1}
    texts = run.generate(prompts, 30, samples=2, **options)
    monkeypatch.setattr("gatedrnn.training.finished.open_finished", None)  # the model stays open
    assert texts == [[run.generate(p, 30, **options | {"seed": seed}) for seed in (7, 8)] for p in prompts]
    assert run.generate(tuple(prompts), 30, **options) == [text for text, _ in texts] and run.generate([]) == []
    monkeypatch.undo()
    flags = ["--length", 30, "--stop", 2, "99", "--seed", 7, "--temperature", 1.1, "--samples", 2]
    found = printed(capsys, "generate", text_run, "--prompt", prompts[0], *flags)
    assert found == "".join(f"[temperature 1.1, seed {seed}]\n{text}\n\n" for seed, text in enumerate(texts[0], 7))


REFUSED = [
    (TypeError, "prompt: must be a str or a list of str, got int", {"prompt": 5}),
    (TypeError, "prompt: must be a str or a list of str, got NoneType in the list", {"prompt": ["a", None]}),
    (TypeError, "prompt: must be a str or a list of str, got dict", {"prompt": {"a": 1}}),
    (TypeError, "prompt: must be a str or a list of str, got bytes", {"prompt": b"a"}),
    (TypeError, "stop: must be a str or a list of str, got int", {"stop": 3}),
    (UsageError, "stop: an empty text would end every text", {"stop": ["a", ""]}),
    (TypeError, "length: must be a whole number", {"length": "5"}),
    (UsageError, "length: must be at least 1, got 0", {"length": 0}),
    (TypeError, "samples: must be a whole number, got 1.5", {"samples": 1.5}),
    (UsageError, "samples: must be at least 1, got 0", {"samples": 0}),
    (TypeError, "temperature: must be a number, got 'hot'", {"temperature": "hot"}),
    (UsageError, "temperature: must be 0", {"temperature": float("nan")}),
    (UsageError, "top_p must lie in", {"top_p": 0}),
    (TypeError, "top_k: must be a whole number", {"top_k": 2.5}),
    (UsageError, "on_text: follows one text", {"prompt": ["a"], "on_text": print}),
]  # fmt: skip


def test_arguments_of_another_type_and_out_of_range_are_named(text_run):
    run = gatedrnn.load(text_run)
    for kind, message, options in REFUSED:
        with pytest.raises(kind, match=re.escape(message)):
            run.generate(**{"prompt": "a", **options})


@pytest.mark.slow
def test_export_is_held_against_onnxruntime(text_run, capsys):
    found = said(capsys, "export", text_run, "--to", "onnx", "--output", "onnx")
    assert found.count("allowed 1e-05") == 2 and Path("onnx/step.onnx").exists()


BAD = {
    "generate {run} --temperature -1": "--temperature: must be 0 (the likeliest token) or above",
    "generate {run} --length 0": "must be at least 1",
    "generate {run} --samples 0": "must be at least 1",
    "generate {run} --stop=": "--stop: an empty text",
    "generate {run} --top-p 0": "--top-p must lie in (0, 1]",
    "generate empty": "holds no model",
    "evaluate": "name at least one run",
    "evaluate {run} --split nowhere": "has no split 'nowhere'; there are validation, test, train",
    "evaluate {run} --file empty/none.txt": "no such file",
    "export {run} --to pickle": 'Choose from: "onnx"',
    "train --train-file nothing.txt --output new": "the file is empty",
    "train --train-file one.txt --tokenizer words --output new": "at least 2",
    "train --train-file same.txt --test-fraction 0 --output new": "vocabulary",
    "train --train-file {text} --batch-size 100000 --output new": "lanes are more than the training text has tokens",
    "train --train-file {text} --cell mingru,lstm --layers 3 --output new": "--cell names 2 layers, --layers is 3",
    "train --train-file {text} --cell mingru,lstn --output new": "did you mean 'lstm'",
    "train --train-file {text} --label-smoothing 0.1 --output new": "--label-smoothing",
    "train --train-file {text} --bidirectional --output new": "forwards alone",
    "train --train-file {text} --validation-fraction 0.6 --test-fraction 0.5 --output new": "nothing to train on",
    "train --validation-file {text} --output new": "needs --train-file",
    "train --hub some/set --train-file {text} --output new": "not both",
    "train --train-file {text} --output {run}": "there is a run already; continue it by --resume",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_gets_one_line_and_leaves_nothing_behind(command, text_run, book, tmp_path, capsys):
    for name, content in {"nothing": "", "one": "word", "same": "a" * 500}.items():
        Path(f"{name}.txt").write_text(content)
    Path("empty").mkdir()
    code, error = outcome(capsys, *command.format(run=text_run, text=book).split())
    assert code == 2 and BAD[command] in " ".join(error.split()) and not Path("new").exists(), error


def test_the_cache_shows_texts_size_and_state_and_clearing_leaves_none_of_any_version(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load_task(text_settings(small_text(tmp_path / "a-text.txt")).data)
    (entry,) = (path for path in cache_folder().iterdir() if path.is_dir())
    shown = printed(capsys, "cache")
    assert all(part in shown for part in ("a-text.txt", "characters", "whole"))
    assert f"{sum(path.stat().st_size for path in entry.iterdir()):,}" in shown
    (entry / "train-00000.tokens").write_bytes(b"")
    assert "train-00000.tokens has 0 bytes" in printed(capsys, "cache")
    for name in ("of-a-version-before", "making-half"):
        (entry.parent / name).mkdir()
    (entry.parent / "of-a-version-before" / "train.tokens").write_bytes(b"abc")
    assert "bytes removed" in printed(capsys, "cache", "--clear") and list(entry.parent.iterdir()) == []
    assert "texts: 0, bytes: 0" in printed(capsys, "cache")
