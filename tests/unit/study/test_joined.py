"""Several comparisons as one: ranks, their test and critical difference, what cannot be joined; and suites, several
tasks from one file, everything refused before the first run, one joined report.
"""

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from commands import call, outcome
from refusals import refused

from gatedrnn.errors import Damaged, UsageError
from gatedrnn.study.joined import join, left_out, rank_rows, score_rows, scores_by_contender, sentences, verdict_rows
from gatedrnn.study.report import comparisons_in, joined_comparisons, report_of_joined
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.suite import read_suite, run_suite
from gatedrnn.training.result import read_record
from gatedrnn.training.task import task_named

RESULTS = Path(__file__).parents[3] / "results"
DIGITS = read_record(RESULTS / "digits" / "results.json", ComparisonResults)
NAMES = [row.name for row in DIGITS.contenders]


def comparison(*scores, task="digits", **changes):
    """A comparison whose first contenders have these test scores."""
    rows = [
        row.model_copy(update={"scores": {**row.scores, "test": Estimate(score, score - 0.01, score + 0.01, 5)}})
        for row, score in zip(DIGITS.contenders, scores, strict=False)
    ]
    return DIGITS.model_copy(update={"contenders": rows, "task": task, **changes})


def of(*tables):
    return join([(Path(f"c{n}"), comparison(*scores, task=f"t{n}")) for n, scores in enumerate(tables)])


def test_ranks_are_places_by_score_with_ties_shared_and_their_probability_is_that_of_all_permutations():
    joined = of((0.9, 0.8, 0.7), (0.6, 0.8, 0.6))
    assert joined.ranks.tolist() == [[1, 2, 3], [2.5, 1, 2.5]]
    assert joined.average_ranks == {NAMES[1]: 1.5, NAMES[0]: 1.75, NAMES[2]: 2.75}
    metric = DIGITS.metric.model_copy(update={"name": "perplexity", "higher_is_better": False})
    joined = join([(Path("a"), comparison(0.9, 0.8)), (Path("b"), comparison(9.0, 8.0, task="text", metric=metric))])
    assert joined.ranks.tolist() == [[1, 2], [2, 1]]
    ranks = np.array([[1, 2, 3], [1, 3, 2]])
    joined = of((0.9, 0.8, 0.7), (0.9, 0.7, 0.8))

    def statistic(rows):
        return float((np.mean(rows, axis=0) ** 2).sum())

    drawn = [statistic(rows) for rows in product(permutations((1, 2, 3)), repeat=2)]
    assert joined.probability == pytest.approx(np.mean(np.array(drawn) >= statistic(ranks) - 1e-12))


def test_groups_join_what_the_critical_difference_does_not_distinguish_and_kept_comparisons_are_few_words():
    """Demšar 2006, table 5a, at 0.05."""
    for contenders, quantile in ((2, 1.960), (4, 2.569), (7, 2.949)):
        found = of(*[tuple(0.9 - 0.01 * n for n in range(contenders))] * 6).critical_difference
        assert found == pytest.approx(quantile * np.sqrt(contenders * (contenders + 1) / 36), abs=1e-3)
    few, many = of((0.9, 0.8, 0.7), (0.7, 0.9, 0.8)), of(*[(0.9, 0.8, 0.7, 0.6)] * 8)
    assert few.probability > 0.05 and few.groups() == [list(few.average_ranks)]
    assert many.critical_difference == pytest.approx(1.66, abs=0.01)
    assert many.groups() == [NAMES[0:2], NAMES[1:3], NAMES[2:4]]
    folders = [RESULTS / "ag_news", RESULTS / "digits"]
    joined = joined_comparisons(folders)
    said = sentences(joined)
    assert len(said) == 5 and "Average rank over 2 tasks, 1 is best: gru-layers 1.5, lstm 2.0" in said[0]
    assert said[2] == (
        "Task by task, gru-layers is better than minlstm-layers on digits, mingru-layers on digits, minlstm-params on "
        "digits and mingru-params on digits; not distinguished in 8 of 12 pairs."
    )
    assert left_out(joined) is None
    assert [row["contender"] for row in rank_rows(joined)] == list(joined.average_ranks)
    assert [row["task"] for row in score_rows(joined)] == ["ag_news", "digits"]
    assert set(scores_by_contender(joined)[0]) == {"contender", "ag_news", "digits", "average rank"}
    assert [row["against"] for row in verdict_rows(joined)] == list(joined.average_ranks)[1:]
    text = report_of_joined(joined, folders, Path("elsewhere")).markdown()
    assert "# Which cell? 2 tasks" in text and "## Ranks and price" in text


