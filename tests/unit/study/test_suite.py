"""Suites: several tasks from one file, everything refused before the first run, one joined report."""

from pathlib import Path

import pytest
from commands import call, outcome

from gatedrnn.errors import UsageError
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.suite import read_suite, run_suite
from gatedrnn.train.recipes import RECIPES

TWO = """
cells: [lstm, mingru]
match: [params]
hidden-size: 8
total-steps: 2
seeds: [0]
tasks:
  parity: {epochs: 1, curriculum: 0, length: 4}
  twice: {task: parity, epochs: 1, curriculum: 0, length: 8, seeds: [1]}
"""


def written(folder: Path, text: str) -> Path:
    (folder / "suite.yaml").write_text(text)
    return folder / "suite.yaml"


def test_each_task_has_the_shared_settings_its_own_and_its_recipe(tmp_path):
    suite = read_suite(written(tmp_path, TWO), threads=1)
    assert list(suite) == ["parity", "twice"]
    assert [own.contenders.seeds for own in suite.values()] == [[0], [1]]
    assert [own.data.length for own in suite.values()] == [4, 8]
    recipe = RECIPES["parity"]["train"]
    for own in suite.values():
        assert own.contenders.cells == ["lstm", "mingru"] and own.contenders.hidden_size == 8
        assert (own.train.epochs, own.train.learning_rate) == (1, recipe["learning_rate"])
        assert own.search is None and own.threads == 1
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
def test_a_suite_that_cannot_be_is_refused_with_its_place(text, said, tmp_path):
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
def test_nothing_runs_where_one_task_cannot(text, said, tmp_path):
    def never(settings: CompareSettings, folder: Path) -> None:
        raise AssertionError(folder)

    suite = read_suite(written(tmp_path, text), threads=1)
    with pytest.raises(UsageError, match=said):
        run_suite(suite, tmp_path / "out", never, fresh=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flags", ["--seeds 3", "--task parity", "--trials 2"])
def test_flags_of_settings_beside_a_suite_are_refused(flags, tmp_path, capsys):
    code, error = outcome(capsys, "compare", "--suite", written(tmp_path, TWO), *flags.split())
    assert code == 2 and error.count("\n") == 1
    assert f"{flags.split()[0]}: with --suite all settings stand in its file" in error


@pytest.fixture(scope="module")
def finished(speed_in_a_moment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call("compare", "--suite", written(folder, TWO), "--threads", 1)
    return folder / "runs" / "suite"


def test_a_suite_ends_in_one_report_that_links_to_those_of_its_tasks(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished.parents[1])
    page, text = (finished / "report.html").read_text(), (finished / "report.md").read_text()
    assert 'href="parity/report.html"' in page and 'href="twice/report.html"' in page
    assert "| twice | accuracy |" in text
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("result.json")}
    assert len(before) == 4
    assert outcome(capsys, "report", finished) == (0, "")
    assert (finished / "report.md").read_text() == text
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("result.json")} == before
