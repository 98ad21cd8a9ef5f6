"""The records under results/: small ones that load without a loss, satisfy their published schemas and name what made
them, with a report made from them; what is older is named here, or in results/README.md.
"""

import gzip
import json
import re
import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from gatedrnn.study.report import report_of
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, ProbeResults, Trials, run_name
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.training.outcomes import OUTCOMES, read_outcomes
from gatedrnn.training.result import RunResult, read_record

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import keep_runs
import write_schemas

RESULTS = Path(__file__).parents[3] / "results"
RECORDS = {
    "results.json": ComparisonResults, "probes.json": ProbeResults, "result.json": RunResult,
    **{record.FILE: record for record in (Curves, Confusion, Trials)},
}  # fmt: skip
KEPT = [path for path in sorted(RESULTS.rglob("*")) if path.name in RECORDS]
STUDIES = sorted({path.parent for path in KEPT if path.name in ("results.json", "probes.json")})
RUNS = sorted({path.parents[1] for path in KEPT if path.name == "result.json"})
MAX_BYTES, MAX_PICTURES = 300_000, 2
BEFORE_COMMITS = "2026-11-26"
"""Records of days before name no commit."""
COMMITLESS = {"bench"}
"""Benchmarks of those days, when a ratio was that of two medians. What is measured again has a commit, and leaves."""
KERNELS, MARK = "2026-11-24", "kernels before 2781c3d"
"""Records of days before are of other kernels; those of LSTM layers are torch's, then and now."""
STEPS, TRAINED_BEFORE = "2026-11-28", "trained before 1357a83"
"""Runs of days before, which were not trained again, have other last digits."""
ROWS = {
    name: line
    for line in (RESULTS / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    for name in re.findall(r"`(.+?)`", line.split("|")[1])
}  # fmt: skip
"""The rows of the table of commands, by folder or file."""


def name_of(path):
    return path.relative_to(RESULTS).as_posix()


def measured(path):
    """Date and environment of a record; empty where it has neither."""
    record = json.loads(path.read_text())
    held = record if isinstance(record, dict) else {}
    return held if "environment" in held else held.get("measured", {})


MADE_HERE = {path: found for path in sorted(RESULTS.rglob("*.json")) if "environment" in (found := measured(path))}
BENCHMARKS = {name_of(path.parent): json.loads(path.read_text()) for path in MADE_HERE if path.name == "bench.json"}


def row_of(path):
    """The row of the table of commands for a path."""
    own = ROWS.get(name_of(path)) or ROWS.get(name_of(path.parent))
    first = name_of(path).split("/")[0]
    return own or next(row for name, row in ROWS.items() if "and so on" in row and name.startswith(f"{first}/"))


def of_earlier_kernels(path):
    run = path.with_name("result.json")
    by_torch = run.exists() and json.loads(run.read_text())["cell"] == "lstm"
    return not by_torch and MADE_HERE[path]["date"] < KERNELS and "commit" not in MADE_HERE[path]["environment"]


def same_but_for_defaults(held, read):
    """Whether all that is held was read; an earlier version's file lacks what has a default."""
    if isinstance(held, dict):
        return all(name in read and same_but_for_defaults(value, read[name]) for name, value in held.items())
    if isinstance(held, list):
        return len(held) == len(read) and all(map(same_but_for_defaults, held, read))
    return held == read


def test_kept_records_load_and_nothing_of_them_is_lost_and_studies_are_small():
    for path in KEPT:
        held = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        record = read_record(path, RECORDS[path.name])
        assert same_but_for_defaults(held, record.model_dump(mode="json")), name_of(path)
    for folder in {*STUDIES, *(path for path in RESULTS.iterdir() if path.is_dir())}:
        own = [path for path in folder.iterdir() if path.is_file()]
        assert sum(path.stat().st_size for path in own) <= MAX_BYTES, name_of(folder)
        assert sum(path.suffix in (".png", ".svg") for path in own) <= MAX_PICTURES, name_of(folder)


def test_kept_reports_and_tables_of_runs_are_made_from_the_kept_records(capsys):
    for folder in STUDIES:
        assert report_of(folder).markdown() == (folder / "report.md").read_text(), name_of(folder)
    for folder in RUNS:
        kept = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("|")]
        keep_runs.table([folder / line.split("`")[1] for line in kept[2:]])
        assert capsys.readouterr().out.splitlines() == kept, name_of(folder)


@pytest.mark.parametrize("part", range(3))
def test_kept_studies_have_figures(part):
    assert [name_of(folder) for folder in STUDIES[part::3] if not report_of(folder).draw()] == []