def test_contenders_of_one_alone_are_left_out_folders_name_equal_tasks_and_what_does_not_join_is_refused():
    joined = join([(Path("a"), comparison(0.9, 0.8, 0.7)), (Path("b"), comparison(0.9, 0.8, task="other"))])
    assert joined.contenders == NAMES[:2]
    assert left_out(joined) == f"Not in all comparisons, and left out here: {NAMES[2]}."
    other = comparison(0.9, 0.8, settings=DIGITS.settings.model_copy(update={"data": {"steps": 64}}))
    assert list(join([(Path("rows"), comparison(0.9, 0.8)), (Path("pixels"), other)]).tasks) == ["rows", "pixels"]
    for second, said in (
        (comparison(0.9, 0.8), "a and b: the same data of digits twice"),
        (comparison(0.9, task="other"), "a, b: 1 contender in common"),
        (comparison(0.9, 0.8, task="other", margin=0.02), "a and b: margins of 0.005 and 0.02; judge one anew"),
    ):
        refused(UsageError, said, join, [(Path("a"), comparison(0.9, 0.8)), (Path("b"), second)])
    refused(UsageError, "one comparison alone", join, [(Path("a"), DIGITS)])


def test_an_unfinished_comparison_is_named_and_the_folder_of_a_suite_stands_for_its_comparisons(tmp_path):
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    for folder in (one, two, other):
        folder.mkdir()
        for said in ("no comparison", "not finished; its command continues it")[: 1 + (folder != other)]:
            refused(Damaged, said, joined_comparisons, [folder, RESULTS / "digits"])
            (folder / "comparison.yaml").touch(exist_ok=True)
    (other / "comparison.yaml").unlink()
    assert comparisons_in([tmp_path]) == [one, two] and comparisons_in([one, other]) == [one, other]


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


def written(folder, text):
    (folder / "suite.yaml").write_text(text)
    return folder / "suite.yaml"


def test_each_task_has_the_shared_settings_its_own_and_its_recipe(tmp_path):
    suite = read_suite(written(tmp_path, TWO), threads=1)
    assert list(suite) == ["parity", "twice"]
    assert [own.contenders.seeds for own in suite.values()] == [[0], [1]]
    assert [own.data.length for own in suite.values()] == [4, 8]
    recipe = task_named("parity").recipe.cells["train"]
    for own in suite.values():
        assert own.contenders.cells == ["lstm", "mingru"] and own.contenders.hidden_size == 8
        assert (own.train.epochs, own.train.learning_rate) == (1, recipe["learning_rate"])
        assert own.search is None and own.threads == 1
    suite = read_suite(written(tmp_path, f"trials: 3\nsearch-seed: 5\n{TWO}"), threads=1)
    assert [(own.search.trials, own.search.seed) for own in suite.values()] == [(3, 5), (3, 5)]


@pytest.mark.parametrize("text, said", [
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
    ("tasks: {digits: {cells: [lstm]}, parity: }", "digits, parity: 1 contender in common"),
    ("cells: [lstm, gru]\ntasks: {digits: {trials: 2}, parity: }", "the same number of trials, or none"),
    ("cells: [lstm, gru]\ntasks: {digits: , text-classification: }", "text-classification: needs --train-file"),
    ("tasks: {digits: , language-model: {bidirectional: true}}", "a language model reads forwards alone"),
])  # fmt: skip
def test_a_suite_of_which_one_task_cannot_be_is_refused_with_its_place_before_anything_runs(text, said, tmp_path):
    def never(settings, folder):
        raise AssertionError(folder)

    with pytest.raises(UsageError) as error:
        run_suite(read_suite(written(tmp_path, text), threads=1), tmp_path / "out", never, fresh=False)
    assert said in str(error.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("flags", ["--seeds 3", "--task parity", "--trials 2"])
def test_flags_of_settings_beside_a_suite_are_refused(flags, tmp_path, capsys):
    code, error = outcome(capsys, "compare", "--suite", written(tmp_path, TWO), *flags.split())
    assert code == 2 and error.count("\n") == 1
    assert f"{flags.split()[0]}: with --suite all settings stand in its file" in error


@pytest.fixture(scope="module")
def suite_report(speed_in_a_moment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call("compare", "--suite", written(folder, TWO), "--threads", 1)
    return folder / "runs" / "suite"


def test_a_suite_ends_in_one_report_that_links_to_those_of_its_tasks(suite_report, capsys, tmp_path, monkeypatch):
    page, text = ((suite_report / f"report.{ending}").read_text() for ending in ("html", "md"))
    assert 'href="parity/report.html"' in page and 'href="twice/report.html"' in page and "| twice | accuracy |" in text
    before = {path: path.stat().st_mtime_ns for path in suite_report.rglob("result.json")}
    assert len(before) == 4
    monkeypatch.chdir(tmp_path)
    assert outcome(capsys, "report", suite_report) == (0, "")
    assert (suite_report / "report.md").read_text() == text
    assert {path: path.stat().st_mtime_ns for path in suite_report.rglob("result.json")} == before
