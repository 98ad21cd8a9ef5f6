"""The page, opened in a real browser: no error, no request, figures drawn."""

import shutil
from importlib.resources import files

import pytest
from browser import needs_a_browser, visit
from plotly.offline import get_plotlyjs_version

from gatedrnn.errors import Damaged
from gatedrnn.pages.page import PLOTLY
from gatedrnn.study.beside import Confusion, Curves, beside
from gatedrnn.study.figures import figures
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults
from gatedrnn.train.outcomes import OUTCOMES


@pytest.fixture(params=[pytest.param(1280, marks=pytest.mark.slow), 400])
def seen(comparison, request):
    return visit(comparison.folder / "report.html", request.param)


@needs_a_browser
def test_the_page_draws_every_figure_without_an_error_or_a_request(comparison, seen):
    assert seen.said == [] and seen.asked == [(comparison.folder / "report.html").as_uri()]
    assert len(seen.figures) == 4 and all(seen.figures)
    assert "Learning curves" in seen.titles and "Confusion on the test split" in seen.titles
    assert "mingru-params" in seen.table
    assert not seen.wide and not seen.cut_off


def test_an_axis_of_accuracies_ends_at_one(comparison):
    curves, confusion = (beside(comparison.folder, record) for record in (Curves, Confusion))
    for title, figure in figures(comparison.results, curves, confusion).items():
        if title != "Confusion on the test split":
            axis = figure.layout.xaxis if "every seed" in title else figure.layout.yaxis
            assert (axis.autorangeoptions.clipmin, axis.autorangeoptions.clipmax) == (0, 1), title


def test_the_page_is_drawn_from_records_alone_and_says_which_is_missing(comparison, tmp_path):
    others = (Curves.FILE, Confusion.FILE, OUTCOMES)
    for file in (ComparisonResults.FILE, *others):
        shutil.copy(comparison.folder / file, tmp_path)
    page, again = (
        path.read_text(encoding="utf-8") for path in (comparison.folder / "report.html", write_report(tmp_path))
    )
    text = (comparison.folder / "report.md").read_text()
    assert (tmp_path / "report.md").read_text() == text and "missing" not in text
    assert again.count("plotly-graph-div") == page.count("plotly-graph-div")
    for file in others:
        (tmp_path / file).unlink()
    write_report(tmp_path)
    said = (tmp_path / "report.md").read_text()
    assert "curves.json.gz is missing in this folder, so there are no learning curves." in said
    assert "confusion.json.gz is missing in this folder, so there is no confusion table." in said
    assert "outcomes.npz is missing in this folder, so no hardest examples are listed." in said


def test_a_damaged_record_is_named(comparison, tmp_path):
    for record in (ComparisonResults, Curves):
        shutil.copy(comparison.folder / record.FILE, tmp_path)
    whole = (tmp_path / Curves.FILE).read_bytes()
    for torn in (whole[:-9], b"", whole[:40] + b"x" + whole[41:], b"{}"):
        (tmp_path / Curves.FILE).write_bytes(torn)
        with pytest.raises(Damaged, match=r"curves\.json\.gz: is damaged"):
            write_report(tmp_path)
    (tmp_path / ComparisonResults.FILE).write_text("{}")
    with pytest.raises(Damaged, match=r"results\.json: is no ComparisonResults \(task: Field required"):
        write_report(tmp_path)


def test_what_a_user_typed_is_shown_and_not_run(comparison):
    text, page = ((comparison.folder / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    assert "    gatedrnn compare" in text
    assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page


def test_the_script_of_pages_is_of_the_version_that_draws_the_figures():
    script = files("gatedrnn.pages").joinpath(PLOTLY).read_text(encoding="utf-8")
    assert f"(cartesian - minified) v{get_plotlyjs_version()}\n" in script[:200]
