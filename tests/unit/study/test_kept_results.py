"""What is kept under results/: records that load without a loss, small, with a report made from them."""

import gzip
import json
from pathlib import Path

import pytest

from gatedrnn.study.report import write_comparison, write_probes
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, DocumentLosses, ProbeResults
from gatedrnn.study.statistics import Sample, difference_of, score_of
from gatedrnn.train.result import RunResult, read_record

RESULTS = Path(__file__).parents[3] / "results"
RECORDS = {
    "results.json": ComparisonResults, "probes.json": ProbeResults, "result.json": RunResult,
    **{record.FILE: record for record in (Curves, Confusion, DocumentLosses)},
}  # fmt: skip
KEPT = [path for path in sorted(RESULTS.rglob("*")) if path.name in RECORDS]
STUDIES = sorted({path.parent for path in KEPT if path.name in ("results.json", "probes.json")})
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
        if path.name in RECORDS:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (write_comparison if (folder / "results.json").exists() else write_probes)(tmp_path)
    assert (tmp_path / "report.md").read_text() == (folder / "report.md").read_text()


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("results.json")), ids=name_of)
def test_kept_intervals_follow_from_the_kept_scores(path: Path) -> None:
    results = read_record(path, ComparisonResults)

    def sample(row, split):
        return Sample([run.score(split, results.metric.name) for run in row.runs], results.data.rows[split])

    by_name = {row.name: row for row in results.contenders}
    top = results.contenders[0]
    for row in results.contenders:
        for split, found in row.scores.items():
            assert score_of(sample(row, split)) == found
        for split, found in (row.difference_to_baseline or {}).items():
            assert difference_of(sample(row, split), sample(top, split)) == found
        if row.step_above is not None:
            above = sample(by_name[row.step_above.contender], "test")
            assert difference_of(sample(row, "test"), above) == row.step_above.difference


@pytest.mark.parametrize("folder", [*STUDIES, *(p for p in RESULTS.iterdir() if p.is_dir())], ids=name_of)
def test_a_kept_study_is_small(folder: Path) -> None:
    own = [path for path in folder.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in own) <= MOST_BYTES
    assert sum(path.suffix in (".png", ".svg") for path in own) <= MOST_PICTURES
