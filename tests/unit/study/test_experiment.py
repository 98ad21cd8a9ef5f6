"""A comparison end to end on small tasks: the same scores again, nothing lost, nothing run twice."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from train_helpers import digits_run

from gatedrnn import manifest
from gatedrnn.data import DataSettings, data_settings
from gatedrnn.errors import Damaged, FolderTaken, NonFiniteLoss
from gatedrnn.executors import executor_for, here
from gatedrnn.study.experiment import Comparison, compare
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults, PairResults, Speed
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.tables import score_rows, structure_rows
from gatedrnn.study.verdict import headline, verdict
from gatedrnn.study.words import difference_in_words
from gatedrnn.train.outcomes import read_outcomes
from gatedrnn.train.result import RunResult, read_record


def small(**changes: Any) -> CompareSettings:
    run = digits_run()
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=16, seeds=[0, 1])
    settings = CompareSettings(contenders=contenders, threads=1, data=run.data, model=run.model, train=run.train)
    return settings.model_copy(update=changes)


def text_files(folder: Path) -> DataSettings:
    """A text task that words decide: two classes, unequal lengths, a comma and Korean in them."""
    rows = [(f"good film number {i}, 정말 좋다" + " really" * (i % 5), "pos") for i in range(60)]
    rows += [(f"bad film number {i}, 정말 나쁘다" + " truly" * (i % 7), "neg") for i in range(60)]
    file = folder / "reviews.csv"
    file.write_text("review,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows), encoding="utf-8")
    return data_settings(task="text-classification", train_file=file, min_count=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ComparisonResults]:
    folder = tmp_path_factory.mktemp("finished") / "comparison"
    return folder, compare(small(), folder, command="gatedrnn compare")


def unmeasured(results: ComparisonResults) -> str:
    return results.model_dump_json(exclude={"measured"})


@pytest.mark.slow
def test_the_same_comparison_gives_the_same_results_but_for_what_is_measured(
    finished: tuple[Path, ComparisonResults], tmp_path: Path
) -> None:
    again = compare(small(), tmp_path / "again", command="gatedrnn compare --output elsewhere")
    assert unmeasured(again) == unmeasured(finished[1])
    on_disk = read_record(tmp_path / "again" / "results.json", ComparisonResults)
    assert on_disk == again


@pytest.mark.slow
def test_several_processes_give_the_scores_of_one(finished: tuple[Path, ComparisonResults], tmp_path: Path) -> None:
    with executor_for(jobs=2) as pair:
        assert unmeasured(compare(small(), tmp_path / "parallel", executor=pair)) == unmeasured(finished[1])


def test_a_half_finished_comparison_goes_on_and_finished_runs_are_not_run_again(
    finished: tuple[Path, ComparisonResults], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "half"
    shutil.copytree(finished[0], folder)
    shutil.rmtree(folder / "mingru-params" / "seed-1")
    (folder / "results.json").unlink()
    started = []
    original = here.run

    def counted(settings: Any, path: Path, on_step: Any = None) -> RunResult:
        if not (path / "result.json").exists():
            started.append(path.relative_to(folder).as_posix())
        return original(settings, path, on_step)

    monkeypatch.setattr(here, "run", counted)
    assert unmeasured(compare(small(), folder)) == unmeasured(finished[1])
    assert started == ["mingru-params/seed-1"]
    kept = [read_record(path / "results.json", ComparisonResults) for path in (finished[0], folder)]
    seconds = [results.measured.wall_seconds for results in kept]
    assert seconds[0] > 0 and seconds[1] is None, "the time of a part was given as the time of the whole"


def test_a_comparison_with_another_configuration_is_refused_and_kept(finished: tuple[Path, ComparisonResults]) -> None:
    folder, results = finished
    changed = small(contenders=ContenderSettings(cells=["lstm", "mingru"], hidden_size=24, seeds=[0, 1]))
    with pytest.raises(FolderTaken, match=r"contenders\.hidden_size: 16 there, 24 here.*--fresh"):
        compare(changed, folder)
    assert read_record(folder / "results.json", ComparisonResults) == results


def test_a_comparison_begun_before_a_setting_and_before_manifests_is_resumed(
    finished: tuple[Path, ComparisonResults], tmp_path: Path
) -> None:
    folder, results = tmp_path / "old", finished[1]
    shutil.copytree(finished[0], folder)
    config = folder / "comparison.yaml"
    whole = config.read_text().split("\n", 1)[1]
    for setting, other in (("longest_time_scale: null", "longest_time_scale: 9.0"), ("beta2: 0.999", "beta2: 0.9")):
        (folder / "manifest.json").unlink()
        assert f"  {setting}\n" in whole
        config.write_text(whole.replace(f"  {setting}\n", ""))
        assert unmeasured(compare(small(), folder)) == unmeasured(results)
        config.write_text(whole.replace(setting, other))
        with pytest.raises(FolderTaken, match=other.replace(": ", ": .*")):
            compare(small(), folder)
    for nonsense in ("hours: of training", "a word", "- 1"):
        config.write_text(nonsense)
        with pytest.raises(FolderTaken, match="another configuration"):
            compare(small(), folder)


@pytest.mark.slow
def test_starting_over_removes_a_comparison_and_nothing_else(
    finished: tuple[Path, ComparisonResults], tmp_path: Path
) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("years of work")
    for fresh in (False, True):
        with pytest.raises(FolderTaken, match="holds no comparison"):
            compare(small(), precious, fresh=fresh)
    assert (precious / "chapter.txt").read_text() == "years of work"
    old = tmp_path / "comparison"
    (old / "lstm" / "seed-7").mkdir(parents=True)
    (old / "comparison.yaml").write_text("{}")
    with pytest.raises(FolderTaken, match="--fresh"):
        compare(small(), old)
    assert unmeasured(compare(small(), old, fresh=True)) == unmeasured(finished[1])
    assert not (old / "lstm" / "seed-7").exists()


def test_a_folder_that_was_claimed_and_no_more_is_taken_by_another_comparison(tmp_path: Path) -> None:
    Comparison(small(), tmp_path).claim(fresh=False)
    changed = small(contenders=ContenderSettings(cells=["lstm"], hidden_size=4, seeds=[0]))
    Comparison(changed, tmp_path).claim(fresh=False)
    assert "hidden_size: 4" in (tmp_path / "comparison.yaml").read_text()


@pytest.mark.slow
def test_a_run_that_diverges_loses_nothing_that_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = here.run

    def diverging(settings: Any, path: Path, on_step: Any = None) -> RunResult:
        if path.as_posix().endswith("mingru-layers/seed-0"):
            raise NonFiniteLoss(f"{path}: the loss is nan at step 1")
        return original(settings, path, on_step)

    monkeypatch.setattr(here, "run", diverging)
    with pytest.raises(NonFiniteLoss, match="mingru-layers/seed-0"):
        compare(small(), tmp_path / "comparison")
    finished = {path.parent.relative_to(tmp_path / "comparison").as_posix() for path in tmp_path.rglob("result.json")}
    assert finished == {f"{name}/seed-{s}" for name in ("lstm", "mingru-params") for s in (0, 1)} | {
        "mingru-layers/seed-1"
    }, "the others were not run to their end"
    assert not (tmp_path / "comparison" / "results.json").exists()


def test_a_record_holds_what_a_fair_comparison_must_state(finished: tuple[Path, ComparisonResults]) -> None:
    results = finished[1]
    assert [row.name for row in results.contenders] == ["lstm", "mingru-layers", "mingru-params"]
    for row in results.contenders:
        assert {"embedding", "core", "block", "head", "total"} <= row.parameters.model_dump().keys()
        assert [run.seed for run in row.runs] == [0, 1]
        for run in row.runs:
            assert 0 <= run.scores["test"].accuracy <= 1 and run.steps == results.contenders[0].runs[0].steps
        assert row.scores["test"].mean == pytest.approx(sum(run.scores["test"].accuracy for run in row.runs) / 2)
    assert results.measured.runs["mingru-params/seed-1"].training_seconds > 0
    assert results.measured.environment["versions"]["torch"]
    assert {cell: kind.name for cell, kind in results.classes.items()} == {
        "lstm": "state-dependent", "mingru": "positive",
    }  # fmt: skip


def test_a_file_names_scores_by_split(finished: tuple[Path, ComparisonResults]) -> None:
    held = json.loads((finished[0] / "results.json").read_text())
    run = finished[1].contenders[0].runs[0]
    assert held["schema"] == ComparisonResults.VERSION
    assert held["contenders"][0]["runs"][0]["test_accuracy"] == run.scores["test"].accuracy
    assert not {"curve", "confusion", "scores"} & held["contenders"][0]["runs"][0].keys()


def test_results_and_reports_name_no_folder_and_no_host(tmp_path: Path) -> None:
    data = text_files(tmp_path)
    settings = small(data=data, contenders=ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0]))
    compare(settings, tmp_path / "comparison")
    write_report(tmp_path / "comparison")
    for name in ("results.json", "report.md", "report.html"):
        text = (tmp_path / "comparison" / name).read_text(encoding="utf-8")
        assert str(tmp_path) not in text, name
        if name != "report.html":  # plotly's own code may hold any short word
            assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text), name
        assert "정말" not in text, f"{name} holds text of the data"
        assert "reviews.csv" in text


def test_a_task_has_plain_baselines_in_the_same_table(tmp_path: Path) -> None:
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0, 1])
    results = compare(small(data=text_files(tmp_path), contenders=contenders), tmp_path / "comparison")
    (linear,) = results.baseline.plain
    assert linear.scores["test"].mean == 1.0 and linear.scores["test"].low < 1
    assert score_rows(results)[-1]["contender"] == linear.name
    for row in results.contenders:
        difference = results.pair(row.name, linear.name).difference
        assert difference.mean == pytest.approx(row.scores["test"].mean - 1.0)
    assert any(linear.name in sentence for sentence in headline(results))
    outcomes = read_outcomes(tmp_path / "comparison" / "outcomes.npz")
    assert outcomes[f"{linear.name}/test"].values.all() and len(outcomes[f"{linear.name}/test"].counts) > 1


def test_equal_time_is_as_many_steps_as_speed_allows_and_kept(tmp_path: Path) -> None:
    who = ContenderSettings(cells=["lstm", "mingru"], match=["params", "time"], hidden_size=16, seeds=[0])
    results = compare(small(contenders=who), tmp_path)
    speed = {name: own.median for name, own in results.measured.speed.items()}
    steps = {row.name: row.runs[0].steps for row in results.contenders}
    assert steps["lstm"] == steps["mingru-params"]
    assert steps["mingru-time"] == pytest.approx(steps["lstm"] * speed["mingru-time"] / speed["lstm"], abs=1)
    assert json.loads((tmp_path / "steps.json").read_text()) == steps
    assert unmeasured(compare(small(contenders=who), tmp_path)) == unmeasured(results)


@pytest.mark.slow
def test_memory_is_measured_for_every_contender(tmp_path: Path) -> None:
    settings = small(contenders=ContenderSettings(cells=["mingru"], hidden_size=16, seeds=[0]))
    results = compare(settings, tmp_path / "comparison", memory=True)
    peaks = results.measured.memory_mib
    assert list(peaks) == ["mingru"]
    assert peaks["mingru"] is None or 0 < peaks["mingru"] < 2000


def judged(results: ComparisonResults, verdicts: dict[tuple[str, str], PairResults]) -> ComparisonResults:
    """The same with other verdicts."""
    pairs = [verdicts.get((pair.contender, pair.other), pair) for pair in results.pairs]
    return results.model_copy(update={"pairs": pairs})


def test_the_verdict_names_the_best_what_is_beside_it_and_what_would_help(finished) -> None:
    results = finished[1]
    names = [row.name for row in results.contenders]
    scores = [Estimate(mean, mean - 0.01, mean + 0.01, 3) for mean in (0.95, 0.949, 0.90)]
    rows = [
        row.model_copy(update={"scores": {**row.scores, "test": score}})
        for row, score in zip(results.contenders, scores, strict=True)
    ]
    speed = {
        name: Speed(median=rate, low=rate, high=rate, timings=4) for name, rate in zip(names, (1, 2, 3), strict=True)
    }
    known = results.model_copy(update={
        "contenders": rows, "measured": results.measured.model_copy(update={"speed": speed}),
    })  # fmt: skip

    def pair(other: str, word: str, mean: float, **remedy: int) -> PairResults:
        difference = Estimate(mean, mean - 0.01, mean + 0.01, 3)
        return PairResults(
            contender=names[0], other=other, difference=difference, better=0.5, equivalent=0.3, worse=0.2,
            verdict=word, **remedy,
        )  # fmt: skip

    worse = pair(names[2], "better", 0.05)
    said = verdict(judged(known, {
        (names[0], names[1]): pair(names[1], "equivalent", 0.001), (names[0], names[2]): worse,
    }))  # fmt: skip
    assert said[0] == (
        f"Test accuracy is highest for {names[0]}, 0.9500 [0.9400, 0.9600]; {names[1]}: equivalent (within 0.5 "
        f"points); worse: {names[2]} -0.0500 [-0.0600, -0.0400]."
    )
    assert f"{names[1]} trains fastest: 2.0 times the tokens a second of {names[0]}" in said[1]
    assert len(said) == 3 and "the best on validation, is" in said[2]
    for remedy, words in (
        ({"more_seeds": 1}, f"1 more seed would decide between {names[1]} and {names[0]}"),
        ({"more_seeds": 4}, "4 more seeds would decide"),
        (
            {"more_examples": 90_000},
            f"no number of seeds alone would tell {names[1]} from {names[0]}, but a test split of 90,000",
        ),
        ({}, "would take more than 100 more seeds, and more than 1,000 times as many test examples"),
    ):
        open_pair = pair(names[1], "cannot tell", 0.001, **remedy)
        said = verdict(judged(known, {(names[0], names[1]): open_pair, (names[0], names[2]): worse}))
        assert f"{names[1]}: not distinguished from it" in said[0] and words in said[2]


def test_another_margin_judges_finished_runs_anew(tmp_path: Path) -> None:
    settings = small(
        contenders=ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0, 1], match=["layers"])
    )
    first = compare(settings, tmp_path / "comparison")
    wide = compare(settings, tmp_path / "comparison", margin=1.0)
    assert (first.margin, wide.margin) == (0.005, 1.0) and wide.pairs[0].verdict == "equivalent"
    assert wide.measured.runs == first.measured.runs


@pytest.mark.slow
def test_a_run_from_before_outcomes_were_kept_is_evaluated_again(tmp_path: Path, caplog) -> None:
    settings = small(contenders=ContenderSettings(cells=["mingru"], hidden_size=8, seeds=[0, 1]))
    caplog.set_level("INFO")
    first = compare(settings, tmp_path / "comparison")
    run = tmp_path / "comparison" / "mingru" / "seed-0"
    (run / "outcomes.npz").unlink()
    manifest.write(run, {name: entry for name, entry in manifest.read(run).items() if name != "outcomes.npz"})
    again = compare(settings, tmp_path / "comparison")
    assert "evaluated again" in caplog.text and (run / "outcomes.npz").exists()
    assert unmeasured(again) == unmeasured(first)


def test_a_difference_of_zero_has_no_sign(finished) -> None:
    found = difference_in_words(Estimate(-0.00001, -0.01, 0.0, 3), finished[1])
    assert found == "0.0000 [-0.0100, 0.0000]"


def test_parity_says_why_the_minimal_cells_fail(tmp_path: Path) -> None:
    run = digits_run(epochs=1)
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0], match=["layers"])
    settings = CompareSettings(
        contenders=contenders, threads=1, data=data_settings(task="parity"), train=run.train,
        model=run.model.model_copy(update={"token_dropout": 0.0}),
    )  # fmt: skip
    results = compare(settings, tmp_path / "comparison")
    assert any("multiplied by a value between 0 and 1" in sentence for sentence in headline(results))
    assert set(results.contenders[0].scores) == {"validation", "test", "test_80"}
    assert len(structure_rows(results)) == 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped", "deleted"])
def test_no_damage_to_a_comparison_is_silent(damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from test_damage import DAMAGES, NOT_READ, files_of

    contenders = ContenderSettings(cells=["mingru"], hidden_size=8, seeds=[0, 1])
    settings = small(data=text_files(tmp_path), contenders=contenders)
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    results = compare(settings, whole)
    write_report(whole)
    assert {
        "comparison.yaml",
        "manifest.json",
        "plain.json",
        "plain.npz",
        "outcomes.npz",
        "speed.json",
        "results.json",
        "curves.json.gz",
        "report.html",
    } <= {*files_of(whole)}
    for name in files_of(whole):
        if name.endswith(NOT_READ):
            continue
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(whole, damaged)
        DAMAGES[damage](damaged / name)
        caplog.clear()
        try:
            again = compare(settings, damaged)
        except (FolderTaken, Damaged) as error:
            said = str(error)
            # Without its settings the folder is nobody's.
            assert Path(name).name in said or (damage == "deleted" and "holds no" in said), f"{name}: {said}"
        else:
            assert Path(name).name in caplog.text, f"{name} {damage} was passed over"
            assert unmeasured(again) == unmeasured(results), name
