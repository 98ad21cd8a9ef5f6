"""train, evaluate, generate and export of a language model from the command line; bad input gets one clear line."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from browser import needs_a_browser, visit
from commands import outcome
from train_helpers import small_text

from gatedrnn.cli.app import main

SMALL = (
    "--cell mingru --hidden-size 16 --layers 1 --embedding-size 8 --block=false --batch-size 4 --length 16 --epochs 2 "
    "--threads 1 --test-fraction 0.1"
).split()


def call(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    assert not stop.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("language")


@pytest.fixture(scope="module")
def text(folder):
    return small_text(folder / "secret-place.txt")


@pytest.fixture(scope="module")
def finished(folder, text):
    call("train", "--train-file", text, *SMALL, "--output", folder / "run")
    call("train", "--train-file", text, *SMALL, "--tokenizer", "words", "--output", folder / "words")
    return folder / "run"


def said(capsys, *arguments):
    call(*arguments)
    return " ".join(capsys.readouterr().out.split())


def test_a_run_leaves_a_report_a_picture_samples_and_a_model_with_its_card(finished):
    written = "config.yaml data.json manifest.json metrics.jsonl model outcomes.npz result.json"
    assert {path.name for path in finished.iterdir()} == {*written.split(), "report.html", "curves.svg", "samples.json"}
    assert "<svg" in (finished / "curves.svg").read_text()
    card, result = (finished / "model" / "README.md").read_text(), json.loads((finished / "result.json").read_text())
    front = yaml.safe_load(card.split("---")[1])
    assert front["pipeline_tag"] == "text-generation" and "mingru" in front["tags"]
    for number in (result["test_perplexity"], result["test_bits_per_byte"], result["validation_loss"]):
        assert f"{number:.4f}" in card
    sources = json.loads((finished / "data.json").read_text())
    assert all(source["sha256"] in card for source in sources)


def test_no_path_and_no_text_of_the_data_stands_in_the_card_or_the_report(finished, text):
    for name in ("model/README.md", "report.html"):
        content = (finished / name).read_text()
        assert str(text.parent) not in content and "the 17 cat sat 0 on 2 mats" not in content


@pytest.mark.slow
@needs_a_browser
def test_the_report_of_a_run_draws_its_curves(finished):
    seen = visit(finished / "report.html")
    assert seen.said == [] and len(seen.asked) == 1 and not seen.wide and not seen.cut_off
    assert seen.titles[:4] == ["Scores", "Loss", "Perplexity", "Learning rate"] and "What it writes" in seen.titles
    assert seen.figures == [2, 2, 1]


def test_evaluate_says_what_a_perplexity_counts(capsys, finished):
    result = json.loads((finished / "result.json").read_text())
    found = said(capsys, "evaluate", finished, "--threads", "1")
    assert f"{result['test_perplexity']:.2f}" in found and f"{result['test_bits_per_byte']:.4f}" in found
    assert f"{result['test_tokens']:,}" in found and "bytes" in found and "<eos>" in found


def test_evaluate_puts_no_two_perplexities_of_different_vocabularies_in_one_column(capsys, finished):
    words = finished.parent / "words"
    found = said(capsys, "evaluate", finished, words, "--threads", "1")
    assert "vocabularies differ" in found and "perplexity │" not in found and "bits" in found
    same = said(capsys, "evaluate", finished, finished, "--split", "validation", "--threads", "1")
    assert "vocabularies differ" not in same


def test_evaluate_reads_any_text(capsys, finished, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the 5 cat sat ✓ 8 on 0 mats\n" * 3)
    found = said(capsys, "evaluate", finished, "--file", other, "--threads", "1")
    assert "other.txt" in found and re.search(r"\b84\b", found)


def test_generate_writes_a_text_for_each_temperature(capsys, finished):
    found = said(
        capsys, "generate", finished, "--prompt", "the 3", "--length", "20", "--temperature", "0", "0.8", "1.2"
    )
    assert found.count("the 3") == 3 and "temperature 0: the likeliest token each time" in found
    again = said(capsys, "generate", finished, "--prompt", "the 3", "--length", "20", "--temperature", "0.8")
    assert again in found


def test_generate_names_what_the_vocabulary_lacks(capsys, finished):
    call("generate", finished.parent / "words", "--prompt", "the dragon sat", "--length", 5)
    assert "not in the vocabulary, read as <unk>: 'dragon'" in capsys.readouterr().err


def test_generate_can_be_forbidden_to_write_unk(capsys, finished):
    words = finished.parent / "words"
    flags = ("--prompt", "the", "--length", "120", "--temperature", "50")
    assert "<unk>" in said(capsys, "generate", words, *flags)
    assert "<unk>" not in said(capsys, "generate", words, *flags, "--no-unk")


@pytest.mark.slow
def test_export_is_held_against_onnxruntime(capsys, finished):
    found = said(capsys, "export", finished, "--to", "onnx", "--output", finished.parent / "onnx")
    assert found.count("allowed 1e-05") == 2 and (finished.parent / "onnx" / "step.onnx").exists()


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
    "train --task digits --hub some/set --output {new}": "belongs to language-model",
    "train --train-file {text} --output {run}": "there is a run already",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_gets_one_line_and_leaves_nothing_behind(capsys, finished, text, tmp_path, command):
    files = {"nothing": "", "one": "word", "same": "a" * 500}
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(content)
    (tmp_path / "empty").mkdir()
    places = {name: tmp_path / f"{name}.txt" for name in files}
    line = command.format(run=finished, empty=tmp_path / "empty", new=tmp_path / "new", text=text, **places)
    code, error = outcome(capsys, *line.split())
    assert code == 2 and BAD[command] in " ".join(error.split()), error
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, text):
    """The system's own limit on the size of a file, as a disk without room would have it."""
    flags = " ".join(SMALL).replace("--embedding-size 8", "--embedding-size 512").split()
    command = [sys.executable, "-m", "gatedrnn", "train", "--train-file", str(text), *flags, "--checkpoint-every", "5"]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))  # less than the optimizer's file

    process = subprocess.run(
        [*command, "--output", str(tmp_path / "run")], preexec_fn=limited, capture_output=True, text=True
    )
    assert process.returncode == 1 and "Traceback" not in process.stderr, process.stderr
    # Kernels that are compiled on the way cannot be saved either, which is told and hurts nothing.
    lines = [line for line in process.stderr.splitlines() if "compil" not in line]
    assert len(lines) == 1 and "optimizer.bin: could not be written" in lines[0], process.stderr
    resumed = subprocess.run([sys.executable, "-m", "gatedrnn", "train", "--resume", str(tmp_path / "run")])
    assert resumed.returncode == 0 and Path(tmp_path / "run" / "result.json").exists()
