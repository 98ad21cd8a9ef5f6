"""The READMEs: short, the same in both languages, and every score in them is a kept one."""

import re

from pages import ENGLISH, GUIDE, KOREAN, ROOT, blocks


def without_comments(block: str) -> list[str]:
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
