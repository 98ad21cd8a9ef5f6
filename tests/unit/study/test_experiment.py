"""A comparison end to end on small tasks: the same scores again, nothing lost, nothing run twice."""

import json
import os
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from diverging import diverging
from finished_comparison import FinishedComparison, small_comparison

from gatedrnn import manifest
from gatedrnn.data import data_settings
from gatedrnn.errors import Damaged, FolderTaken, NonFiniteLoss
from gatedrnn.study.experiment import Comparison, compare
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.tables import score_rows
from gatedrnn.study.verdict import headline, verdict
from gatedrnn.study.words import difference_in_words
from gatedrnn.train.outcomes import read_outcomes
from gatedrnn.train.result import read_record


def unmeasured(results: ComparisonResults) -> str:
    return results.model_dump_json(exclude={"measured"})


def changed(settings: CompareSettings, **contenders: Any) -> CompareSettings:
    """The same comparison of other contenders."""
    return settings.model_copy(update={"contenders": settings.contenders.model_copy(update=contenders)})


@pytest.fixture(scope="module")
def shortest(reviews, speed_in_a_moment, tmp_path_factory):
    """Of one run, with every file that a comparison has."""
    folder, settings = tmp_path_factory.mktemp("short") / "c", small_comparison(reviews, cells=["mingru"], seeds=[0])
    results = compare(settings, folder)
    write_report(folder)
    return FinishedComparison(settings, folder, results)


@pytest.fixture(scope="module")
def diverged(comparison, tmp_path_factory):
    """The comparison without two of its runs, one of which diverged when it went on."""
    folder = comparison.copy(tmp_path_factory.mktemp("diverged") / "comparison")
    for lost in ("lstm", "mingru-layers"):
        shutil.rmtree(folder / lost / "seed-0")
    (folder / "results.json").unlink()
    with diverging("lstm/seed-0"), pytest.raises(NonFiniteLoss, match="lstm/seed-0"):
        compare(comparison.settings, folder)
    return folder


def test_a_run_that_diverges_keeps_no_other_from_its_end(diverged):
    names = ("lstm", "mingru-layers", "mingru-params")
    finished = {path.parent.relative_to(diverged).as_posix() for path in diverged.rglob("result.json")}
    assert finished == {f"{name}/seed-{seed}" for name in names for seed in (0, 1)} - {"lstm/seed-0"}
    assert not (diverged / "results.json").exists()


def test_a_comparison_that_goes_on_ends_the_same_but_for_what_is_measured(comparison, diverged, started, tmp_path):
    folder = shutil.copytree(diverged, tmp_path / "comparison")
    results = compare(comparison.settings, folder, command="gatedrnn compare --output elsewhere")
    assert started == ["lstm/seed-0"], "a finished run was run again"
    assert unmeasured(results) == unmeasured(comparison.results)
    assert read_record(folder / "results.json", ComparisonResults) == results
    seconds = [one.measured.wall_seconds for one in (comparison.results, results)]
    assert seconds[0] > 0 and seconds[1] is None, "the time of a part was given as the time of the whole"


def test_a_comparison_with_another_configuration_is_refused_and_kept(shortest):
    with pytest.raises(FolderTaken, match=r"contenders\.hidden_size: 16 there, 24 here.*--fresh"):
        compare(changed(shortest.settings, hidden_size=24), shortest.folder)


def test_a_comparison_begun_before_a_setting_and_before_manifests_is_resumed(shortest, tmp_path):
    folder = shortest.copy(tmp_path / "old")
    config = folder / "comparison.yaml"
    whole = config.read_text().split("\n", 1)[1]
    for setting, other in (("longest_time_scale: null", "longest_time_scale: 9.0"), ("beta2: 0.999", "beta2: 0.9")):
        (folder / "manifest.json").unlink()
        assert f"  {setting}\n" in whole
        config.write_text(whole.replace(f"  {setting}\n", ""))
        assert unmeasured(compare(shortest.settings, folder)) == unmeasured(shortest.results)
        config.write_text(whole.replace(setting, other))
        with pytest.raises(FolderTaken, match=other.replace(": ", ": .*")):
            compare(shortest.settings, folder)
    for nonsense in ("hours: of training", "a word", "- 1"):
        config.write_text(nonsense)
        with pytest.raises(FolderTaken, match="another configuration"):
            compare(shortest.settings, folder)


