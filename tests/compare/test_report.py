"""The page, opened in a real browser: no error, no request, figures drawn."""

import json
import shutil
from pathlib import Path

import pytest
from test_experiment import small

from gatedrnn.compare.experiment import compare
from gatedrnn.compare.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
).split()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "comparison"
    return write_report(compare(small(), folder, command="gatedrnn compare <script>alert(1)</script>"), folder)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_page_draws_every_figure_without_an_error_or_a_request(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        tab.wait_for_selector(".js-plotly-plot .main-svg")
        titles = tab.locator("h2").all_inner_texts()
        drawn = [plot.locator(".main-svg").count() > 0 for plot in tab.locator(".js-plotly-plot").all()]
        marks = tab.locator(".js-plotly-plot .scatterlayer .point").count()
        table = tab.locator("table").first.inner_text()
        wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        browser.close()
    assert said == []
    assert asked == [page.as_uri()]
    assert drawn == [True] * 5
    assert marks > 10
    assert "Learning curves" in titles and "Confusion on the test split" in titles
    assert "mingru-params" in table
    assert not wide


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
