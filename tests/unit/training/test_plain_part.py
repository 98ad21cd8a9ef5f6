"""A run says first whether its plain part alone would do, by an interval that is the textbook's."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from commands import printed
from scipy import stats

from gatedrnn.data import Examples, load_task
from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification
from gatedrnn.tasks.forecast.ending import beside_smoothers
from gatedrnn.training.chosen import default_run
from gatedrnn.training.finished import open_finished
from gatedrnn.training.loop import accelerator_for
from gatedrnn.training.outcomes import difference_of, of_rows
from gatedrnn.training.plain_part import beside_path, choose_path_share
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
    model, data = open_finished(tmp_path / "run").model, load_task(settings.data)
    before = model.config.shrinkage
    again = beside_smoothers(model, data, "validation", accelerator_for(settings))
    assert (again.score, again.alone) == pytest.approx((found.score, found.alone)) and model.config.shrinkage == before


def test_the_network_has_no_part_is_said_where_it_is_taken_back_whole():
    said = part(0.0, 0.0).sentence()
    assert said == "The network has no part in the answer, which is that of smoothers alone: validation MASE 0.6000."
    assert "gatedrnn predict RUN FILE --baseline plain-part" in part(-0.2, 0.01).sentence()


class TwoAnswers(torch.nn.Module):
    """A model of numbers whose linear path is right, and whose network is off by some."""

    def __init__(self, off):
        super().__init__()
        self.off, self.config = off, SimpleNamespace(path_share=0.5)

    def path_alone(self, input_values):
        return input_values[:, 0, :1]

    def forward(self, input_values):
        path, share = self.path_alone(input_values), self.config.path_share
        network = path + self.off * torch.arange(len(path))[:, None].sub(3.5).sign()
        return SimpleNamespace(logits=(1 - share) * network + share * path)


@pytest.mark.parametrize(("off", "path_off", "share"), [(3.0, 0.0, 1.0), (-1.0, 1.0, 0.0)])
def test_a_regression_shrinks_to_its_linear_path_where_validation_is_better_so(off, path_off, share):
    """The network is 3 beside a path that is right; or right beside a path that is off by 1."""
    values = np.arange(8.0)
    labels = values - path_off * np.sign(np.arange(8) - 3.5)
    validation = Examples([np.array([[value]], np.float32) for value in values], labels.astype(np.float32))
    model = TwoAnswers(off)
    choose_path_share(model, validation, Accelerator(cpu=True))
    assert model.config.path_share == share


def test_a_model_of_numbers_answers_by_the_share_of_its_path():
    config = GatedRNNConfig(
        cell="mingru", input_size=2, hidden_size=4, embedding_size=0, vocab_size=None, problem_type="regression",
        num_labels=1, random_convolutions=100, longest_steps=9, pooling="mean",
    )  # fmt: skip
    model = GatedRNNForSequenceClassification(config).eval()
    network, path = torch.tensor([[1.0]]), torch.tensor([[3.0]])
    for share, expected in ((0.5, 2.0), (0.25, 1.5), (1.0, 3.0)):
        model.config.path_share = share
        assert model.with_path(network, path).item() == expected
    with pytest.raises(Exception, match="path_share must lie between 0 and 1"):
        GatedRNNConfig(path_share=1.5)