def test_starting_over_removes_a_comparison_and_nothing_else(shortest, tmp_path):
    precious, old = tmp_path / "thesis" / "chapter.txt", tmp_path / "comparison"
    for file in (precious, old / "comparison.yaml", old / "lstm" / "seed-7" / "result.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    for fresh in (False, True):
        with pytest.raises(FolderTaken, match="holds no comparison"):
            compare(shortest.settings, precious.parent, fresh=fresh)
    with pytest.raises(FolderTaken, match="--fresh"):
        compare(shortest.settings, old)
    assert unmeasured(compare(shortest.settings, old, fresh=True)) == unmeasured(shortest.results)
    assert precious.exists() and not (old / "lstm").exists()


def test_a_folder_that_was_claimed_and_no_more_is_taken_by_another_comparison(shortest, tmp_path):
    Comparison(shortest.settings, tmp_path).claim(fresh=False)
    Comparison(changed(shortest.settings, hidden_size=4), tmp_path).claim(fresh=False)
    assert "hidden_size: 4" in (tmp_path / "comparison.yaml").read_text()


def test_a_record_holds_what_a_fair_comparison_must_state(comparison):
    results = comparison.results
    assert [row.name for row in results.contenders] == ["lstm", "mingru-layers", "mingru-params"]
    for row in results.contenders:
        assert {"embedding", "core", "block", "head", "total"} <= row.parameters.model_dump().keys()
        assert [run.seed for run in row.runs] == [0, 1]
        for run in row.runs:
            assert 0 <= run.scores["test"].accuracy <= 1 and run.steps == results.contenders[0].runs[0].steps
        assert row.scores["test"].mean == pytest.approx(sum(run.scores["test"].accuracy for run in row.runs) / 2)
    assert results.measured.runs["mingru-params/seed-1"].training_seconds > 0
    assert results.measured.environment["versions"]["torch"]
    classes = {cell: kind.name for cell, kind in results.classes.items()}
    assert classes == {"lstm": "state-dependent", "mingru": "positive"}
    held = json.loads((comparison.folder / "results.json").read_text())
    assert held["schema"] == ComparisonResults.VERSION
    first = held["contenders"][0]["runs"][0]
    assert first["test_accuracy"] == results.contenders[0].runs[0].scores["test"].accuracy
    assert not {"curve", "confusion", "scores"} & first.keys()


def test_results_and_reports_name_no_folder_and_no_host(comparison):
    for name in ("results.json", "report.md", "report.html"):
        text = (comparison.folder / name).read_text(encoding="utf-8")
        assert str(comparison.folder.parent) not in text, name
        if name != "report.html":  # plotly's own code may hold any short word
            assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text), name
        assert "정말" not in text, f"{name} holds text of the data"
        assert "reviews.csv" in text


def test_a_task_has_plain_baselines_in_the_same_table(comparison):
    results = comparison.results
    (linear,) = results.baseline.plain
    assert linear.scores["test"].mean == 1.0 and linear.scores["test"].low < 1
    assert score_rows(results)[-1]["contender"] == linear.name
    for row in results.contenders:
        difference = results.pair(row.name, linear.name).difference
        assert difference.mean == pytest.approx(row.scores["test"].mean - 1.0)
    assert any(linear.name in sentence for sentence in headline(results))
    outcomes = read_outcomes(comparison.folder / "outcomes.npz")
    assert outcomes[f"{linear.name}/test"].values.all() and len(outcomes[f"{linear.name}/test"].counts) > 1


def test_a_speed_is_measured_once_and_shown_and_another_margin_judges_finished_runs_anew(
    comparison, tmp_path, monkeypatch
):
    first = comparison.results
    shown = {row["contender"]: row["tokens/s"] for row in score_rows(first)}
    for name, one in first.measured.speed.items():
        assert shown[name] == f"{one.median:,.0f}"
    monkeypatch.setattr("gatedrnn.study.experiment.training_speed", lambda *_: pytest.fail("measured again"))
    wide = compare(comparison.settings, comparison.copy(tmp_path / "comparison"), margin=1.0)
    assert (first.margin, wide.margin) == (0.005, 1.0) and wide.pairs[0].verdict == "equivalent"
    assert (wide.measured.runs, wide.measured.speed) == (first.measured.runs, first.measured.speed)


