"""A comparison end to end on small tasks: the same scores again, nothing lost, nothing run twice; and its page, opened
in a real browser: no error, no request, figures drawn.
"""

import json
import os
import re
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from browser import needs_a_browser, visit
from diverging import diverging
from finished_comparison import FinishedComparison, small_comparison
from plotly.offline import get_plotlyjs
from refusals import refused

from gatedrnn.data import data_settings, load_task, tokens_in
from gatedrnn.errors import Damaged, FolderTaken, NonFiniteLoss
from gatedrnn.study import assembly
from gatedrnn.study.experiment import Comparison, compare
from gatedrnn.study.figures import DIFFERENCES, figures
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, beside
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.tables import score_rows
from gatedrnn.study.verdict import difference_in_words, headline, verdict
from gatedrnn.timing import Samples
from gatedrnn.training.loop import Trainer
from gatedrnn.training.outcomes import OUTCOMES, read_outcomes
from gatedrnn.training.result import read_record


def unmeasured(results):
    return results.model_dump_json(exclude={"measured"})


def changed(settings, **contenders):
    """The settings of a comparison, for other contenders."""
    return settings.model_copy(update={"contenders": settings.contenders.model_copy(update=contenders)})


@pytest.fixture(scope="module")
def shortest(reviews, speed_in_a_moment, tmp_path_factory):
    """A comparison of one run, with every file that a comparison has."""
    folder, settings = tmp_path_factory.mktemp("short") / "c", small_comparison(reviews, cells=["mingru"], seeds=[0])
    results = compare(settings, folder)
    write_report(folder)
    return FinishedComparison(settings, folder, results)


def test_a_run_that_diverges_keeps_no_other_from_its_end_and_goes_on_to_the_same(comparison, started, tmp_path):
    folder = comparison.copy(tmp_path / "comparison")
    for lost in ("lstm", "mingru-layers"):
        shutil.rmtree(folder / lost / "seed-0")
    (folder / "results.json").unlink()
    with diverging("lstm/seed-0"), pytest.raises(NonFiniteLoss, match="lstm/seed-0"):
        compare(comparison.settings, folder)
    assert sorted(path.parts[-3] for path in folder.glob("*/seed-0/result.json")) == ["mingru-layers", "mingru-params"]
    assert not (folder / "results.json").exists()
    started.clear()
    results = compare(comparison.settings, folder, command="gatedrnn compare --output elsewhere")
    assert started == ["lstm/seed-0"], "a finished run was run again"
    assert unmeasured(results) == unmeasured(comparison.results)
    assert read_record(folder / "results.json", ComparisonResults) == results
    seconds = [one.measured.wall_seconds for one in (comparison.results, results)]
    assert seconds[0] > 0 and seconds[1] is None, "the time of a part was given as the time of the whole"


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
        refused(FolderTaken, other.replace(": ", ": .*"), compare, shortest.settings, folder)
    for nonsense in ("hours: of training", "a word", "- 1"):
        config.write_text(nonsense)
        refused(FolderTaken, "another configuration", compare, shortest.settings, folder)


def test_starting_over_removes_a_comparison_and_nothing_else(shortest, tmp_path):
    precious, old = tmp_path / "thesis" / "chapter.txt", tmp_path / "comparison"
    for file in (precious, old / "comparison.yaml", old / "lstm" / "seed-7" / "result.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    unlike, foreign = (old, False, "--fresh"), "holds no comparison"
    for folder, fresh, said in (unlike, (precious.parent, False, foreign), (precious.parent, True, foreign)):
        refused(FolderTaken, said, compare, shortest.settings, folder, fresh=fresh)
    assert unmeasured(compare(shortest.settings, old, fresh=True)) == unmeasured(shortest.results)
    assert precious.exists() and not (old / "lstm").exists()
    for settings in (shortest.settings, changed(shortest.settings, hidden_size=4)):
        Comparison(settings, tmp_path / "claimed and no more").claim(fresh=False)
    assert "hidden_size: 4" in (tmp_path / "claimed and no more" / "comparison.yaml").read_text()


def test_a_record_states_what_is_fair_with_plain_baselines_in_its_table_and_names_no_folder_and_no_host(comparison):
    results, folder = comparison.results, comparison.folder
    assert [row.name for row in results.contenders] == ["lstm", "mingru-layers", "mingru-params"]
    for row in results.contenders:
        assert {"embedding", "core", "block", "head", "total"} <= asdict(row.parameters).keys()
        assert [run.seed for run in row.runs] == [0, 1]
        scores = [run.scores["test"].accuracy for run in row.runs]
        assert 0 <= min(scores) and max(scores) <= 1 and row.scores["test"].mean == pytest.approx(sum(scores) / 2)
        assert {run.steps for run in row.runs} == {results.contenders[0].runs[0].steps}
    assert results.measured.runs["mingru-params/seed-1"].training_seconds > 0
    assert results.measured.environment["versions"]["torch"]
    classes = {cell: kind.name for cell, kind in results.classes.items()}
    assert classes == {"lstm": "state-dependent", "mingru": "positive"}
    held = json.loads((folder / "results.json").read_text())
    first = held["contenders"][0]["runs"][0]
    assert held["schema"] == ComparisonResults.VERSION and not {"curve", "confusion", "scores"} & first.keys()
    assert first["test_accuracy"] == results.contenders[0].runs[0].scores["test"].accuracy
    for name in ("results.json", "report.md", "report.html"):
        text = (folder / name).read_text(encoding="utf-8")
        assert str(folder.parent) not in text and "정말" not in text and "reviews.csv" in text, name
        if name != "report.html":  # plotly's own code may hold any short word
            assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text), name
    results = comparison.results
    linear, *others = results.baseline.plain
    assert len(others) == 3, "words and characters, each with two linear models"
    assert linear.scores["test"].mean == 1.0 and linear.scores["test"].low < 1
    assert score_rows(results)[0]["method"] == linear.name
    for row in results.contenders:
        difference = results.pair(row.name, linear.name).difference
        assert difference.mean == pytest.approx(row.scores["test"].mean - 1.0)
    assert f"{linear.name} (100.0 %)" in headline(results)[0]
    outcomes = read_outcomes(comparison.folder / "outcomes.npz")
    assert outcomes[f"{linear.name}/test"].values.all() and len(outcomes[f"{linear.name}/test"].counts) > 1


