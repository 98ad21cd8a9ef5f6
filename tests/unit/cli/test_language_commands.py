"""train, evaluate, generate and export of a language model from the command line; bad input gets one clear line."""

import json
import re
from pathlib import Path

import pytest
import yaml
from browser import needs_a_browser, visit
from commands import call, outcome, printed


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    return " ".join(printed(capsys, *arguments).split())


def test_a_run_leaves_a_report_a_picture_samples_and_a_model_with_its_card(text_run: Path) -> None:
    written = "config.yaml data.json manifest.json metrics.jsonl model outcomes.npz result.json"
    assert {path.name for path in text_run.iterdir()} == {*written.split(), "report.html", "curves.svg", "samples.json"}
    assert "<svg" in (text_run / "curves.svg").read_text()
    card, result = (text_run / "model" / "README.md").read_text(), json.loads((text_run / "result.json").read_text())
    front = yaml.safe_load(card.split("---")[1])
    assert front["pipeline_tag"] == "text-generation" and {"mingru", "lstm"} <= set(front["tags"])
    for number in (result["test_perplexity"], result["test_bits_per_byte"], result["validation_loss"]):
        assert f"{number:.4f}" in card
    sources = json.loads((text_run / "data.json").read_text())
    assert all(source["sha256"] in card for source in sources)


def test_no_path_and_no_text_of_the_data_is_in_the_card_or_the_report(text_run: Path, book: Path) -> None:
    for name in ("model/README.md", "report.html"):
        content = (text_run / name).read_text()
        assert str(book.parent) not in content and "the 17 cat sat 0 on 2 mats" not in content


@pytest.mark.slow
@needs_a_browser
def test_the_report_of_a_run_draws_its_curves(text_run: Path) -> None:
    seen = visit(text_run / "report.html")
    assert seen.said == [] and len(seen.asked) == 1 and not seen.wide and not seen.cut_off
    assert seen.titles[:4] == ["Scores", "Loss", "Perplexity", "Learning rate"] and "What it writes" in seen.titles
    assert seen.figures == [2, 2, 1]


def test_evaluate_says_what_a_perplexity_counts(text_run: Path, tmp_path: Path, capsys) -> None:
    result = json.loads((text_run / "result.json").read_text())
    found = said(capsys, "evaluate", text_run, "--threads", 1)
    assert f"{result['test_perplexity']:.2f}" in found and f"{result['test_bits_per_byte']:.4f}" in found
    assert f"{result['test_tokens']:,}" in found and "bytes" in found and "<eos>" in found
    other = tmp_path / "other.txt"
    other.write_text("the 5 cat sat ✓ 8 on 0 mats\n" * 3)
    found = said(capsys, "evaluate", text_run, "--file", other, "--threads", 1)
    assert "other.txt" in found and re.search(r"\b84\b", found)


def test_evaluate_puts_no_two_perplexities_of_different_vocabularies_in_one_column(
    text_run: Path, words_run: Path, capsys
) -> None:
    found = said(capsys, "evaluate", text_run, words_run, "--threads", 1)
    assert "vocabularies differ" in found and "perplexity │" not in found and "bits" in found
    same = said(capsys, "evaluate", text_run, text_run, "--split", "validation", "--threads", 1)
    assert "vocabularies differ" not in same


def test_generate_writes_a_text_for_each_temperature(text_run: Path, capsys) -> None:
    flags = ["--prompt", "the 3", "--length", 20, "--temperature"]
    found = said(capsys, "generate", text_run, *flags, 0, 0.8, 1.2)
    assert found.count("the 3") >= 3 and "temperature 0: the likeliest token each time" in found
    assert said(capsys, "generate", text_run, *flags, 0.8) in found


def test_generate_names_what_the_vocabulary_lacks_and_can_be_forbidden_to_write_it(words_run: Path, capsys) -> None:
    call("generate", words_run, "--prompt", "the dragon sat", "--length", 5)
    assert "not in the vocabulary, read as <unk>: 'dragon'" in capsys.readouterr().err
    flags = ["--prompt", "the", "--length", 120, "--temperature", 50]
    assert "<unk>" in said(capsys, "generate", words_run, *flags)
    assert "<unk>" not in said(capsys, "generate", words_run, *flags, "--no-unk")


@pytest.mark.slow
def test_export_is_held_against_onnxruntime(text_run: Path, tmp_path: Path, capsys) -> None:
    found = said(capsys, "export", text_run, "--to", "onnx", "--output", tmp_path / "onnx")
    assert found.count("allowed 1e-05") == 2 and (tmp_path / "onnx" / "step.onnx").exists()


BAD = {
    "generate {run} --temperature -1": "--temperature: must be 0 (the likeliest token) or above",
    "generate {run} --length 0": "must be at least 1",
    "generate {run} --top-p 0": "--top-p must lie in (0, 1]",
    "generate {empty}": "holds no model",
    "evaluate": "name at least one run",
    "evaluate {run} --split nowhere": "has no split 'nowhere'; there are validation, test, train",
    "evaluate {run} --file {empty}/none.txt": "no such file",
    "export {run} --to pickle": 'Choose from: "onnx"',
    "train --train-file {nothing} --output {new}": "the file is empty",
    "train --train-file {one} --tokenizer words --output {new}": "at least 2",
    "train --train-file {same} --test-fraction 0 --output {new}": "vocabulary",
    "train --train-file {text} --batch-size 100000 --output {new}": "lanes are more than the training text has tokens",
    "train --train-file {text} --cell mingru,lstm --layers 3 --output {new}": "--cell names 2 layers, --layers is 3",
    "train --train-file {text} --cell mingru,lstn --output {new}": "did you mean 'lstm'",
    "train --train-file {text} --label-smoothing 0.1 --output {new}": "--label-smoothing",
    "train --train-file {text} --bidirectional --output {new}": "forwards alone",
    "train --train-file {text} --validation-fraction 0.6 --test-fraction 0.5 --output {new}": "nothing to train on",
    "train --validation-file {text} --output {new}": "needs --train-file",
    "train --hub some/set --train-file {text} --output {new}": "not both",
    "train --train-file {text} --output {run}": "there is a run already; continue it by --resume",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_gets_one_line_and_leaves_nothing_behind(command: str, text_run, book, tmp_path, capsys) -> None:
    files = {"nothing": "", "one": "word", "same": "a" * 500}
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(content)
    (tmp_path / "empty").mkdir()
    places = {name: tmp_path / f"{name}.txt" for name in files}
    line = command.format(run=text_run, empty=tmp_path / "empty", new=tmp_path / "new", text=book, **places)
    code, error = outcome(capsys, *line.split())
    assert code == 2 and BAD[command] in " ".join(error.split()), error
    assert not (tmp_path / "new").exists()