def test_a_run_from_before_outcomes_were_kept_is_evaluated_again(shortest, tmp_path, caplog):
    caplog.set_level("INFO")
    folder = shortest.copy(tmp_path / "c")
    run = folder / "mingru" / "seed-0"
    (run / "outcomes.npz").unlink()
    manifest.write(run, {name: entry for name, entry in manifest.read(run).items() if name != "outcomes.npz"})
    again = compare(shortest.settings, folder)
    assert "evaluated again" in caplog.text and (run / "outcomes.npz").exists()
    assert unmeasured(again) == unmeasured(shortest.results)


@pytest.fixture(scope="module")
def parity(speed_in_a_moment, tmp_path_factory):
    """With training time matched."""
    folder = tmp_path_factory.mktemp("parity") / "comparison"
    data = data_settings(task="parity", length=5)
    settings = small_comparison(data, train={"total_steps": 20}, match=["params", "time"], seeds=[0])
    return FinishedComparison(settings, folder, compare(settings, folder))


def test_equal_time_is_as_many_steps_as_speed_allows_and_kept(parity):
    speed = {name: own.median for name, own in parity.results.measured.speed.items()}
    steps = {row.name: row.runs[0].steps for row in parity.results.contenders}
    assert steps["lstm"] == steps["mingru-params"] == 20
    assert steps["mingru-time"] == pytest.approx(20 * speed["mingru-time"] / speed["lstm"], abs=1)
    assert json.loads((parity.folder / "steps.json").read_text()) == steps
    assert unmeasured(compare(parity.settings, parity.folder)) == unmeasured(parity.results)


def test_parity_says_why_the_minimal_cells_fail(parity):
    assert any("multiplied by a value between 0 and 1" in sentence for sentence in headline(parity.results))
    assert set(parity.results.contenders[0].scores) == {"validation", "test", "test_20"}


def test_what_nothing_that_is_counted_would_decide_is_said(comparison):
    """All other words of verdicts are those of the kept reports."""
    unsure = {"verdict": "cannot tell", "more_seeds": None, "more_examples": None}
    pairs = [pair.model_copy(update=unsure) for pair in comparison.results.pairs]
    said = " ".join(verdict(comparison.results.model_copy(update={"pairs": pairs})))
    assert "would take more than 100 more seeds, and more than 1,000 times as many test examples" in said


def test_a_difference_of_zero_has_no_sign(comparison):
    found = difference_in_words(Estimate(-0.00001, -0.01, 0.0, 3), comparison.results)
    assert found == "0.0000 [-0.0100, 0.0000]"


@pytest.mark.slow
def test_memory_is_measured_for_every_contender(shortest, tmp_path):
    """In a process of its own, which takes seconds to begin."""
    results = compare(shortest.settings, shortest.copy(tmp_path / "c"), memory=True)
    peaks = results.measured.memory_mib
    assert list(peaks) == ["mingru"]
    assert peaks["mingru"] is None or 0 < peaks["mingru"] < 2000


def flipped(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "truncated": lambda content: content[: len(content) // 2], "emptied": lambda _: b"", "flipped": flipped,
    "deleted": None,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # numpy leaves a truncated archive open
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=() if name == "flipped" else pytest.mark.slow) for name in DAMAGES]
)
def test_no_damage_to_a_comparison_is_silent(damage, third, shortest, tmp_path, caplog):
    assert {path.name for path in shortest.folder.iterdir()} >= {
        "comparison.yaml", "manifest.json", "plain.json", "plain.npz", "outcomes.npz", "speed.json", "results.json",
        "curves.json.gz", "report.html",
    }  # fmt: skip
    damaged, files = tmp_path / "c", sorted(path for path in shortest.folder.rglob("*") if path.is_file())
    for file in (path.relative_to(shortest.folder) for path in files[third::3]):
        if file.name == "README.md":  # of a model, and there to be edited
            continue
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(shortest.folder, damaged)
        if (damage_of := DAMAGES[damage]) is None:
            (damaged / file).unlink()
        else:
            (damaged / file).write_bytes(damage_of((damaged / file).read_bytes()))
        caplog.clear()
        try:
            again = compare(shortest.settings, damaged)
        except (FolderTaken, Damaged) as error:
            said = str(error)
            # Without its settings the folder is nobody's.
            assert file.name in said or (damage == "deleted" and "holds no" in said), f"{file}: {said}"
        else:
            assert file.name in caplog.text, f"{file} {damage} was passed over"
            assert unmeasured(again) == unmeasured(shortest.results), file
