"""`gatedrnn probe`: verdicts from known curves, a suite from its command to its page, and that it goes on."""

import shutil

import pytest
from browser import needs_a_browser, visit
from commands import outcome, printed
from diverging import diverging

from gatedrnn.errors import FolderTaken, NonFiniteLoss
from gatedrnn.records import environment
from gatedrnn.study import probe_summary, probes
from gatedrnn.study.results import CellAnswers, Measured, ProbeResults, ProbesAsked, TaskAnswers
from gatedrnn.study.settings import ProbeSettings
from gatedrnn.tasks.probes.suite import PROBES
from gatedrnn.training.result import read_record
from gatedrnn.training.task import Recipe, task_named


@pytest.fixture(autouse=True, scope="module")
def short():
    """Recipes of two steps, and speeds measured in a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "SPEED_SECONDS", 0.01)
        for task in PROBES:
            parts = task_named(task).recipe.cells
            train = parts["train"] | {"epochs": 1, "total_steps": 2, "batch_size": 8}
            short = parts | {"train": train, "data": {"length": 24, "curriculum": 1}}
            patch.setattr(task_named(task), "recipe", Recipe(short))
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


@pytest.mark.parametrize("curves, verdict, shown", [
    ([(1, 1, 1)], "solves", "4,096 ("),
    ([(1, 0.951, 0.951)], "solves", "4,096 ("),
    ([(1, 0.949, 1)], "learns", "40 ("),
    ([(1, 1, 0.5)], "learns", "256 ("),
    ([(0.94, 1, 1)], "fails", "0."),
    ([(1, 1, 1), (1, 1, 1), (0.5, 0.5, 0.5)], "solves", "4,096 ("),
    ([(1, 1, 1), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)], "fails", "0."),
])  # fmt: skip
def test_a_verdict_is_the_median_seeds_unbroken_reach(curves, verdict, shown):
    one = answers(*curves)
    assert probe_summary.verdict(one, "mingru") == verdict
    (row,) = probe_summary.verdict_rows(suite(parity=one))
    assert row["task"] == "parity" and row["mingru"].startswith(shown)


def test_far_is_far_enough_failures_say_how_near_seeds_are_counted_and_accuracy_is_scaled_by_chance():
    lost_later, short = answers((1, 1, 0.5), lengths=(40, 4096, 65536)), answers((1, 1), lengths=(40, 80))
    assert probe_summary.verdict(lost_later, "mingru") == "solves"
    assert probe_summary.verdict(short, "mingru") == "solves", "all that was tested"
    near = answers((0.75, 1, 1), (0.9, 1, 1), (0.5, 0.5, 0.5))
    counted = answers((1, 1, 0.5), (1, 1, 1), (1, 0.5, 0.5))
    rows = probe_summary.verdict_rows(suite(parity=lost_later, s3=near, s5=counted))
    assert [row["mingru"] for row in rows] == ["4,096 (1/1)", "0.50", "256 (2/3)"]
    said = [probe_summary.sentences(suite(seeds, parity=answers(*[(1, 1, 1)] * seeds)))[-1] for seeds in (1, 2, 3)]
    assert ["too few to distinguish" in sentence for sentence in said] == [True, True, False]
    one = answers((1, 0.6, 0.2), (1, 1, 0.2), chance=0.2)
    (row,) = probe_summary.accuracy_rows(one)
    assert [row[n] for n in ("40", "256", "4,096")] == ["1.000 (1.000)", "0.750 (0.500)", "0.000 (0.000)"]
    assert probe_summary.tested(one).endswith("10 (1,000) at 40, 10 (1,000) at 256, 10 (1,000) at 4,096.")


ASKED = ProbeSettings(cells=("mingru",), tasks=("s3", "parity"), seeds=(0,), lengths=(48, 8))


@pytest.fixture(scope="module")
def diverged(tmp_path_factory):
    """A suite, a run of which diverged."""
    folder = tmp_path_factory.mktemp("probes")
    with diverging("s3/mingru/seed-0"), pytest.raises(NonFiniteLoss, match="s3/mingru/seed-0"):
        probes.probe(ASKED, folder)
    return folder


@pytest.fixture
def finished(diverged, tmp_path, capsys):
    """The diverged suite, continued by the command, and its output."""
    folder = shutil.copytree(diverged, tmp_path / "probes")
    flags = "mingru --tasks s3 parity --seeds 0 --lengths 48 8 --jobs 1 --output".split()
    return folder, printed(capsys, "probe", *flags, folder)


def test_a_run_that_diverges_leaves_the_other_tasks_their_reports_and_is_run_again(diverged, started, finished):
    assert (diverged / "parity" / "report.html").exists() and not (diverged / "s3" / "report.html").exists()
    assert started == ["mingru/seed-0"]
    found = read_record(finished[0] / "probes.json", ProbeResults)
    assert list(found.tasks) == ["s3", "parity"]
    for task in found.tasks.values():
        assert set(task.cells["mingru"].accuracy[0]) == {24, 48}, "lengths from the training length on"
        assert all(abs(own.core / task.core - 1) < 0.05 for own in task.cells.values())
    assert found.measured.wall_seconds is None, "the time of a part was given as the time of the whole"
    assert "s3 (trained at 24; a state that turns and mirrors" in " ".join(finished[1].split())


@pytest.mark.slow
@needs_a_browser
def test_the_page_draws_every_figure_and_names_sources_but_no_folder(finished):
    page = finished[0] / "report.html"
    seen = visit(page)
    assert not seen.said and len(seen.asked) == 1 and not seen.cut_off and not seen.wide and not visit(page, 400).wide
    assert seen.titles[0] == "Longest solved length" and all(seen.figures) and len(seen.figures) == 2
    assert "arXiv:2411.12537" in seen.text and str(page.parent) not in seen.text


def test_a_folder_that_is_refused_costs_no_other_task_its_results(tmp_path):
    kept, foreign = tmp_path / "parity" / "comparison.yaml", tmp_path / "s3" / "chapter.txt"
    for file in (kept, foreign):
        file.parent.mkdir()
        file.write_text("years of work")
    with pytest.raises(FolderTaken, match="s3: is not empty"):
        probes.probe(ASKED.model_copy(update={"tasks": ("parity", "s3")}), tmp_path, fresh=True)
    assert kept.read_text() == foreign.read_text() == "years of work"


@pytest.mark.parametrize("arguments, said", [
    ("mingrue", "there is no cell 'mingrue'; did you mean 'mingru'?"),
    ("--tasks paritty", "unknown probe 'paritty'. Did you mean 'parity'?"),
    ("--seeds 1 1", "must be given, each once"),
    ("--lengths 0", "greater than 0"),
    ("--jobs 0", "must be at least 1"),
    ("--tasks parity --lengths 8 24", "parity is trained at 24: name one of --lengths above it"),
])  # fmt: skip
def test_what_does_not_exist_is_named(arguments, said, capsys):
    code, error = outcome(capsys, "probe", *arguments.split())
    assert code == 2 and said in " ".join(error.split())
