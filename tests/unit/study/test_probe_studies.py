"""`gatedrnn probe`: verdicts from known curves, a suite from its command to its page, and that it goes on."""

import json
from pathlib import Path

import pytest
from browser import needs_a_browser, visit

from gatedrnn.cli.app import main
from gatedrnn.data.probes import PROBES
from gatedrnn.errors import FolderTaken, NonFiniteLoss
from gatedrnn.executors import here
from gatedrnn.records import environment
from gatedrnn.study import probe_summary, probes
from gatedrnn.study.results import CellAnswers, Measured, ProbeResults, ProbesAsked, TaskAnswers
from gatedrnn.study.settings import ProbeSettings
from gatedrnn.train.recipes import RECIPES


@pytest.fixture(autouse=True, scope="module")
def short(request):
    """Recipes of one epoch, and speeds measured in a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "SPEED_SECONDS", 0.05)
        for task in PROBES:
            recipe = RECIPES[task]
            small = {"train": recipe["train"] | {"epochs": 1, "batch_size": 8}, "data": {"length": 24, "curriculum": 1}}
            patch.setitem(RECIPES, task, recipe | small)
        yield


def answers(*curves, chance=0.5, lengths=(40, 256, 4096)):
    """A task with one cell, and one curve of accuracies a seed."""
    own = {seed: dict(zip(lengths, curve, strict=True)) for seed, curve in enumerate(curves)}
    cell = CellAnswers(hidden_size=8, core=100, accuracy=own, tokens_per_second=1.0)
    return TaskAnswers(
        chance=chance, trained_at=40, asks="this", source="that", core=100, cells={"mingru": cell},
        rows=dict.fromkeys(lengths, 10), labels=dict.fromkeys(lengths, 1000),
    )  # fmt: skip


def suite(seeds=1, **tasks):
    """A suite with these tasks and one cell."""
    asked = ProbesAsked(cells=["mingru"], tasks=list(tasks), seeds=list(range(seeds)), lengths=[], threads=1)
    measured = Measured(jobs=1, command="gatedrnn probe", **environment())
    return ProbeResults(settings=asked, tasks=tasks, measured=measured)


@pytest.mark.parametrize(
    "curves, verdict, reached",
    [
        ([(1, 1, 1)], "solves", 4096),
        ([(1, 0.951, 0.951)], "solves", 4096),
        ([(1, 0.949, 1)], "learns", 40),
        ([(1, 1, 0.5)], "learns", 256),
        ([(0.94, 1, 1)], "fails", 0),
        ([(1, 1, 1), (1, 1, 1), (0.5, 0.5, 0.5)], "solves", 4096),
        ([(1, 1, 1), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)], "fails", 0),
    ],
)
def test_a_verdict_is_the_median_seeds_unbroken_reach(curves, verdict, reached):
    one = answers(*curves)
    assert probe_summary.verdict(one, "mingru") == verdict
    (row,) = probe_summary.verdict_rows(suite(parity=one))
    assert row["task"] == "parity"
    assert row["mingru"].startswith(f"{reached:,} (" if reached else "0.")


def test_far_is_far_enough_and_what_fails_says_how_near_it_came():
    lost_later = answers((1, 1, 0.5), lengths=(40, 4096, 65536))
    assert probe_summary.verdict(lost_later, "mingru") == "solves"
    short = answers((1, 1), lengths=(40, 80))
    assert probe_summary.verdict(short, "mingru") == "solves", "all that was tested"
    rows = probe_summary.verdict_rows(suite(parity=lost_later, s3=answers((0.75, 1, 1), (0.9, 1, 1), (0.5, 0.5, 0.5))))
    assert [row["mingru"] for row in rows] == ["4,096 (1/1)", "0.50"]


def test_seeds_are_counted_that_reach_as_far_as_the_median():
    (row,) = probe_summary.verdict_rows(suite(s3=answers((1, 1, 0.5), (1, 1, 1), (1, 0.5, 0.5))))
    assert row["mingru"] == "256 (2/3)"


@pytest.mark.parametrize("seeds, few", [(1, True), (2, True), (3, False)])
def test_fewer_than_three_seeds_are_said_to_be_too_few(seeds, few):
    results = suite(seeds, parity=answers(*[(1, 1, 1)] * seeds))
    assert ("too few to distinguish" in probe_summary.sentences(results)[-1]) == few


def test_accuracy_is_scaled_by_chance_and_shown_with_the_worst_seed():
    one = answers((1, 0.6, 0.2), (1, 1, 0.2), chance=0.2)
    (row,) = probe_summary.accuracy_rows(one)
    assert [row[n] for n in ("40", "256", "4,096")] == ["1.000 (1.000)", "0.750 (0.500)", "0.000 (0.000)"]
    assert probe_summary.tested(one).endswith("10 (1,000) at 40, 10 (1,000) at 256, 10 (1,000) at 4,096.")


def outcome(*arguments):
    try:
        main(("probe", *(str(part) for part in arguments)))
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.slow
@needs_a_browser
def test_a_suite_runs_matched_goes_on_where_it_was_and_is_shown(tmp_path: Path, capsys) -> None:
    command = ("signed-mingru", "gru", "--tasks", "s3", "mqar", "--seeds", 3, "--lengths", 48, 24, 8,
               "--output", tmp_path)  # fmt: skip
    assert outcome(*command, "--jobs", 2) == 0
    kept = json.loads((tmp_path / "probes.json").read_text())
    for task in ("s3", "mqar"):
        cells = kept["tasks"][task]["cells"]
        assert set(cells["gru"]["accuracy"]["3"]) == {"24", "48"}, "lengths from the training length on"
        counts = [own["core"] for own in cells.values()]
        target = kept["tasks"][task]["core"]
        assert all(abs(count / target - 1) < 0.05 for count in counts)
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*/result.json")}
    assert len(finished) == 4
    assert kept["measured"]["wall_seconds"] > 0
    assert outcome(*command, "--jobs", 1) == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "nothing is run twice"
    again = json.loads((tmp_path / "probes.json").read_text())
    assert again["tasks"] == kept["tasks"]
    assert again["measured"]["wall_seconds"] is None, "the time of a part was given as the time of the whole"
    said = capsys.readouterr().out
    assert "s3 (trained at 24; a state that turns and mirrors" in " ".join(said.split())
    seen = visit(tmp_path / "report.html")
    assert not seen.said and len(seen.asked) == 1 and not seen.cut_off and not seen.wide
    assert not visit(tmp_path / "report.html", 400).wide
    assert seen.titles[0] == "Longest solved length" and all(seen.figures) and len(seen.figures) == 2
    assert "arXiv:2411.12537" in seen.text and str(tmp_path) not in seen.text


def test_a_run_that_diverges_leaves_the_other_tasks_their_reports(tmp_path, monkeypatch):
    original = here.run

    def diverging(settings, path, on_step=None):
        if path.as_posix().endswith("s3/mingru/seed-0"):
            raise NonFiniteLoss(f"{path}: the loss is nan at step 1")
        return original(settings, path, on_step)

    monkeypatch.setattr(here, "run", diverging)
    settings = ProbeSettings(cells=("mingru",), tasks=("s3", "parity"), seeds=(0,), lengths=(48,))
    with pytest.raises(NonFiniteLoss, match="s3/mingru/seed-0"):
        probes.probe(settings, tmp_path)
    assert (tmp_path / "parity" / "report.html").exists() and not (tmp_path / "s3" / "report.html").exists()


def test_a_folder_that_is_refused_costs_no_other_task_its_results(tmp_path):
    kept, foreign = tmp_path / "parity" / "comparison.yaml", tmp_path / "s3" / "chapter.txt"
    for file in (kept, foreign):
        file.parent.mkdir()
        file.write_text("years of work")
    settings = ProbeSettings(cells=("mingru",), tasks=("parity", "s3"), seeds=(0,), lengths=(48,))
    with pytest.raises(FolderTaken, match="s3: is not empty"):
        probes.probe(settings, tmp_path, fresh=True)
    assert kept.read_text() == foreign.read_text() == "years of work"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("mingrue",), "there is no cell 'mingrue'; did you mean 'mingru'?"),
        (("--tasks", "paritty"), "unknown probe 'paritty'. Did you mean 'parity'?"),
        (("--seeds", "1", "1"), "must be given, each once"),
        (("--lengths", "0"), "greater than 0"),
        (("--jobs", "0"), "must be at least 1"),
        (("--tasks", "parity", "--lengths", "8", "24"), "parity is trained at 24: name one of --lengths above it"),
    ],
)
def test_what_does_not_exist_is_named(arguments, said, capsys):
    assert outcome(*arguments) == 2
    assert said in " ".join(capsys.readouterr().err.split())