def test_a_speed_is_measured_once_and_another_margin_judges_finished_runs_anew(comparison, tmp_path, monkeypatch):
    first = comparison.results
    shown = {row["method"]: row["tokens/s"] for row in score_rows(first)}
    assert all(shown[name] == f"{one.median:,.0f}" for name, one in first.measured.speed.items())
    monkeypatch.setattr("gatedrnn.study.experiment.training_speed", lambda *_: pytest.fail("measured again"))
    wide = compare(comparison.settings, comparison.copy(tmp_path / "comparison"), margin=1.0)
    assert (first.margin, wide.margin) == (0.005, 1.0) and wide.pairs[0].verdict == "equivalent"
    assert (wide.measured.runs, wide.measured.speed) == (first.measured.runs, first.measured.speed)


@pytest.fixture(scope="module")
def parity(speed_in_a_moment, tmp_path_factory):
    """A comparison with training time matched."""
    folder = tmp_path_factory.mktemp("parity") / "comparison"
    data = data_settings(task="parity", length=5)
    settings = small_comparison(data, train={"total_steps": 20}, match=["params", "time"], seeds=[0])
    return FinishedComparison(settings, folder, compare(settings, folder))


def test_equal_time_is_as_many_steps_as_speed_allows_and_kept_and_parity_says_why_minimal_cells_fail(parity):
    results = parity.results
    speed = {name: own.median for name, own in results.measured.speed.items()}
    steps = {row.name: row.runs[0].steps for row in results.contenders}
    assert steps["lstm"] == steps["mingru-params"] == 20
    assert steps["mingru-time"] == pytest.approx(20 * speed["mingru-time"] / speed["lstm"], abs=1)
    assert json.loads((parity.folder / "steps.json").read_text()) == steps
    assert unmeasured(compare(parity.settings, parity.folder)) == unmeasured(results)
    assert any("multiplied by a value between 0 and 1" in sentence for sentence in headline(results))
    assert set(results.contenders[0].scores) == {"validation", "test", "test_20"}


def test_what_nothing_that_is_counted_would_decide_is_said_and_a_difference_of_zero_has_no_sign(comparison):
    """All other words of verdicts are those of the kept reports."""
    unsure = {"verdict": "cannot tell", "more_seeds": None, "more_examples": None}
    pairs = [replace(pair, **unsure) for pair in comparison.results.pairs]
    said = " ".join(verdict(comparison.results.model_copy(update={"pairs": pairs})))
    assert "would take more than 100 more seeds, and more than 1,000 times as many test examples" in said
    found = difference_in_words(Estimate(-0.00001, -0.01, 0.0, 3), comparison.results)
    assert found == "0.0000 [-0.0100, 0.0000]"


@pytest.mark.slow
def test_memory_is_measured_for_every_contender(shortest, tmp_path):
    """Each is measured in a process of its own, which takes seconds to begin."""
    results = compare(shortest.settings, shortest.copy(tmp_path / "c"), memory=True)
    peaks = results.measured.memory_mib
    assert list(peaks) == ["mingru"]
    assert peaks["mingru"] is None or 0 < peaks["mingru"] < 2000


def flipped(held):
    half = len(held) // 2
    return held[:half] + bytes([held[half] ^ 1]) + held[half + 1 :]


