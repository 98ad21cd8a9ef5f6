"""The figures of a report, of `gatedrnn compare`, `probe` or `bench`, as PNG files, drawn by a real browser.

    python tools/keep_figures.py RUNS_FOLDER RESULTS_FOLDER

Copies the numbers too (results.json or probes.json and report.md, or bench.json), so that the second folder holds all
that is kept.
"""

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NUMBERS = (("results.json", "report.md"), ("probes.json", "report.md"), ("bench.json",))
"""What a run of each command leaves beside its report."""


def main(run: Path, kept: Path) -> None:
    """Keep what a reader of the repository needs."""
    kept.mkdir(parents=True, exist_ok=True)
    for name in next((names for names in NUMBERS if (run / names[0]).exists()), NUMBERS[0]):
        shutil.copyfile(run / name, kept / name)
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto((run / "report.html").resolve().as_uri())
        tab.wait_for_selector(".js-plotly-plot .main-svg")
        for section in tab.locator("section:has(.js-plotly-plot)").all():
            title = section.locator("h2").inner_text()
            section.screenshot(path=kept / f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