@pytest.mark.parametrize("part", range(2))
def test_kept_intervals_and_verdicts_follow_from_the_kept_outcomes(part):
    for path in sorted(RESULTS.rglob("results.json"))[part::2]:
        assert_scores_follow_from_outcomes(path, read_record(path, ComparisonResults))


def assert_scores_follow_from_outcomes(path, results):
    name, outcomes = name_of(path), read_outcomes(path.with_name(OUTCOMES))
    runs = {row.name: [run_name(row.name, run.seed) for run in row.runs] for row in results.contenders}
    runs |= {plain.name: [plain.name] for plain in results.baseline.plain}

    def table(split, names):
        own = {name: [outcomes[f"{run}/{split}"] for run in runs[name]] for name in names}
        return Table([
            Sample(np.array([one.values for one in found]), found[0].counts, results.metric.score,
                   fixed=runs[name] == [name])
            for name, found in own.items()
        ], [*own])  # fmt: skip

    for row in results.contenders:
        for run in row.runs:
            kept = run.scores["test"]
            score = kept.loss if results.metric.name == "perplexity" else getattr(kept, results.metric.name)
            found = outcomes[f"{run_name(row.name, run.seed)}/test"].rate
            assert found == pytest.approx(score, rel=1e-12), name
    for split in results.contenders[0].scores:
        estimates = table(split, [row.name for row in results.contenders]).estimates()
        assert_same(estimates, [row.scores[split] for row in results.contenders], name)
    table_of_all = table("test", list(runs))
    judged = table_of_all.pairs(results.margin)
    assert_same([pair.difference for pair in judged], [pair.difference for pair in results.pairs], name)
    told = ("verdict", "more_seeds", "more_examples")
    found, kept = ([[getattr(pair, of) for of in told] for pair in pairs] for pairs in (judged, results.pairs))
    assert found == kept, name
    best, rivals = table_of_all.rivals(results.margin)
    assert [results.ranked()[0].name, *results.rivals] == [best, *rivals], name


def assert_same(found, kept, name):
    """Estimates, but for roundings."""
    ours, theirs = (np.array([astuple(one) for one in each], float) for each in (found, kept))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=name)


def test_a_kept_record_names_what_made_it_a_ratio_lies_between_its_quartiles_and_what_is_older_says_so():
    assert len(MADE_HERE) > 40
    for path, found in MADE_HERE.items():
        here = found["environment"]
        assert here["processor"] and {"torch", "numba"} <= here["versions"].keys(), path
        if found["date"] >= BEFORE_COMMITS:
            assert re.fullmatch(r"[0-9a-f]{40}\+?", here["commit"]), path
    ratios = {folder: record["ratios"] for folder, record in BENCHMARKS.items()}
    outside = {name for name, rows in ratios.items() if any(not r["low"] <= r["ratio"] <= r["high"] for r in rows)}
    old = {folder for folder, record in BENCHMARKS.items() if "commit" not in record["measured"]["environment"]}
    assert outside <= old == COMMITLESS
    # Measured again, it names its commit, and loses the mark.
    assert [name_of(path) for path in MADE_HERE if (MARK in row_of(path)) != of_earlier_kernels(path)] == []
    trained = [path for path in MADE_HERE if path in KEPT or path.with_name("result.json") in KEPT]
    marked = {path for path in trained if TRAINED_BEFORE in row_of(path) or MARK in row_of(path)}
    assert marked == {path for path in trained if MADE_HERE[path]["date"] < STEPS}


def published(name):
    return (write_schemas.FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_a_published_schema_is_its_records_own_and_kept_files_satisfy_it():
    for name in write_schemas.RECORDS:
        assert published(name) == write_schemas.schema(name), "run tools/write_schemas.py"
    found = {path.name for path in write_schemas.FOLDER.iterdir()}
    assert found == {f"{name}.json" for name in write_schemas.RECORDS}
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the docs extra")
    kinds, faults, last = {}, [], {}
    for name in write_schemas.RECORDS:
        schema = json.loads(published(name))
        kinds[name] = jsonschema.validators.validator_for(schema)(schema)
        kinds[name].check_schema(schema)
    for path in (path for path in [*KEPT, *RESULTS.rglob("bench.json")] if path.suffix == ".json"):
        last[path.stem] = held = json.loads(path.read_text(encoding="utf-8"))
        faults += [f"{path}: {error.message}" for error in kinds[path.stem].iter_errors(held)]
    assert faults == []
    for name, held in last.items():
        del held["measured"]
        assert "'measured' is a required property" in [error.message for error in kinds[name].iter_errors(held)]
