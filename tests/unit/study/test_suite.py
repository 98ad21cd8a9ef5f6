"""Suites: several tasks from one file, everything refused before the first run, one joined report."""

from pathlib import Path

import pytest
from commands import outcome

from gatedrnn.errors import UsageError
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.suite import read_suite, run_suite
from gatedrnn.train.recipes import RECIPES

TWO = """
cells: [lstm, mingru]
match: [params]
hidden-size: 8
seeds: [0, 1]
tasks:
  digits: {epochs: 1}
  pixels: {task: digits, steps: 64, epochs: 1, seeds: [0]}
"""


def written(folder: Path, text: str) -> Path:
    (folder / "suite.yaml").write_text(text)
    return folder / "suite.yaml"


def test_each_task_has_the_shared_settings_its_own_and_its_recipe(tmp_path: Path) -> None:
    suite = read_suite(written(tmp_path, TWO), threads=1)
    assert list(suite) == ["digits", "pixels"]
    assert [own.contenders.seeds for own in suite.values()] == [[0, 1], [0]]
    assert [own.data.steps for own in suite.values()] == [8, 64]
    recipe = RECIPES["digits"]["train"]
    for own in suite.values():
        assert own.contenders.cells == ["lstm", "mingru"] and own.contenders.hidden_size == 8
        assert (own.train.epochs, own.train.learning_rate) == (1, recipe["learning_rate"])
        assert own.search is None and own.threads == 1


def test_a_search_stands_in_the_file_too(tmp_path: Path) -> None:
    suite = read_suite(written(tmp_path, f"trials: 3\nsearch-seed: 5\n{TWO}"), threads=1)
    assert [(own.search.trials, own.search.seed) for own in suite.values()] == [(3, 5), (3, 5)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [", "cannot be read"),
        ("cells: [lstm]", "must name two comparisons or more under 'tasks'"),
        ("tasks: {digits: }", "must name two comparisons or more under 'tasks'"),
        ("tasks: {digits: 3, parity: }", "digits: must hold settings as 'name: value', got 3"),
        ("tasks: {digist: , parity: }", "digist: unknown task 'digist'. Did you mean 'digits'?"),
        ("tasks: {digits: {epoch: 3}, parity: }", "digits: unknown setting 'epoch'. Did you mean 'epochs'?"),
        ("tasks: {digits: {epochs: 0}, parity: }", "digits: epochs: Input should be greater than or equal to 1"),
        ("tasks: {digits: {train-file: a.csv}, parity: }", "digits: unknown setting 'train-file'"),
        ("tasks: {digits: {minutes: soon, trials: 2}, parity: }", "digits: minutes: must be a number, got 'soon'"),
        ("tasks: {digits: {space: no.yaml, trials: 2}, parity: }", "digits: --space no.yaml: cannot be read"),
        ("tasks: {a/b: {task: digits}, parity: }", "a/b: a name becomes a folder's; write a word"),
    ],
)
def test_a_suite_that_cannot_be_is_refused_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read_suite(written(tmp_path, text), threads=1)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: {digits: {cells: [lstm]}, parity: }", "digits, parity: 1 contender in common"),
        ("cells: [lstm, gru]\ntasks: {digits: {trials: 2}, parity: }", "the same number of trials, or none"),
        ("cells: [lstm, gru]\ntasks: {digits: , text-classification: }", "text-classification: needs --train-file"),
        ("tasks: {digits: , language-model: {bidirectional: true}}", "a language model reads forwards alone"),
    ],
)  # fmt: skip
def test_nothing_runs_where_one_task_cannot(text: str, said: str, tmp_path: Path) -> None:
    def never(settings: CompareSettings, folder: Path) -> None:
        raise AssertionError(folder)

    suite = read_suite(written(tmp_path, text), threads=1)
    with pytest.raises(UsageError, match=said):
        run_suite(suite, tmp_path / "out", never, fresh=False)
    assert not (tmp_path / "out").exists()


def test_flags_of_settings_beside_a_suite_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(written(tmp_path, TWO))
    for flags, said in (("--seeds 3", "--seeds"), ("--task parity", "--task"), ("--trials 2", "--trials")):
        code, error = outcome(capsys, "compare", "--suite", file, *flags.split())
        assert code == 2 and error.count("\n") == 1
        assert f"{said}: with --suite all settings stand in its file" in error


def test_a_suite_ends_in_one_report_that_links_to_those_of_its_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, error = outcome(capsys, "compare", "--suite", str(written(tmp_path, TWO)), "--threads", "1")
    assert (code, error) == (0, "")
    folder = tmp_path / "runs" / "suite"
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert 'href="digits/report.html"' in page and 'href="pixels/report.html"' in page
    assert "| pixels | accuracy |" in text
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")}
    assert len(before) == 6
    assert outcome(capsys, "report", str(folder)) == (0, "")
    assert (folder / "report.md").read_text() == text
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")} == before
