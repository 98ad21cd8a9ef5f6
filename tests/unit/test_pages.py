"""Pages on a screen in both themes, on a phone and on paper: lines that are seen, nothing that is cut."""

import shutil
from pathlib import Path

import pytest
from browser import launched, needs_a_browser

from gatedrnn.pages import _NIGHT, COLOURS
from gatedrnn.study.report import PAGE, report_of

KEPT = Path(__file__).parents[2] / "results" / "digits"
BEYOND = """
width => [...document.querySelectorAll("td, th, .main-svg, p, dd, code")]
    .filter(part => part.offsetParent !== null || part.ownerSVGElement !== undefined)
    .filter(part => part.getBoundingClientRect().right > width + 1).map(part => part.outerHTML.slice(0, 60))
"""
DRAWN_IN = """
([these, others]) => {
    const figures = [...document.querySelectorAll(".js-plotly-plot")];
    const traces = figures.flatMap(figure => figure.data);
    const drawn = traces.flatMap(trace => [trace.marker?.color, trace.line?.color].flat());
    return drawn.some(colour => these.includes(colour)) && !drawn.some(colour => others.includes(colour));
}
"""


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("colours", "paper"), [(COLOURS, "#ffffff"), (_NIGHT, "#14181d")])
def test_lines_have_the_contrast_of_text_in_both_themes_and_no_two_are_the_same(colours, paper):
    """4.5 to 1, by WCAG 2.2's formula."""
    for colour in colours:
        dark, light = sorted((luminance(colour), luminance(paper)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, colour
    assert len(set(COLOURS)) == len(set(_NIGHT)) == len(COLOURS) == len(_NIGHT)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    shutil.copytree(KEPT, folder, dirs_exist_ok=True)
    report_of(folder).write_page(folder / PAGE)
    return folder / PAGE


@needs_a_browser
@pytest.mark.slow
def test_a_page_is_legible_at_night_and_whole_on_paper(page):
    with launched() as browser:
        tab = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
        tab.goto(page.as_uri())
        tab.wait_for_selector(".js-plotly-plot .main-svg")
        tab.wait_for_function(DRAWN_IN, arg=[_NIGHT, COLOURS])
        tab.set_viewport_size({"width": 688, "height": 900})  # of A4 between its margins
        tab.emulate_media(media="print")
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        tab.wait_for_function(DRAWN_IN, arg=[COLOURS, _NIGHT])
        assert tab.evaluate(BEYOND, 688) == []
        assert tab.locator("details:not([open])").count() == 0
        tab.emulate_media(media="screen")
        tab.evaluate("dispatchEvent(new Event('afterprint'))")
        tab.wait_for_function(DRAWN_IN, arg=[_NIGHT, COLOURS])
