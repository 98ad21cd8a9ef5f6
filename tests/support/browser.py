"""A page as a real browser shows it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
).split()
CUT_OFF = """
() => [...document.querySelectorAll(".js-plotly-plot")]
    .filter(plot => plot.querySelector(".main-svg").getBoundingClientRect().right
        > plot.closest("section").getBoundingClientRect().right + 1).length
"""
BROWSER_MARKS = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Seen(NamedTuple):
    """The observations on a page."""

    said: list[str]  # errors and messages of its console
    asked: list[str]  # addresses it asked for
    titles: list[str]
    figures: list[int]  # lines or marks in each figure; 0: it was not drawn
    table: str
    text: str
    cut_off: int  # figures that reach beyond their place
    wide: bool  # whether it must be scrolled sideways


def needs_a_browser(test: Callable[..., None]) -> Callable[..., None]:
    for mark in BROWSER_MARKS:
        test = mark(test)
    return test


@contextmanager
def launched() -> Iterator[Any]:
    """Chromium, until it is left."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def visit(page: Path, width: int = 1280) -> Seen:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    with launched() as browser:
        tab = browser.new_page(viewport={"width": width, "height": 900})
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri(), timeout=120_000)
        if "plotly-graph-div" in page.read_text(encoding="utf-8"):
            tab.wait_for_selector(".js-plotly-plot .main-svg")
        tab.wait_for_load_state("load")
        with suppress(PlaywrightTimeout):  # figures measure their place once more when all is loaded
            tab.wait_for_function(f"({CUT_OFF})() === 0", timeout=3000)
        plots = tab.locator(".js-plotly-plot").all()
        return Seen(
            said, asked, tab.locator("h2").all_inner_texts(),
            [plot.locator(".scatterlayer .trace, .heatmaplayer .hm").count() for plot in plots],
            tab.locator("table").first.inner_text(), tab.inner_text("body"), tab.evaluate(CUT_OFF),
            tab.evaluate("document.documentElement.scrollWidth > innerWidth"),
        )  # fmt: skip
