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
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ag_news", "digits"):
        shutil.copytree(RESULTS / name, tmp_path / name)
    return tmp_path


def test_csv_has_a_line_for_each_contender_and_split(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.DictReader(io.StringIO(printed(capsys, "report", "digits", "ag_news", "--format", "csv"))))
    assert len(lines) == 2 * (9 + 8)
    tested = {(one["task"], one["contender"]): one for one in lines if one["split"] == "test"}
    line, plain = tested["digits", "gru-layers"], tested["digits", "logistic regression"]
    assert float(line["low"]) < float(line["mean"]) < float(line["high"]) and line["seeds"] == "5"
    assert line["verdict"] == "cannot tell" and float(line["difference"]) > 0
    assert (plain["match"], plain["core_parameters"], plain["cell"]) == ("plain", "", "")


def test_latex_is_a_table_with_all_its_columns_and_nothing_unescaped(kept: Path, capsys) -> None:
    for folders, columns in (["digits"], 5), (["digits", "ag_news"], 4):
        text = printed(capsys, "report", *folders, "--format", "latex")
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 8 and all(row.count("&") == columns - 1 for row in rows)
        assert "_" not in text.replace(r"\_", "") and "–" not in text and "%" not in text.replace(r"\%", "")
        assert text.startswith(r"\begin{tabular}{l" + "r" * (columns - 1) + "}")


def test_a_file_is_written_where_one_is_named(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, "report", "digits", "--format", "md", "--output", "out/table.md") == (0, "")
    assert (kept / "out/table.md").read_text() == (kept / "digits/report.md").read_text()
    assert outcome(capsys, "report", "digits", "--output", "out/page.html") == (0, "")
    assert (kept / "out/page.html").read_text().startswith("<!doctype html>")
    assert not (kept / "digits/report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("report nowhere", 1, "nowhere: no comparison"),
        ("report digits digits", 2, "digits and digits: the same data of digits twice"),
        ("report digits half", 1, "half/results.json: is damaged"),
        ("report probe digits", 2, "probe: holds probes; they are reported alone"),
        ("report digits --output digits", 2, "--output digits: is a folder; name a file in it"),
        ("report digits --output page", 2, "--output page: must end in .html or .htm for --format html"),
        ("report digits --format csv --output a.html", 2, "must end in .csv for --format csv"),
    ],
)
def test_what_cannot_be_reported_gets_one_line(
    arguments: str, code: int, said: str, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "half").mkdir()
    whole = (kept / "digits/results.json").read_text()
    (kept / "half/results.json").write_text(whole[: len(whole) // 2])
    shutil.copytree(RESULTS / "probes" / "s5", kept / "probe")
    found, error = outcome(capsys, *arguments.split())
    assert (found, error.count("\n")) == (code, 1) and said in error
    assert not (kept / "runs").exists()


def test_a_record_of_an_earlier_version_is_refused_in_a_sentence(kept: Path, capsys) -> None:
    path = kept / "digits/results.json"
    path.write_text(path.read_text().replace('"schema": 5', '"schema": 4').replace('"margin"', '"other"'))
    code, error = outcome(capsys, "report", "digits")
    assert code == 1 and error.count("\n") == 1 and len(error) < 200
    assert "was written by another version of gatedrnn (schema 4, here 5)" in error


@pytest.mark.slow
@needs_a_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_the_joined_page_draws_its_figure(kept: Path, capsys: pytest.CaptureFixture[str], width: int) -> None:
    assert outcome(capsys, "report", "ag_news", "digits") == (0, "")
    page = kept / "runs/joined/report.html"
    seen = visit(page, width)
    assert seen.said == [] and seen.asked == [page.as_uri()]
    assert len(seen.figures) == 1 and all(seen.figures)
    assert not seen.wide and not seen.cut_off
