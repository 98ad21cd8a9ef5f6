"""The READMEs: short, the same in both languages, every score in them a kept one; links, also of the built site."""

import json
import re
import sys

import pytest
from pages import ENGLISH, GUIDE, KOREAN, ROOT, blocks

from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.verdict import difference_in_words, with_interval
from gatedrnn.training.result import Standing, read_record

sys.path.insert(0, str(ROOT / "docs"))
import links as site_links

sys.path.insert(0, str(ROOT / "tools"))
import first_runs

INTERVAL = r"[+-]?\d\.\d{4} \[[+-]?\d\.\d{4}, [+-]?\d\.\d{4}\]"


def without_comments(block):
    """Comments are translated, and nothing else is."""
    return [line.split("#")[0].rstrip() for line in block.splitlines()]


def test_a_readme_has_at_most_140_lines_and_three_small_pictures():
    for page in (ENGLISH, KOREAN):
        text = page.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 140
        pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
        assert len(pictures) == 3 and sum((ROOT / picture).stat().st_size for picture in pictures) < 120_000


def test_the_first_runs_are_the_kept_ones():
    rows = re.findall(r"^\| ([^|]+) \| \w+ \| ([\d.]+) \| ([\d.]+) \| ([^|]+) \|$", ENGLISH.read_text("utf-8"), re.M)
    assert {name for name, *_ in rows} == {*first_runs.RUNS}
    for name, score, best, which in rows:
        kept = json.loads((ROOT / "results" / "first-runs" / first_runs.file_of(name)).read_text())
        standing = Standing.model_validate(kept["standing"])
        plain = standing.ranked()[0]
        assert (score, best, which) == (f"{standing.score:.3f}", f"{plain.score:.3f}", plain.name)
        assert kept["arguments"] == first_runs.RUNS[name] and kept["environment"]["commit"]


def test_both_languages_show_the_same_code_and_quote_the_same_numbers():
    for language in ("bash", "python", "bibtex"):
        english, korean = (list(map(without_comments, blocks(page, language))) for page in (ENGLISH, KOREAN))
        assert english and english == korean
    quoted = [re.findall(r"\d[\d,]*\.\d+|\d+,\d{3}", page.read_text(encoding="utf-8")) for page in (ENGLISH, KOREAN)]
    assert sorted(quoted[0]) == sorted(quoted[1])


def test_every_score_and_difference_with_an_interval_is_a_kept_one():
    reports = "".join(report.read_text(encoding="utf-8") for report in (ROOT / "results").rglob("report.md"))
    kept = set(re.findall(INTERVAL, reports))
    for path in (ROOT / "results").rglob("results.json"):
        results = read_record(path, ComparisonResults)
        kept |= {with_interval(scores) for row in results.ranked() for scores in row.scores.values()}
        for pair in results.pairs:
            kept |= {difference_in_words(own.difference, results) for own in (pair, pair.turned(results.metric.score))}
    for page in (ROOT / "docs" / "results.md", ROOT / "docs" / "learn" / "09-verdict.md"):
        scores = re.findall(INTERVAL, page.read_text(encoding="utf-8"))
        assert scores and [score for score in scores if score not in kept] == []


def test_what_a_page_links_to_exists():
    for page in (ENGLISH, KOREAN, ROOT / "CONTRIBUTING.md", *GUIDE):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


PAGE = """<h2 id="here">x</h2><a href="#here">a</a><a href="b/other.html#there">b</a><img src="picture%20one.png">
<a href="https://example.org/nothing">another site</a><a href="b/other.html#step=3">a setting of the page</a>"""


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
