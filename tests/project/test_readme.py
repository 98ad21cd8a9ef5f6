"""The READMEs: short, the same in both languages, every score in them a kept one; links, also of the built site."""

import re
import sys

import pytest
from pages import ENGLISH, GUIDE, KOREAN, ROOT, blocks

sys.path.insert(0, str(ROOT / "docs"))
import links as site_links


def without_comments(block):
    """Comments are translated, and nothing else is."""
    return [line.split("#")[0].rstrip() for line in block.splitlines()]


def test_a_readme_has_at_most_120_lines_and_a_small_picture():
    for page in (ENGLISH, KOREAN):
        text = page.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 120
        (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", text)
        assert (ROOT / picture).stat().st_size < 120_000


def test_both_languages_show_the_same_code_and_quote_the_same_numbers():
    for language in ("bash", "python", "bibtex"):
        english, korean = (list(map(without_comments, blocks(page, language))) for page in (ENGLISH, KOREAN))
        assert english and english == korean
    quoted = [re.findall(r"\d[\d,]*\.\d+|\d+,\d{3}", page.read_text(encoding="utf-8")) for page in (ENGLISH, KOREAN)]
    assert sorted(quoted[0]) == sorted(quoted[1])


def test_every_score_with_an_interval_is_in_a_kept_report():
    kept = "".join(report.read_text(encoding="utf-8") for report in (ROOT / "results").rglob("report.md"))
    for page in (ENGLISH, ROOT / "docs" / "results.md"):
        scores = re.findall(r"[+-]?\d\.\d{4} \[[+-]?\d\.\d{4}, [+-]?\d\.\d{4}\]", page.read_text(encoding="utf-8"))
        assert scores and [score for score in scores if score not in kept] == []


def test_what_a_page_links_to_exists():
    for page in (ENGLISH, KOREAN, ROOT / "CONTRIBUTING.md", *GUIDE):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


PAGE = """<h2 id="here">x</h2><a href="#here">a</a><a href="b/other.html#there">b</a><img src="picture%20one.png">
<a href="https://example.org/nothing">another site</a>"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "b" / "other.html").write_text("<p id='there'><a href='../index.html'>back</a></p>")
    (tmp_path / "picture one.png").touch()
    return tmp_path


def test_a_missing_file_and_a_missing_place_are_named_with_their_page(site):
    assert list(site_links.broken(site)) == []
    (site / "picture one.png").unlink()
    (site / "b" / "other.html").write_text("<a href='gone.html'>x</a><a href='../index.html#gone'>y</a>")
    assert list(site_links.broken(site)) == [
        "b/other.html: gone.html", "b/other.html: ../index.html#gone", "index.html: b/other.html#there",
        "index.html: picture%20one.png",
    ]  # fmt: skip
