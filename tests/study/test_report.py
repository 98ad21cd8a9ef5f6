"""The page, opened in a real browser: no error, no request, figures drawn."""

import json
from pathlib import Path

import pytest
from browser import needs_a_browser, visit
from test_experiment import small

from gatedrnn.study.experiment import compare
from gatedrnn.study.figures import figures
from gatedrnn.study.report import write_report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "comparison"
    return write_report(compare(small(), folder, command="gatedrnn compare <script>alert(1)</script>"), folder)


@needs_a_browser
def test_the_page_draws_every_figure_without_an_error_or_a_request(page: Path) -> None:
    seen = visit(page)
    assert seen.said == [] and seen.asked == [page.as_uri()]
    assert len(seen.figures) == 5 and all(seen.figures)
    assert "Learning curves" in seen.titles and "Confusion on the test split" in seen.titles
    assert "mingru-params" in seen.table
    assert not seen.wide and not seen.cut_off


def test_an_axis_of_accuracies_ends_at_one(page: Path) -> None:
    results = json.loads((page.parent / "results.json").read_text())
    for title, figure in figures(results).items():
        if title != "Confusion on the test split":
            axis = figure.layout.xaxis if "every seed" in title else figure.layout.yaxis
            assert (axis.autorangeoptions.clipmin, axis.autorangeoptions.clipmax) == (0, 1), title


def test_the_page_can_be_drawn_again_from_results_json_alone(page: Path, tmp_path: Path) -> None:
    results = json.loads((page.parent / "results.json").read_text())
    write_report(results, tmp_path)
    assert (tmp_path / "report.md").read_text() == (page.parent / "report.md").read_text()


def test_what_a_user_typed_is_shown_and_not_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in text and "<script>alert(1)" not in text


def test_the_markdown_report_has_every_contender_and_the_command(page: Path) -> None:
    text = (page.parent / "report.md").read_text(encoding="utf-8")
    for piece in ("| lstm |", "| mingru-layers |", "| mingru-params |", "## Structure", "## Score and price"):
        assert piece in text
    assert "    gatedrnn compare" in text
