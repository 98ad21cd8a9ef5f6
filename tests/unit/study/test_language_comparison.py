"""Language models compared: equal embeddings, matched cores, perplexity over seeds and over documents."""

import math

import numpy as np
import pytest
from browser import needs_a_browser, visit
from train_helpers import small_text, text_settings

from gatedrnn.errors import DataError
from gatedrnn.study.beside import Confusion, Curves, beside
from gatedrnn.study.experiment import compare
from gatedrnn.study.report import write_report
from gatedrnn.study.results import run_name
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.tables import score_rows
from gatedrnn.study.verdict import headline
from gatedrnn.train.outcomes import read_outcomes


def settings_of(text, **changes):
    sizes = {"layers": 1, "length": 32, "batch_size": 16, "total_steps": 10, "checkpoint_every": 100, **changes}
    run = text_settings(text, "lstm", document_start=r"the \d*[05] ", **sizes)
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=16, match=["layers"], seeds=[0, 1])
    return CompareSettings(contenders=contenders, threads=1, data=run.data, model=run.model, train=run.train)


@pytest.fixture(scope="module")
def finished(speed_in_a_moment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    results = compare(settings_of(small_text(folder / "text.txt")), folder / "comparison")
    return results, write_report(folder / "comparison")


def test_the_score_is_perplexity_and_the_lowest_is_the_best(finished):
    results, page = finished
    assert (results.metric.name, results.metric.higher_is_better) == ("perplexity", False)
    curves, outcomes = beside(page.parent, Curves), read_outcomes(page.parent / "outcomes.npz")
    assert beside(page.parent, Confusion) is None
    for row in results.contenders:
        for run in row.runs:
            assert run.scores["test"].perplexity == pytest.approx(math.exp(run.scores["test"].loss))
            name = run_name(row.name, run.seed)
            assert curves.runs[name].score[-1] > 1
            assert outcomes[f"{name}/test"].rate == pytest.approx(run.scores["test"].loss)
        losses = [run.scores["test"].loss for run in row.runs]
        assert row.scores["test"].mean == pytest.approx(math.exp(np.mean(losses)))
    means = [row.scores["validation"].mean for row in results.contenders]
    assert results.best_on_validation().scores["validation"].mean == min(means)
    assert headline(results)[0].startswith("Test perplexity is lowest for ")


def test_a_difference_is_the_ratio_of_perplexities_over_seeds_and_pieces_of_text(finished):
    results, _ = finished
    lstm, mingru = results.contenders[:2]
    losses = [np.mean([run.scores["test"].loss for run in row.runs]) for row in (mingru, lstm)]
    found = results.pair(mingru.name, lstm.name).difference
    assert found.mean == pytest.approx(math.expm1(losses[0] - losses[1])) and found.low < found.mean < found.high
    back = results.pair(lstm.name, mingru.name).difference
    assert (1 + back.low) * (1 + found.high) == pytest.approx(1) == (1 + back.mean) * (1 + found.mean)
    shown = {row["contender"]: row["to baseline"] for row in score_rows(results)}
    assert shown["lstm"] == "baseline" and f"{found.mean:+.1%}" in shown["mingru-layers"]
    assert results.data.unit in ("document", "block of 100 tokens") and results.data.examples["test"] > 1


def test_records_hold_no_path_and_no_text_and_the_report_shows_perplexity_and_no_confusion(finished):
    results, page = finished
    assert str(page.parent) not in results.text() and "cat sat" not in results.text()
    report, shown = (page.with_suffix(ending).read_text(encoding="utf-8") for ending in (".md", ".html"))
    assert "accuracy" not in report and "Test perplexity, every seed</h2>" in shown and "Confusion" not in report


@pytest.mark.slow
@needs_a_browser
def test_the_page_draws_every_figure(finished):
    seen = visit(finished[1])
    assert seen.said == [] and not seen.wide and not seen.cut_off and all(seen.figures)
    assert "Test perplexity, every seed" in seen.titles and not any("Confusion" in title for title in seen.titles)
    assert "accuracy" not in seen.text


def test_a_comparison_without_a_test_split_is_refused(tmp_path):
    text = small_text(tmp_path / "text.txt")
    with pytest.raises(DataError, match="ends on a test split"):
        compare(settings_of(text, test_fraction=0.0), tmp_path / "comparison")
    assert not (tmp_path / "comparison").exists()
