"""A comparison end to end on small tasks: the same numbers again, nothing lost, nothing run twice."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from train_helpers import digits_run

from gatedrnn.data import DataSettings
from gatedrnn.errors import Damaged, FolderTaken, NonFiniteLoss
from gatedrnn.study import runs
from gatedrnn.study.experiment import Comparison, compare
from gatedrnn.study.report import write_report
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.summary import headline, score_rows, structure_rows


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
    return DataSettings(task="text-classification", train_file=file, min_count=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("finished") / "comparison"
    return folder, compare(small(), folder, command="gatedrnn compare")


def unmeasured(results: dict[str, Any]) -> str:
    return json.dumps({**results, "measured": None})


def test_the_same_comparison_gives_the_same_results_but_for_what_is_measured(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    again = compare(small(), tmp_path / "again", command="gatedrnn compare --output elsewhere")
    assert unmeasured(again) == unmeasured(finished[1])
    on_disk = json.loads((tmp_path / "again" / "results.json").read_text())
    assert unmeasured(on_disk) == unmeasured(again)


def test_several_processes_give_the_numbers_of_one(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    assert unmeasured(compare(small(), tmp_path / "parallel", jobs=2)) == unmeasured(finished[1])


def test_a_half_finished_comparison_goes_on_and_finished_runs_are_not_run_again(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "half"
    shutil.copytree(finished[0], folder)
    shutil.rmtree(folder / "mingru-params" / "seed-1")
    (folder / "results.json").unlink()
    started = []
    original = runs.run

    def counted(settings: Any, path: Path, on_step: Any = None) -> dict[str, Any]:
        if not (path / "result.json").exists():
            started.append(path.relative_to(folder).as_posix())
        return original(settings, path, on_step)

    monkeypatch.setattr(runs, "run", counted)
    assert unmeasured(compare(small(), folder)) == unmeasured(finished[1])
    assert started == ["mingru-params/seed-1"]
    seconds = [json.loads((f / "results.json").read_text())["measured"]["wall_seconds"] for f in (finished[0], folder)]
    assert seconds[0] > 0 and seconds[1] is None, "the time of a part was given as the time of the whole"


def test_a_comparison_with_another_configuration_is_refused_and_kept(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    changed = small(contenders=ContenderSettings(cells=["lstm", "mingru"], hidden_size=24, seeds=[0, 1]))
    with pytest.raises(FolderTaken, match=r"contenders\.hidden_size: 16 there, 24 here.*--fresh"):
        compare(changed, folder)
    assert json.loads((folder / "results.json").read_text()) == results


def test_a_comparison_begun_before_a_setting_and_before_manifests_is_taken_up(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
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


def test_starting_over_removes_a_comparison_and_nothing_else(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
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


def test_a_run_that_diverges_loses_nothing_that_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = runs.run

    def diverging(settings: Any, path: Path, on_step: Any = None) -> dict[str, Any]:
        if path.as_posix().endswith("mingru-layers/seed-0"):
            raise NonFiniteLoss(f"{path}: the loss is nan at step 1")
        return original(settings, path, on_step)

    monkeypatch.setattr(runs, "run", diverging)
    with pytest.raises(NonFiniteLoss, match="mingru-layers/seed-0"):
        compare(small(), tmp_path / "comparison")
    finished = {path.parent.relative_to(tmp_path / "comparison").as_posix() for path in tmp_path.rglob("result.json")}
    assert finished == {f"{name}/seed-{s}" for name in ("lstm", "mingru-params") for s in (0, 1)} | {
        "mingru-layers/seed-1"
    }, "the others were not run to their end"
    assert not (tmp_path / "comparison" / "results.json").exists()


def test_the_schema_holds_what_a_fair_comparison_must_state(finished: tuple[Path, dict[str, Any]]) -> None:
    results = finished[1]
    assert [row["name"] for row in results["contenders"]] == ["lstm", "mingru-layers", "mingru-params"]
    for row in results["contenders"]:
        assert {"embedding", "core", "block", "head", "total"} <= row["parameters"].keys()
        assert [run["seed"] for run in row["runs"]] == [0, 1]
        for run in row["runs"]:
            assert 0 <= run["test_accuracy"] <= 1 and run["steps"] == results["contenders"][0]["runs"][0]["steps"]
        mean = sum(run["test_accuracy"] for run in row["runs"]) / 2
        assert row["scores"]["test"]["mean"] == pytest.approx(mean)
    name = "mingru-params/seed-1"
    assert results["measured"]["runs"][name]["training_seconds"] > 0
    assert results["measured"]["environment"]["versions"]["torch"]


def test_results_and_reports_name_no_folder_and_no_host(tmp_path: Path) -> None:
    data = text_files(tmp_path)
    settings = small(data=data, contenders=ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0]))
    results = compare(settings, tmp_path / "comparison")
    write_report(results, tmp_path / "comparison")
    for name in ("results.json", "report.md", "report.html"):
        text = (tmp_path / "comparison" / name).read_text(encoding="utf-8")
        assert str(tmp_path) not in text, name
        if name != "report.html":  # plotly's own code may hold any short word
            assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text), name
        assert "정말" not in text, f"{name} holds text of the data"
        assert "reviews.csv" in text


def test_a_text_task_has_a_linear_baseline_in_the_same_table(tmp_path: Path) -> None:
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0, 1])
    results = compare(small(data=text_files(tmp_path), contenders=contenders), tmp_path / "comparison")
    linear = results["baseline"]["linear"]
    assert linear["test_accuracy"] == 1.0
    assert score_rows(results)[-1]["contender"] == linear["name"]
    for row in results["contenders"]:
        mean = row["scores"]["test"]["mean"]
        assert row["difference_to_linear"]["mean"] == pytest.approx(mean - linear["test_accuracy"])
    assert any(linear["name"] in sentence for sentence in headline(results))


def test_memory_is_measured_for_every_contender(tmp_path: Path) -> None:
    settings = small(contenders=ContenderSettings(cells=["mingru"], hidden_size=16, seeds=[0]))
    results = compare(settings, tmp_path / "comparison", memory=True)
    peaks = results["measured"]["memory_mib"]
    assert list(peaks) == ["mingru"]
    assert peaks["mingru"] is None or 0 < peaks["mingru"] < 2000


def test_a_difference_is_claimed_only_where_its_interval_leaves_zero_out() -> None:
    def row(name: str, match: str, difference: dict[str, Any] | None, parameters: int = 100) -> dict[str, Any]:
        scores = {split: {"mean": 0.9, "low": 0.8, "high": 1.0, "runs": 3} for split in ("validation", "test")}
        return {
            "name": name, "cell": name.split("-")[0], "match": match, "scores": scores,
            "difference_to_baseline": difference and {"test": difference},
        }  # fmt: skip

    shown = {"mean": -0.02, "low": -0.03, "high": -0.01, "runs": 3}
    covered = {"mean": 0.02, "low": -0.01, "high": 0.05, "runs": 3}
    results = {
        "task": "digits",
        "metric": {"name": "accuracy", "higher_is_better": True},
        "settings": {"contenders": {"ladder": None}},
        "baseline": {"contender": "lstm", "linear": None},
        "contenders": [
            row("lstm", "baseline", None), row("gru-layers", "layers", covered), row("mingru-layers", "layers", shown),
        ],
    }  # fmt: skip
    sentence = headline(results)[0]
    assert "mingru is 0.0200 below lstm (0.0100 to 0.0300)" in sentence
    assert "no difference from lstm is shown for gru" in sentence
    assert "gru is" not in sentence.replace("mingru is", "")
    for contender in results["contenders"]:
        for estimate in (contender["scores"]["test"], (contender["difference_to_baseline"] or {}).get("test", {})):
            estimate["runs"] = 2
    sentences = " ".join(headline(results))
    assert "too few seeds to tell from lstm: gru +0.0200 [-0.0100, +0.0500]" in sentences
    assert "mingru is" not in sentences and "2 seeds: too few to tell a difference from chance" in sentences


@pytest.mark.parametrize("mean, side", [(-0.089, "0.0890 below"), (0.089, "0.0890 above")])
def test_the_distance_to_the_linear_baseline_has_one_sign(mean: float, side: str) -> None:
    difference = {"mean": mean, "low": mean - 0.01, "high": mean + 0.01, "runs": 3}
    scores = {split: {"mean": 0.8, "low": 0.7, "high": 0.9, "runs": 3} for split in ("validation", "test")}
    results = {
        "task": "ag_news", "metric": {"name": "accuracy", "higher_is_better": True},
        "settings": {"contenders": {"ladder": None}},
        "baseline": {"contender": "lstm", "linear": {"name": "linear", "test_accuracy": 0.8 - mean}},
        "contenders": [
            {"name": "lstm", "cell": "lstm", "match": "baseline", "scores": scores, "difference_to_linear": difference}
        ],
    }  # fmt: skip
    sentence = headline(results)[0]
    assert f"lstm, is {side} linear" in sentence and "(0.0790 to 0.0990)" in sentence and "-" not in sentence


def test_parity_says_why_the_minimal_cells_fail(tmp_path: Path) -> None:
    run = digits_run(epochs=1)
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=8, seeds=[0], match=["layers"])
    settings = CompareSettings(
        contenders=contenders, threads=1, data=DataSettings(task="parity"), train=run.train,
        model=run.model.model_copy(update={"token_dropout": 0.0}),
    )  # fmt: skip
    results = compare(settings, tmp_path / "comparison")
    assert any("multiplied by a number between 0 and 1" in sentence for sentence in headline(results))
    assert set(results["contenders"][0]["scores"]) == {"validation", "test", "test_80"}
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
    write_report(results, whole)
    assert {"comparison.yaml", "manifest.json", "linear.json", "speed.json", "results.json", "report.html"} <= {
        *files_of(whole)
    }
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
