"""Links of the documentation lead somewhere: what `make docs` looks for in the pages that it built."""

import sys

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import links

PAGE = """<h2 id="here">x</h2><a href="#here">a</a><a href="b/other.html#there">b</a><img src="picture%20one.png">
<a href="https://example.org/nothing">another site</a>"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "b" / "other.html").write_text("<p id='there'><a href='../index.html'>back</a></p>")
    (tmp_path / "picture one.png").touch()
    return tmp_path


def test_a_site_whose_links_lead_somewhere(site):
    assert list(links.broken(site)) == []


def test_a_missing_file_and_a_missing_place_are_named_with_their_page(site):
    (site / "picture one.png").unlink()
    (site / "b" / "other.html").write_text("<a href='gone.html'>x</a><a href='../index.html#gone'>y</a>")
    assert list(links.broken(site)) == [
        "b/other.html: gone.html", "b/other.html: ../index.html#gone", "index.html: b/other.html#there",
        "index.html: picture%20one.png",
    ]  # fmt: skip
