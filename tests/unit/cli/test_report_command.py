"""gatedrnn report: pages again, joined comparisons, and tables for other programs."""

import csv
import io
import shutil
from pathlib import Path

import pytest
from browser import needs_a_browser, visit
from commands import outcome, printed

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def kept(tmp_path):
    for name in ("ag_news", "digits"):
        shutil.copytree(RESULTS / name, tmp_path / name)
    return tmp_path


def test_csv_has_a_line_for_each_contender_and_split(kept, capsys):
    lines = list(csv.DictReader(io.StringIO(printed(capsys, "report", "digits", "ag_news", "--format", "csv"))))
    assert len(lines) == 2 * (9 + 8)
    tested = {(one["task"], one["contender"]): one for one in lines if one["split"] == "test"}
    line, plain = tested["digits", "gru-layers"], tested["digits", "logistic regression"]
    assert float(line["low"]) < float(line["mean"]) < float(line["high"]) and line["seeds"] == "5"
    assert line["verdict"] == "cannot tell" and float(line["difference"]) > 0
    assert (plain["match"], plain["core_parameters"], plain["cell"]) == ("plain", "", "")


def test_latex_escapes_and_a_file_is_written_where_it_is_named(kept, capsys):
    for folders, columns in (["digits"], 4), (["digits", "ag_news"], 4):
        text = printed(capsys, "report", *folders, "--format", "latex")
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 8 and all(row.count("&") == columns - 1 for row in rows)
        assert "_" not in text.replace(r"\_", "") and "–" not in text and "%" not in text.replace(r"\%", "")
        assert text.startswith(r"\begin{tabular}{l" + "r" * (columns - 1) + "}")
    assert outcome(capsys, "report", "digits", "--format", "md", "--output", "out/table.md") == (0, "")
    assert (kept / "out/table.md").read_text() == (kept / "digits/report.md").read_text()
    assert outcome(capsys, "report", "digits", "--output", "out/page.html") == (0, "")
    assert (kept / "out/page.html").read_text().startswith("<!doctype html>")
    assert not (kept / "digits/report.html").exists()


@pytest.mark.parametrize("arguments, code, said", [
    ("nowhere", 1, "nowhere: no comparison"),
    ("digits digits", 2, "digits and digits: the same data of digits twice"),
    ("digits half", 1, "half/results.json: is damaged"),
    ("probe digits", 2, "probe: holds probes; they are reported alone"),
    ("digits --output digits", 2, "--output digits: is a folder; name a file in it"),
    ("digits --output page", 2, "--output page: must end in .html or .htm for --format html"),
    ("digits --format csv --output a.html", 2, "must end in .csv for --format csv"),
    ("old", 1, "was written by another version of gatedrnn (schema 5, here 6)"),
])  # fmt: skip
def test_what_cannot_be_reported_gets_one_line(arguments, code, said, kept, refused):
    whole = (kept / "digits/results.json").read_text()
    old = whole.replace('"schema": 6', '"schema": 5').replace('"margin"', '"other"')
    for name, text in (("half", whole[: len(whole) // 2]), ("old", old)):
        shutil.copytree(kept / "digits", kept / name)
        (kept / name / "results.json").write_text(text)
    shutil.copytree(RESULTS / "probes" / "s5", kept / "probe")
    refused(said, "report", *arguments.split(), code=code)
    assert not (kept / "runs").exists()


@pytest.mark.slow
@needs_a_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_the_joined_page_is_whole_in_a_browser(kept, capsys, width):
    assert outcome(capsys, "report", "ag_news", "digits") == (0, "")
    page = kept / "runs/joined/report.html"
    seen = visit(page, width)
    assert seen.said == [] and seen.asked == [page.as_uri()] and not seen.wide and not seen.cut_off
    assert seen.titles and seen.figures == [] and seen.table
