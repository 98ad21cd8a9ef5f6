"""Keep a study of `gatedrnn compare` or `probe`, or a run of `python -m benchmarks`: its records, report.md and at most
two figures.

    python tools/keep_study.py STUDY KEPT [FIGURE [FIGURE]]

A figure is named by its title in report.html, as in "Learning curves"; a real browser draws it into a PNG file.

    python tools/keep_study.py again KEPT ...

makes scores, pairs and report.md of kept comparisons anew from their outcomes, and their figures: after the statistics
or the report have changed.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from gatedrnn.records import write_whole
from gatedrnn.study.assembly import statistics_of, still_improving
from gatedrnn.study.report import PAGE, TEXT, report_of
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, ProbeResults, Trials, run_name
from gatedrnn.training.outcomes import OUTCOMES, Outcomes, read_outcomes
from gatedrnn.training.result import read_record

RECORDS = (ComparisonResults, Curves, Confusion, Trials, ProbeResults)
FILES = (*(record.FILE for record in RECORDS), "bench.json", "report.md", "outcomes.npz")
FIGURES, WIDTH, _HEIGHT = 2, 1000, 900


def keep(study: Path, kept: Path, titles: list[str]) -> None:
    """Copy the records and draw the figures."""
    if len(titles) > FIGURES:
        raise SystemExit(f"at most {FIGURES} figures are kept, got {len(titles)}")
    kept.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (study / name).exists():
            shutil.copyfile(study / name, kept / name)
    draw(study / "report.html", kept, titles)


def again(kept: Path) -> None:
    """Everything that follows from what runs answered."""
    held = json.loads((kept / ComparisonResults.FILE).read_text(encoding="utf-8"))
    results = ComparisonResults.model_validate({"rivals": [], **held, "schema": ComparisonResults.VERSION})
    outcomes: dict[str, dict[str, Outcomes]] = {}
    for name, outcome in read_outcomes(kept / OUTCOMES).items():
        run, _, split = name.rpartition("/")
        outcomes.setdefault(run, {})[split] = outcome
    runs = {row.name: [run_name(row.name, run.seed) for run in row.runs] for row in results.contenders}
    plain = [outcome.name for outcome in results.baseline.plain]
    judged = statistics_of(runs, plain, outcomes, results.metric, results.margin)
    curves = read_record(kept / Curves.FILE, Curves)
    rows = [
        row.model_copy(update={
            "scores": row.scores | judged.scores[row.name],
            "still_improving": still_improving(runs[row.name], curves, results.metric, results.margin),
        })
        for row in results.contenders
    ]  # fmt: skip
    fixed = [
        outcome.model_copy(update={"scores": outcome.scores | judged.scores[outcome.name]})
        for outcome in results.baseline.plain
    ]
    baseline = results.baseline.model_copy(update={"plain": fixed})
    update = {"contenders": rows, "baseline": baseline, "pairs": judged.pairs, "rivals": judged.rivals}
    results.model_copy(update=update).write(kept / ComparisonResults.FILE)
    report, there = report_of(kept), {path.name for path in kept.glob("*.png")}
    write_whole(kept / TEXT, report.markdown())
    with TemporaryDirectory() as folder:
        page = Path(folder) / PAGE
        report.write_page(page)
        draw(page, kept, [title for title in report.draw() if picture(title) in there])


def picture(title: str) -> str:
    """The file of a figure."""
    return f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.png"


def draw(page: Path, kept: Path, titles: list[str]) -> None:
    """Draw figures of a page, as a browser shows them."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": _HEIGHT})
        tab.goto(page.resolve().as_uri())
        for title in titles:
            section = tab.locator("section", has=tab.get_by_role("heading", name=title, exact=True))
            section.locator(".main-svg").first.wait_for()
            section.screenshot(path=kept / picture(title))
        browser.close()


if __name__ == "__main__":
    first, *others = sys.argv[1:]
    if first == "again":
        for folder in others:
            again(Path(folder))
    else:
        keep(Path(first), Path(others[0]), others[1:])
