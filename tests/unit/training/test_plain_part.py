"""A run says first whether its plain part alone would do, by an interval that is the textbook's."""

import numpy as np
import pytest
import torch
from commands import printed
from scipy import stats

from gatedrnn.data import load_task
from gatedrnn.training.chosen import default_run
from gatedrnn.training.finished import open_finished
from gatedrnn.training.loop import accelerator_for
from gatedrnn.training.outcomes import difference_of, of_rows
from gatedrnn.training.plain_part import beside_path, beside_smoothers
from gatedrnn.training.result import PlainPart, RunResult, read_record

SMALL = ("--hidden-size", 4, "--embedding-size", 4, "--threads", 1)


def part(low, high, examples=40):
    return PlainPart(
        name="smoothers", split="validation", metric="MASE", score=0.5, alone=0.6, low=low, high=high,
        examples=examples, unit="block of 12 steps",
    )  # fmt: skip


def test_an_interval_is_students_of_paired_differences():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 30))
    ones = np.ones(30)
    found = difference_of(of_rows(one, ones), of_rows(other, ones))
    expected = stats.ttest_rel(one, other).confidence_interval(0.95)
    assert found == pytest.approx((expected.low, expected.high))
    assert difference_of(of_rows(one[:1], ones[:1]), of_rows(other[:1], ones[:1])) == (-np.inf, np.inf)


def test_the_plain_part_will_do_unless_all_of_the_interval_is_below_zero():
    assert (
        part(-0.2, -0.01).lowers and "does better than its plain part alone, smoothers" in part(-0.2, -0.01).sentence()
    )
    for low, high in ((-0.2, 0.01), (0.1, 0.2)):
        assert not part(low, high).lowers and part(low, high).sentence().startswith(
            "No gain over the plain method is shown: use it. Smoothers alone: "
        )
    assert "40 blocks of 12 steps)" in part(0.1, 0.2).sentence()
    for low, high in ((-np.inf, np.inf), (np.nan, np.nan)):
        one = part(low, high, examples=1)
        assert not one.lowers and "(smoothers), 1 block of 12 steps cannot tell" in one.sentence()


def test_a_classifier_stands_beside_its_linear_path_on_the_test(tmp_path, capsys):
    lines = [f"{'fine' if n % 3 else 'poor'} film {n % 9},{'good' if n % 3 else 'bad'}" for n in range(90)]
    (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    said = printed(capsys, "train", "--train-file", tmp_path / "texts.csv", *SMALL, "--output", tmp_path / "run")
    found = read_record(tmp_path / "run" / "result.json", RunResult)
    assert found.plain_part is not None and found.plain_part.split == "test" and found.plain_part.examples == 18
    assert found.plain_part.score == pytest.approx(found.scores["test"].loss)
    assert " ".join(said.split()).index(found.plain_part.sentence()[:40]) < said.index("test accuracy")
    settings = default_run("text-classification", train_file=str(tmp_path / "texts.csv"))
    model, test = open_finished(tmp_path / "run").model, load_task(settings.data).evaluation["test"]
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.zero_()
    even = beside_path(model, "test", test, accelerator_for(settings))
    assert even.alone == pytest.approx(found.plain_part.alone)
    assert even.alone < even.score < np.log(2), "a network that knows nothing takes half of what the path knows"


def test_a_forecaster_stands_beside_its_smoothers_on_the_validation_part(tmp_path, capsys):
    rows = [f"{n},{np.sin(n / 3) + n / 50:.4f}" for n in range(200)]
    (tmp_path / "sales.csv").write_text("time,y\n" + "\n".join(rows) + "\n")
    file = tmp_path / "sales.csv"
    printed(capsys, "forecast", file, *SMALL, "--total-steps", 5, "--no-refit", "--output", tmp_path / "run")
    found = read_record(tmp_path / "run" / "result.json", RunResult).plain_part
    assert found is not None and (found.split, found.metric) == ("validation", "MASE")
    settings = default_run("forecast", train_file=str(file))
    model, validation = open_finished(tmp_path / "run").model, load_task(settings.data).evaluation["validation"]
    before = model.config.shrinkage
    again = beside_smoothers(model, "validation", validation, accelerator_for(settings))
    assert (again.score, again.alone) == pytest.approx((found.score, found.alone)) and model.config.shrinkage == before
