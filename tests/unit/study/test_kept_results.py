"""What is kept under results/: records that load without a loss, small, with a report made from them."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gatedrnn.study.beside import Confusion, Curves, Trials
from gatedrnn.study.report import report_of
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


def test_kept_records_load_and_nothing_of_them_is_lost():
    for path in KEPT:
        held = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        record = read_record(path, RECORDS[path.name])
        assert record.model_dump(mode="json", exclude_unset=True) == held, name_of(path)


def test_kept_reports_are_made_from_the_kept_records():
    for folder in STUDIES:
        assert report_of(folder).markdown() == (folder / "report.md").read_text(), name_of(folder)


@pytest.mark.parametrize("part", range(3))
def test_kept_studies_have_figures(part):
    assert [name_of(folder) for folder in STUDIES[part::3] if not report_of(folder).draw()] == []


def test_kept_tables_of_runs_are_made_from_the_kept_records(capsys):
    for folder in RUNS:
        kept = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("|")]
        names = [line.split("`")[1] for line in kept[2:]]
        keep_runs.table([folder / name for name in names])
        assert capsys.readouterr().out.splitlines() == kept, name_of(folder)


def test_kept_intervals_and_verdicts_follow_from_the_kept_outcomes():
    for path in sorted(RESULTS.rglob("results.json")):
        assert_scores_follow_from_outcomes(path)


def assert_scores_follow_from_outcomes(path: Path) -> None:
    name, results, outcomes = (
        name_of(path),
        read_record(path, ComparisonResults),
        read_outcomes(path.with_name(OUTCOMES)),
    )
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
            assert found == pytest.approx(score, rel=1e-12), name
    for split in results.contenders[0].scores:
        estimates = table(split, [row.name for row in results.contenders]).estimates()
        assert estimates == [row.scores[split] for row in results.contenders], name
    judged = [(pair.difference, pair.verdict) for pair in table("test", list(runs)).pairs(results.margin)]
    assert judged == [(pair.difference, pair.verdict) for pair in results.pairs], name


def test_kept_studies_are_small():
    for folder in {*STUDIES, *(path for path in RESULTS.iterdir() if path.is_dir())}:
        own = [path for path in folder.iterdir() if path.is_file()]
        assert sum(path.stat().st_size for path in own) <= MOST_BYTES, name_of(folder)
        assert sum(path.suffix in (".png", ".svg") for path in own) <= MOST_PICTURES, name_of(folder)
