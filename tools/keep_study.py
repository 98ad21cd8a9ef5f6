"""Keep a study of `gatedrnn compare`, `probe` or `bench`: its records, report.md and at most two figures.

    python tools/keep_study.py STUDY KEPT [FIGURE [FIGURE]]

A figure is named by its title in report.html, as in "Learning curves"; a real browser draws it into a PNG file.
"""

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from gatedrnn.study.beside import Confusion, Curves, Trials
from gatedrnn.study.results import ComparisonResults, ProbeResults

RECORDS = (ComparisonResults, Curves, Confusion, Trials, ProbeResults)
FILES = (*(record.FILE for record in RECORDS), "bench.json", "report.md", "outcomes.npz")
FIGURES, WIDTH, HEIGHT = 2, 1000, 900


def keep(study: Path, kept: Path, titles: list[str]) -> None:
    """Copy the records and draw the figures."""
    if len(titles) > FIGURES:
        raise SystemExit(f"at most {FIGURES} figures are kept, got {len(titles)}")
    kept.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (study / name).exists():
            shutil.copyfile(study / name, kept / name)
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto((study / "report.html").resolve().as_uri())
        for title in titles:
            section = tab.locator("section", has=tab.get_by_role("heading", name=title, exact=True))
            section.locator(".main-svg").first.wait_for()
            section.screenshot(path=kept / f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.png")
        browser.close()


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
