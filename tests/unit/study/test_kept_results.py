"""What is kept under results/: records that load without a loss, small, with a report made from them."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gatedrnn.study.beside import Confusion, Curves, Trials
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults, ProbeResults, run_name
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.train.outcomes import OUTCOMES, read_outcomes
from gatedrnn.train.result import RunResult, read_record

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import keep_runs

RESULTS = Path(__file__).parents[3] / "results"
RECORDS = {
    "results.json": ComparisonResults, "probes.json": ProbeResults, "result.json": RunResult,
    **{record.FILE: record for record in (Curves, Confusion, Trials)},
}  # fmt: skip
KEPT = [path for path in sorted(RESULTS.rglob("*")) if path.name in RECORDS]
STUDIES = sorted({path.parent for path in KEPT if path.name in ("results.json", "probes.json")})
RUNS = sorted({path.parents[1] for path in KEPT if path.name == "result.json"})
MOST_BYTES, MOST_PICTURES = 300_000, 2


def name_of(path: Path) -> str:
    return path.relative_to(RESULTS).as_posix()


@pytest.mark.parametrize("path", KEPT, ids=name_of)
def test_a_kept_record_loads_and_nothing_of_it_is_lost(path: Path) -> None:
    held = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    record = read_record(path, RECORDS[path.name])
    assert record.model_dump(mode="json", exclude_unset=True) == held


@pytest.mark.parametrize("folder", STUDIES, ids=name_of)
def test_a_kept_report_is_made_from_the_kept_records(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        if path.name in RECORDS or path.name == OUTCOMES:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    write_report(tmp_path)
    assert (tmp_path / "report.md").read_text() == (folder / "report.md").read_text()


@pytest.mark.parametrize("folder", RUNS, ids=name_of)
def test_a_kept_table_of_runs_is_made_from_the_kept_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("|")]
    names = [line.split("`")[1] for line in kept[2:]]
    keep_runs.table([folder / name for name in names])
    assert capsys.readouterr().out.splitlines() == kept


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("results.json")), ids=name_of)
def test_kept_intervals_and_verdicts_follow_from_the_kept_outcomes(path: Path) -> None:
    results, outcomes = read_record(path, ComparisonResults), read_outcomes(path.with_name("outcomes.npz"))
    runs = {row.name: [run_name(row.name, run.seed) for run in row.runs] for row in results.contenders}
    runs |= {plain.name: [plain.name] for plain in results.baseline.plain}

    def table(split: str, names: list[str]) -> Table:
        own = {name: [outcomes[f"{run}/{split}"] for run in runs[name]] for name in names}
        return Table([
            Sample(np.array([one.values for one in found]), found[0].counts, results.metric.score,
                   fixed=runs[name] == [name])
            for name, found in own.items()
        ])  # fmt: skip

    for row in results.contenders:
        for run in row.runs:
            found = outcomes[f"{run_name(row.name, run.seed)}/test"].rate
            kept = run.scores["test"]
            score = kept.loss if results.metric.name == "perplexity" else getattr(kept, results.metric.name)
            assert found == pytest.approx(score, rel=1e-12)
    for split in results.contenders[0].scores:
        estimates = table(split, [row.name for row in results.contenders]).estimates()
        assert estimates == [row.scores[split] for row in results.contenders]
    judged = table("test", list(runs)).pairs(results.margin)
    assert [(pair.difference, pair.verdict) for pair in judged] == [
        (pair.difference, pair.verdict) for pair in results.pairs
    ]


@pytest.mark.parametrize("folder", [*STUDIES, *(p for p in RESULTS.iterdir() if p.is_dir())], ids=name_of)
def test_a_kept_study_is_small(folder: Path) -> None:
    own = [path for path in folder.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in own) <= MOST_BYTES
    assert sum(path.suffix in (".png", ".svg") for path in own) <= MOST_PICTURES
