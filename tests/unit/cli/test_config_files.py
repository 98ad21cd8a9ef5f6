"""Files of settings: whatever is in them, one line names the file, the key and the rule."""

import re
from pathlib import Path

import pytest
import yaml
from commands import outcome

from gatedrnn.records import parse_yaml, read_yaml

WRONG = {
    "2: 3": r"Unknown option: \"\[2\]\" from mine\.yaml", "yes: 1": r"\[yes\]\" from mine\.yaml",
    "2024-01-01: 3": "from mine.yaml", "[a]: 1": "a key must be a word .*line 2",
    f"hidden_size: {'9' * 5000}": "'9+' is no value: .*line 2", "config: other.yaml": "the key 'config' has no effect",
    "trust-code: true": "the key 'trust-code' has no effect in a file; give --trust-code",
    "oversubscribe: true": "the key 'oversubscribe'", "help: true": "the key 'help'",
    "hidden_size: 8\nhidden_size: 16": "the key 'hidden_size' is there twice .*line 3",
    "hidden_size: 8\nhidden-size: 16": "the key 'hidden-size' is there twice",
    "a: " + "[" * 9000: "is nested too deeply", "a: !!python/object/apply:os.system ['true']": "tag .*line 2",
    "a: &a [x]\nb: [*a]": "an alias", "a: 1\n---\nb: 2": "a single document", "a: \x01": "unacceptable character",
    "<<: {hidden_size: 3}": r"from mine\.yaml",
    "total_steps: 2024-13-45": r"--total-steps: .* integer.*\(with --config mine\.yaml\)",
    "batch_size: [1, 2]": "from mine.yaml",
}  # fmt: skip


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("content", WRONG, ids=lambda content: content[:20])
def test_a_file_of_settings_is_refused_in_one_line_with_its_name(capsys, content):
    Path("mine.yaml").write_text(f"task: digits\n{content}\n")
    code, said = outcome(capsys, "train", "--config", "mine.yaml", "--output", "run")
    (line,) = said.splitlines()
    assert code == 2 and "mine.yaml" in line and re.search(WRONG[content], line), line
    assert not Path("run").exists() and len(line) < 400


def test_another_encoding_names_the_file(capsys):
    Path("mine.yaml").write_bytes(b"\xff\xfe")
    code, said = outcome(capsys, "train", "--config", "mine.yaml")
    assert (code, said) == (2, "gatedrnn: --config mine.yaml: it is no UTF-8 (invalid start byte)\n")


def test_keys_and_dates_are_texts_as_they_are_written():
    Path("a.yaml").write_text("on: local\nyes: true\n1: 2024-01-01\nnested: {null: [1.5, x]}\n")
    assert read_yaml(Path("a.yaml")) == {
        "on": "local", "yes": True, "1": "2024-01-01", "nested": {"null": [1.5, "x"]},
    }  # fmt: skip
    with pytest.raises(yaml.YAMLError, match="'b' is there twice"):
        parse_yaml("a: {b: 1, b: 2}")


@pytest.mark.parametrize("flag", ["--suite", "--space"])
def test_suites_and_spaces_are_read_alike(capsys, flag):
    Path("mine.yaml").write_text("tasks: {a: {}, a: {}}\n")
    more = [] if flag == "--suite" else ["--task", "digits", "--trials", 1]
    code, said = outcome(capsys, "compare", flag, "mine.yaml", *more, "--output", "out")
    assert code == 2 and "mine.yaml" in said and "'a' is there twice" in said


def test_a_run_whose_settings_have_a_number_of_five_thousand_digits_is_damaged(capsys):
    Path("run").mkdir()
    Path("run/config.yaml").write_text(f"task: digits\nhidden_size: {'9' * 5000}\n")
    code, said = outcome(capsys, "train", "--finish", "run")
    assert code == 1 and re.search(r"run/config\.yaml: is damaged \('9+' is no value", said)
