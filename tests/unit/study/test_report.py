"""The page, opened in a real browser: no error, no request, figures drawn."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from browser import needs_a_browser, visit
from plotly.offline import get_plotlyjs_version
from test_experiment import small

from gatedrnn.errors import Damaged
from gatedrnn.pages.page import PLOTLY
from gatedrnn.study.beside import Confusion, Curves, beside
from gatedrnn.study.experiment import compare
from gatedrnn.study.figures import figures
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults
from gatedrnn.train.outcomes import OUTCOMES
from gatedrnn.train.result import read_record


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "comparison"
    compare(small(), folder, command="gatedrnn compare <script>alert(1)</script>")
    return write_report(folder)


@needs_a_browser
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 400])
def test_the_page_draws_every_figure_without_an_error_or_a_request(page: Path, width: int) -> None:
    seen = visit(page, width)
    assert seen.said == [] and seen.asked == [page.as_uri()]
    assert len(seen.figures) == 4 and all(seen.figures)
    assert "Learning curves" in seen.titles and "Confusion on the test split" in seen.titles
    assert "mingru-params" in seen.table
    assert not seen.wide and not seen.cut_off


def test_an_axis_of_accuracies_ends_at_one(page: Path) -> None:
    results = read_record(page.parent / "results.json", ComparisonResults)
    for title, figure in figures(results, beside(page.parent, Curves), beside(page.parent, Confusion)).items():
        if title != "Confusion on the test split":
            axis = figure.layout.xaxis if "every seed" in title else figure.layout.yaxis
            assert (axis.autorangeoptions.clipmin, axis.autorangeoptions.clipmax) == (0, 1), title


def test_the_page_is_drawn_from_records_alone(page: Path, tmp_path: Path) -> None:
    for record in (ComparisonResults, Curves, Confusion):
        shutil.copy(page.parent / record.FILE, tmp_path)
    shutil.copy(page.parent / OUTCOMES, tmp_path)
    again = write_report(tmp_path)
    assert (tmp_path / "report.md").read_text() == (page.parent / "report.md").read_text()
    assert again.read_text().count("plotly-graph-div") == page.read_text().count("plotly-graph-div")


def test_a_report_says_which_record_is_missing(page: Path, tmp_path: Path) -> None:
    shutil.copy(page.parent / ComparisonResults.FILE, tmp_path)
    write_report(tmp_path)
    said = (tmp_path / "report.md").read_text()
    assert "curves.json.gz is missing in this folder, so there are no learning curves." in said
    assert "confusion.json.gz is missing in this folder, so there is no confusion table." in said
    assert "outcomes.npz is missing in this folder, so no hardest examples are listed." in said
    assert "missing" not in (page.parent / "report.md").read_text()


def test_a_damaged_record_is_named(page: Path, tmp_path: Path) -> None:
    for record in (ComparisonResults, Curves):
        shutil.copy(page.parent / record.FILE, tmp_path)
    whole = (tmp_path / Curves.FILE).read_bytes()
    for torn in (whole[:-9], b"", whole[:40] + b"x" + whole[41:], b"{}"):
        (tmp_path / Curves.FILE).write_bytes(torn)
        with pytest.raises(Damaged, match=r"curves\.json\.gz: is damaged"):
            write_report(tmp_path)
    (tmp_path / ComparisonResults.FILE).write_text("{}")
    with pytest.raises(Damaged, match=r"results\.json: is no ComparisonResults \(task: Field required"):
        write_report(tmp_path)


def test_what_a_user_typed_is_shown_and_not_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in text and "<script>alert(1)" not in text


def test_the_markdown_report_has_every_contender_and_the_command(page: Path) -> None:
    text = (page.parent / "report.md").read_text(encoding="utf-8")
    for piece in ("| lstm |", "| mingru-layers |", "| mingru-params |", "## Structure", "## Score and price"):
        assert piece in text
    assert "    gatedrnn compare" in text


def test_the_script_of_pages_is_of_the_version_that_draws_the_figures() -> None:
    script = files("gatedrnn.pages").joinpath(PLOTLY).read_text(encoding="utf-8")
    assert f"(cartesian - minified) v{get_plotlyjs_version()}\n" in script[:200]