DAMAGES = {
    "truncated": lambda held: held[: len(held) // 2],
    "emptied": lambda _: b"",
    "flipped": flipped,
    "deleted": None,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # numpy leaves a truncated archive open
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize("damage", [pytest.param(n, marks=[pytest.mark.slow] * (n != "flipped")) for n in DAMAGES])
def test_no_damage_to_a_comparison_is_silent(damage, third, shortest, tmp_path, caplog):
    wanted = "comparison.yaml manifest.json plain.json plain.npz outcomes.npz speed.json results.json report.html"
    assert {path.name for path in shortest.folder.iterdir()} >= {*wanted.split(), "curves.json.gz"}
    damaged, files = tmp_path / "c", sorted(path for path in shortest.folder.rglob("*") if path.is_file())
    for file in (path.relative_to(shortest.folder) for path in files[third::3]):
        if file.name == "README.md":  # of a model, and there to be edited
            continue
        shutil.rmtree(damaged, ignore_errors=True)
        whole = (shortest.copy(damaged) / file).read_bytes()
        (damaged / file).unlink()
        if damage != "deleted":
            (damaged / file).write_bytes(DAMAGES[damage](whole))
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


def test_speeds_are_of_the_same_batches_in_turn_and_tokens_over_the_median_time(reviews, monkeypatch):
    steps, settings, step = [], small_comparison(reviews, train={"batch_size": 8}), Trainer._step

    def counted(self, batches, begins, rate):
        (batch,) = batches
        steps.append((self.settings.cell, float(sum(v.double().sum() for v in batch.values()))))
        return step(self, batches, begins, rate)

    monkeypatch.setattr(Trainer, "_step", counted)
    runs, data = {cell: settings.run(cell, 8, 0) for cell in ("lstm", "mingru")}, load_task(settings.data)
    threads = torch.get_num_threads()
    found = assembly.training_speed(runs, data, 0.01)
    batches = {cell: {batch for name, batch in steps if name == cell} for cell in runs}
    assert len(batches["lstm"]) == assembly.STEPS and batches["lstm"] == batches["mingru"]
    assert all(one.low <= one.median <= one.high and one.timings >= 1 for one in found.values())
    assert torch.get_num_threads() == threads
    samples = Samples({0: 2.0, 1: 4.0, 2: 8.0}, 1)
    monkeypatch.setattr(assembly, "interleave", lambda actions, _: dict.fromkeys(actions, samples))
    found = assembly.training_speed(runs, data, 0.01)["lstm"]
    batches = [data.train.batch(0, 0, index, settings.train.batch_size) for index in range(assembly.STEPS)]
    tokens = sum(tokens_in(batch) for batch in batches)
    assert (found.median, found.low, found.high) == pytest.approx((tokens / 4, tokens / 6, tokens / 3))
    assert found.timings == 3


@pytest.fixture(params=[pytest.param(1280, marks=pytest.mark.slow), 400])
def seen(comparison, request):
    return visit(comparison.folder / "report.html", request.param)


@needs_a_browser
def test_the_page_draws_every_figure_without_an_error_or_a_request(comparison, seen):
    assert seen.said == [] and seen.asked == [(comparison.folder / "report.html").as_uri()]
    assert len(seen.figures) == 5 and all(seen.figures) and not seen.wide and not seen.cut_off
    assert {"Learning curves", "Confusion on the test split"} <= {*seen.titles} and "mingru-params" in seen.table


def test_an_axis_of_accuracies_ends_at_one_and_what_a_user_typed_is_shown_and_not_run(comparison):
    curves, confusion = (beside(comparison.folder, record) for record in (Curves, Confusion))
    for title, figure in figures(comparison.results, curves, confusion).items():
        if title not in ("Confusion on the test split", DIFFERENCES):
            axis = figure.layout.xaxis if "every seed" in title else figure.layout.yaxis
            assert (axis.autorangeoptions.clipmin, axis.autorangeoptions.clipmax) == (0, 1), title
    text, page = ((comparison.folder / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    assert "    gatedrnn compare" in text
    assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page
    notice = get_plotlyjs()[:200]
    assert "MIT license" in notice and notice in page


def test_the_page_is_drawn_from_records_alone_and_says_which_is_missing_or_damaged(comparison, tmp_path):
    others = (Curves.FILE, Confusion.FILE, OUTCOMES)
    for file in (ComparisonResults.FILE, *others):
        shutil.copy(comparison.folder / file, tmp_path)
    pages = comparison.folder / "report.html", write_report(tmp_path)
    text = (comparison.folder / "report.md").read_text()
    assert (tmp_path / "report.md").read_text() == text and "missing" not in text
    assert len({page.read_text(encoding="utf-8").count("plotly-graph-div") for page in pages}) == 1
    for file in others:
        (tmp_path / file).unlink()
    write_report(tmp_path)
    said = (tmp_path / "report.md").read_text()
    assert "curves.json.gz is missing in this folder, so there are no learning curves." in said
    assert "confusion.json.gz is missing in this folder, so there is no confusion table." in said
    assert "outcomes.npz is missing in this folder, so no hardest examples are listed." in said
    for record in (ComparisonResults, Curves):
        shutil.copy(comparison.folder / record.FILE, tmp_path)
    whole = (tmp_path / Curves.FILE).read_bytes()
    for torn in (whole[:-9], b"", whole[:40] + b"x" + whole[41:], b"{}"):
        (tmp_path / Curves.FILE).write_bytes(torn)
        refused(Damaged, r"curves\.json\.gz: is damaged", write_report, tmp_path)
    (tmp_path / ComparisonResults.FILE).write_text("{}")
    refused(Damaged, r"results\.json: is no ComparisonResults \(task: Field required", write_report, tmp_path)
