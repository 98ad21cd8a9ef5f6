"""The slides of the numbers: lines and numbers of the READMEs, the same in both languages, in whole files."""

import ast
import re
import sys
from html import unescape

import pytest
from browser import launched, needs_a_browser
from pages import ENGLISH, GUIDE, KOREAN, ROOT
from refusals import refused

sys.path.insert(0, str(ROOT / "docs"))
import deck
import slides

READMES = {"en": ENGLISH, "ko": KOREAN}
FILES = {"en": f"{slides.NAME}.html", "ko": f"{slides.NAME}.ko.html"}
SLIDES = list(slides.slides())
NUMBER = r"\d+(?:[.,]\d+)*"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages by language."""
    folder = tmp_path_factory.mktemp("slides")
    deck.write(folder, slides.NAME, SLIDES)
    return {language: (folder / file).read_text() for language, file in FILES.items()}


def text_of(html):
    """The text that a reader sees."""
    return unescape(re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", "", html, flags=re.S))


def decision_table(html):
    """(need, take, measured) by line."""
    _, *rows = re.findall(r"<tr.*?</tr>", html, re.S)
    return [[text_of(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)] for row in rows]


def readme_table(readme):
    """The rows of the README's table, which is its first one of three columns."""
    _, _, *rows = re.findall(r"^\|([^|]+)\|([^|]+)\|([^|]+)\|$", readme.read_text(encoding="utf-8"), re.M)
    return [[cell.replace("`", "").strip() for cell in row] for row in rows]


def test_the_decision_table_has_the_lines_and_numbers_of_the_readme(pages):
    for language, html in pages.items():
        shown, wanted = decision_table(html), readme_table(READMES[language])
        assert len(wanted) == 10  # the last is of no cell
        for (need, take, measured), line in zip(shown, wanted[:-1], strict=False):
            assert [need, take] == line[:2]
            assert set(re.findall(NUMBER, line[2])) <= set(re.findall(NUMBER, measured))


def test_a_claim_of_no_error_over_a_long_sequence_says_how_many_were_tested(pages):
    probed = {
        language: [line[2] for line in decision_table(html) if "65,536" in line[2]] for language, html in pages.items()
    }
    assert len(probed["en"]) == len(probed["ko"]) == 2
    assert all("no error in 4 sequences of 65,536 steps" in line for line in probed["en"])
    assert all("65,536스텝 시퀀스 4개에서 오류 없음" in line for line in probed["ko"])
    claim = r"65,536|1,000,000 steps"
    for page in (*GUIDE, *sorted((ROOT / "docs" / "learn").glob("*.md"))):
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for passage in re.split(r"\n\n+", prose):
            if re.search(claim, passage) and re.search(r"\berrors?\b|\bexact\b|\bsolve[sd]?\b", passage):
                assert re.search(r"sequences?\b|64 of 64", passage), (page.name, passage)


def test_a_page_is_whole_and_both_languages_show_the_same_numbers(pages):
    english, korean = (sorted(re.findall(NUMBER, text_of(html))) for html in pages.values())
    assert len(english) > 300 and english == korean
    for language, html in pages.items():
        assert f'<html lang="{language}">' in html
        assert not re.search(r"https?:|<script\b[^>]|<link|<img|@import|url\(", html)
        links, anchors = re.findall(r'href="([^"]+)"', html), re.findall(r'id="([^"]+)"', html)
        assert {f"#{slide.anchor}" for slide in SLIDES} <= set(links)
        assert {link.removeprefix("#") for link in links} <= {*anchors, *FILES.values()}
        assert len(set(anchors)) == len(anchors) == html.count("<section")


def test_records_that_a_slide_names_exist_and_no_number_is_typed():
    named = {record for slide in SLIDES for record in slide.records}
    assert named and [record for record in named if not (ROOT / "results" / record).exists()] == []
    constants = [node.value for node in ast.walk(ast.parse((ROOT / "docs" / "slides.py").read_text()))
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    assert [text for text in constants if re.search(r"\d[.,]\d|\d{3}", text)] == []


def test_words_that_the_records_refute_are_refused(tmp_path):
    first, second, *_ = SLIDES
    refuted = [first._replace(holds=False), second]
    refused(ValueError, f"words of {first.anchor}$", deck.write, tmp_path, slides.NAME, refuted)


@needs_a_browser
def test_a_presenters_keys_turn_the_slides(pages, tmp_path):
    (tmp_path / "slides.html").write_text(pages["en"])
    with launched() as browser:
        tab = browser.new_page(viewport={"width": 1280, "height": 720})
        tab.goto((tmp_path / "slides.html").as_uri())
        shown = []
        for key in ("ArrowRight", "PageDown", "ArrowLeft", "End", "ArrowRight", "Home", "ArrowLeft"):
            tab.keyboard.press(key)
            shown.append(tab.evaluate("location.hash").removeprefix("#"))
            top = tab.evaluate("id => document.getElementById(id).getBoundingClientRect().top", shown[-1])
            assert abs(top) < 5 or key in ("End", "ArrowRight")  # the last slide may not reach the top
    first, second, *_, last = (slide.anchor for slide in SLIDES)
    assert shown == [first, second, first, last, last, "table", "table"]
