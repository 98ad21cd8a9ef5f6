"""Several comparisons as one: ranks, their test and critical difference, and what cannot be joined."""

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from gatedrnn.errors import Damaged, UsageError
from gatedrnn.study.joined import Joined, join
from gatedrnn.study.joined_summary import left_out, rank_rows, score_rows, scores_by_contender, sentences, verdict_rows
from gatedrnn.study.report import comparisons_in, joined_comparisons, report_of_joined
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.statistics import Estimate
from gatedrnn.train.result import read_record

RESULTS = Path(__file__).parents[3] / "results"
DIGITS = read_record(RESULTS / "digits" / "results.json", ComparisonResults)
NAMES = [row.name for row in DIGITS.contenders]


def comparison(*scores: float, task: str = "digits", **changes: object) -> ComparisonResults:
    """A comparison whose first contenders have these test scores."""
    rows = [
        row.model_copy(update={"scores": {**row.scores, "test": Estimate(score, score - 0.01, score + 0.01, 5)}})
        for row, score in zip(DIGITS.contenders, scores, strict=False)
    ]
    return DIGITS.model_copy(update={"contenders": rows, "task": task, **changes})


def of(*tables: tuple[float, ...]) -> Joined:
    return join([(Path(f"c{n}"), comparison(*scores, task=f"t{n}")) for n, scores in enumerate(tables)])


def test_ranks_are_places_by_test_score_and_ties_share_theirs():
    joined = of((0.9, 0.8, 0.7), (0.6, 0.8, 0.6))
    assert joined.ranks.tolist() == [[1, 2, 3], [2.5, 1, 2.5]]
    assert joined.average_ranks == {NAMES[1]: 1.5, NAMES[0]: 1.75, NAMES[2]: 2.75}


def test_a_lower_perplexity_ranks_higher():
    metric = DIGITS.metric.model_copy(update={"name": "perplexity", "higher_is_better": False})
    joined = join([(Path("a"), comparison(0.9, 0.8)), (Path("b"), comparison(9.0, 8.0, task="text", metric=metric))])
    assert joined.ranks.tolist() == [[1, 2], [2, 1]]


def test_the_probability_is_that_of_all_permutations():
    ranks = np.array([[1, 2, 3], [1, 3, 2]])
    joined = of((0.9, 0.8, 0.7), (0.9, 0.7, 0.8))

    def statistic(rows: object) -> float:
        return float((np.mean(rows, axis=0) ** 2).sum())

    drawn = [statistic(rows) for rows in product(permutations((1, 2, 3)), repeat=2)]
    assert joined.probability == pytest.approx(np.mean(np.array(drawn) >= statistic(ranks) - 1e-12))


@pytest.mark.parametrize(("contenders", "quantile"), [(2, 1.960), (4, 2.569), (7, 2.949)])
def test_the_critical_difference_is_of_the_published_table(contenders, quantile):
    """Demšar 2006, table 5a, at 0.05."""
    joined = of(*[tuple(0.9 - 0.01 * n for n in range(contenders))] * 6)
    assert joined.critical_difference == pytest.approx(quantile * np.sqrt(contenders * (contenders + 1) / 36), abs=1e-3)


def test_groups_join_what_is_not_distinguished():
    few, many = of((0.9, 0.8, 0.7), (0.7, 0.9, 0.8)), of(*[(0.9, 0.8, 0.7, 0.6)] * 8)
    assert few.probability > 0.05 and few.groups() == [list(few.average_ranks)]
    assert many.critical_difference == pytest.approx(1.66, abs=0.01)
    assert many.groups() == [NAMES[0:2], NAMES[1:3], NAMES[2:4]]


def test_the_kept_comparisons_are_joined_in_few_words():
    folders = [RESULTS / "ag_news", RESULTS / "digits"]
    joined = joined_comparisons(folders)
    said = sentences(joined)
    assert len(said) == 5 and "Average rank over 2 tasks, 1 is best: lstm 2.0" in said[0]
    assert said[2] == "Task by task, lstm is better than mingru-params on digits; not distinguished in 11 of 12 pairs."
    assert left_out(joined) is None
    assert [row["contender"] for row in rank_rows(joined)] == list(joined.average_ranks)
    assert [row["task"] for row in score_rows(joined)] == ["ag_news", "digits"]
    assert set(scores_by_contender(joined)[0]) == {"contender", "ag_news", "digits", "average rank"}
    assert [row["against"] for row in verdict_rows(joined)] == list(joined.average_ranks)[1:]
    text = report_of_joined(joined, folders, Path("elsewhere")).markdown()
    assert "# Which cell? 2 tasks" in text and "## Ranks and price" in text


def test_contenders_of_one_comparison_alone_are_left_out_and_named():
    joined = join([(Path("a"), comparison(0.9, 0.8, 0.7)), (Path("b"), comparison(0.9, 0.8, task="other"))])
    assert joined.contenders == NAMES[:2]
    assert left_out(joined) == f"Not in all comparisons, and left out here: {NAMES[2]}."


def test_tasks_of_one_name_are_called_by_their_folders():
    other = comparison(0.9, 0.8, settings=DIGITS.settings.model_copy(update={"data": {"steps": 64}}))
    assert list(join([(Path("rows"), comparison(0.9, 0.8)), (Path("pixels"), other)]).tasks) == ["rows", "pixels"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (comparison(0.9, 0.8), "a and b: the same data of digits twice"),
        (comparison(0.9, task="other"), "a, b: 1 contender in common"),
        (comparison(0.9, 0.8, task="other", margin=0.02), "a and b: margins of 0.005 and 0.02; judge one anew"),
    ],
)
def test_what_does_not_go_together_is_refused(second, said):
    with pytest.raises(UsageError, match=said):
        join([(Path("a"), comparison(0.9, 0.8)), (Path("b"), second)])


def test_one_comparison_is_not_joined_and_an_unfinished_one_is_named(tmp_path):
    with pytest.raises(UsageError, match="one comparison alone"):
        join([(Path("a"), DIGITS)])
    with pytest.raises(Damaged, match="no comparison"):
        joined_comparisons([tmp_path, RESULTS / "digits"])
    (tmp_path / "comparison.yaml").touch()
    with pytest.raises(Damaged, match="not finished; its command continues it"):
        joined_comparisons([tmp_path, RESULTS / "digits"])


def test_the_folder_of_a_suite_stands_for_its_comparisons(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "comparison.yaml").touch()
    (tmp_path / "other").mkdir()
    assert comparisons_in([tmp_path]) == [tmp_path / "one", tmp_path / "two"]
    assert comparisons_in([tmp_path / "one", tmp_path / "other"]) == [tmp_path / "one", tmp_path / "other"]
