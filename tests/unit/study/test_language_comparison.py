"""Language models compared: equal embeddings, matched cores, perplexity over seeds and over documents."""

import math

import numpy as np
import pytest
from browser import needs_a_browser, visit
from train_helpers import small_text, text_run

from gatedrnn.errors import DataError
from gatedrnn.study.experiment import compare
from gatedrnn.study.report import write_comparison
from gatedrnn.study.results import Confusion, Curves, DocumentLosses, beside, run_name
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.statistics import Sample, over_documents
from gatedrnn.study.summary import best_on_validation, headline, score_rows


def settings_of(text, **changes):
    run = text_run(text, "lstm", document_start=r"the \d*[05] ", epochs=1, **changes)
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=40, seeds=[0, 1])
    return CompareSettings(contenders=contenders, threads=1, data=run.data, model=run.model, train=run.train)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    text = small_text(folder / "text.txt")
    results = compare(settings_of(text), folder / "comparison")
    return results, write_comparison(folder / "comparison")


def test_embeddings_are_equal_and_cores_matched(finished):
    by_name = {row.name: row.parameters for row in finished[0].contenders}
    assert len({parameters.embedding for parameters in by_name.values()}) == 1
    assert {parameters.head for parameters in by_name.values()} == {0}, "tied to the embedding"
    assert by_name["mingru-params"].core == pytest.approx(by_name["lstm"].core, rel=0.05)
    assert by_name["mingru-layers"].core < by_name["lstm"].core


def test_the_score_is_perplexity_and_the_lowest_is_the_best(finished):
    results, page = finished
    assert (results.metric.name, results.metric.higher_is_better) == ("perplexity", False)
    curves, documents = beside(page.parent, Curves), beside(page.parent, DocumentLosses)
    assert beside(page.parent, Confusion) is None
    for row in results.contenders:
        for run in row.runs:
            assert run.scores["test"].perplexity == pytest.approx(math.exp(run.scores["test"].loss))
            name = run_name(row.name, run.seed)
            assert curves.runs[name].score[-1] > 1
            test = documents.runs[name]["test"]
            assert sum(test.nats) / sum(test.tokens) == pytest.approx(run.scores["test"].loss)
        assert row.scores["test"].mean == pytest.approx(np.mean([run.scores["test"].perplexity for run in row.runs]))
    means = [row.scores["validation"].mean for row in results.contenders]
    assert best_on_validation(results).scores["validation"].mean == min(means)
    assert headline(results)[0].startswith("Test perplexity with equal layers")


def test_the_difference_over_documents_is_the_ratio_of_perplexities(finished):
    results, _ = finished
    lstm, mingru = results.contenders[:2]
    losses = [[run.scores["test"].loss for run in row.runs] for row in (mingru, lstm)]
    ratio = math.exp(np.mean([own - other for own, other in zip(*losses, strict=True)]))
    found = mingru.over_documents
    assert found.mean == pytest.approx(ratio - 1) and found.low < found.mean < found.high
    shown = {row["contender"]: row["over documents"] for row in score_rows(results)}
    assert shown["lstm"] == "baseline" and f"{found.mean:+.1%}" in shown["mingru-layers"]
    assert any(f"mingru {found.mean:+.1%}" in sentence for sentence in headline(results))


def losses_of(tokens, nats):
    return Sample([0.0], None, tokens, [nats])


def test_an_interval_over_documents_is_as_wide_as_they_differ():
    random = np.random.default_rng(1)
    tokens = random.integers(50, 150, 60).tolist()
    base = [5.0 * n for n in tokens]
    even = over_documents(
        losses_of(tokens, [x + 0.1 * n for x, n in zip(base, tokens, strict=True)]), losses_of(tokens, base)
    )
    assert [even.low, even.mean, even.high] == pytest.approx([math.expm1(0.1)] * 3)
    apart = random.normal(0.1, 0.5, 60)
    uneven = over_documents(
        losses_of(tokens, [x + d * n for x, d, n in zip(base, apart, tokens, strict=True)]), losses_of(tokens, base)
    )
    error = 0.5 / math.sqrt(60)
    assert (uneven.high - uneven.low) / 2 == pytest.approx(1.96 * error * (1 + uneven.mean), rel=0.35)
    few = over_documents(losses_of(tokens[:4], base[:4]), losses_of(tokens[:4], base[:4]))
    assert few.low is None


@needs_a_browser
def test_the_page_shows_perplexity_and_no_confusion(finished):
    seen = visit(finished[1])
    assert seen.said == [] and not seen.wide and not seen.cut_off and all(seen.figures)
    assert "Test perplexity, every seed" in seen.titles and not any("Confusion" in title for title in seen.titles)
    assert "accuracy" not in seen.text


def test_the_record_holds_no_path_and_no_text(finished):
    written = finished[0].text()
    assert str(finished[1].parent) not in written and "cat sat" not in written


def test_a_comparison_without_a_test_split_is_refused(tmp_path):
    text = small_text(tmp_path / "text.txt")
    with pytest.raises(DataError, match="ends on a test split"):
        compare(settings_of(text, test_fraction=0.0), tmp_path / "comparison")
    assert not (tmp_path / "comparison").exists()
