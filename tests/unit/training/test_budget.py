"""Minutes become steps once, before a run begins; what is written runs again without a clock."""

import json

import pytest
from commands import call, outcome

from gatedrnn.errors import UsageError
from gatedrnn.training import budget
from gatedrnn.training.budget import _MAX_MEMBERS, within
from gatedrnn.training.chosen import default_run
from gatedrnn.training.folder import RunFolder

STEP = 0.1
"""Seconds, where no clock decides."""


@pytest.fixture
def texts(tmp_path):
    lines = [f"{'fine' if n % 3 else 'poor'} film {n % 9},{'good' if n % 3 else 'bad'}" for n in range(60)]
    (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    return tmp_path / "texts.csv"


@pytest.fixture
def timed(monkeypatch):
    """A step takes a tenth of a second."""
    steps_of = budget._measured

    def measured(settings, data):
        return steps_of(settings, data)._replace(seconds=STEP)

    monkeypatch.setattr(budget, "_measured", measured)


SMALL = {"hidden_size": 4, "embedding_size": 4, "character_grams": 0, "threads": 1}


def test_minutes_are_steps_up_to_those_that_pay_and_then_members(texts, timed):
    settings = default_run("text-classification", train_file=str(texts), **SMALL)
    recipe = settings.train.total_steps
    few = within(settings, 30 * STEP / 60 / budget.SHARE)
    assert few.settings.train.total_steps in (29, 30) and few.settings.model.members == 1
    more = within(settings, 3.5 * recipe * STEP / 60 / budget.SHARE)
    assert more.settings.train.total_steps == recipe and more.settings.model.members == 3
    assert within(settings, 60).settings.model.members == _MAX_MEMBERS
    assert "a step takes 100 ms here" in few.said and "3 networks" in more.said
    with pytest.raises(UsageError, match=r"--train-minutes 0.001: a step takes 100 ms here; give 0.0019 at least"):
        within(settings, 0.001)


def test_a_forecaster_is_trained_several_times_in_its_minutes(tmp_path, timed):
    (tmp_path / "sales.csv").write_text("time,y\n" + "\n".join(f"{n},{n % 7 + n / 9}" for n in range(90)) + "\n")
    settings = default_run("forecast", train_file=str(tmp_path / "sales.csv"), **SMALL)
    found = within(settings, 90 * STEP / 60 / budget.SHARE)
    assert found.settings.train.total_steps in (29, 30) and "trained 3 times" in found.said
    more = within(settings, 60).settings
    assert more.train.total_steps == settings.train.total_steps, "more steps than the recipe's do not pay"
    assert more.model.members == _MAX_MEMBERS


def test_a_text_that_is_read_as_one_takes_all_the_time(tmp_path, timed):
    (tmp_path / "book.txt").write_text("The gate opens, and the state remembers.\n" * 200)
    settings = default_run("language-model", train_file=str(tmp_path / "book.txt"), length=16, batch_size=4, **{
        name: value for name, value in SMALL.items() if name != "character_grams"
    })  # fmt: skip
    assert 5_000 < within(settings, 10).settings.train.total_steps <= 5_400


def test_what_was_measured_is_written_and_runs_again_from_its_record(tmp_path, texts, timed):
    small = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    first = ["--train-file", texts, "--train-minutes", "0.04", *small]
    for name, flags in (("one", first), ("two", ["--config", tmp_path / "one" / "config.yaml"])):
        call("train", *flags, "--baselines", "none", "--output", tmp_path / name)
    assert RunFolder(tmp_path / "one").settings().train.total_steps == 21
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two"))
    assert {**one, "measured": None} == {**two, "measured": None}


@pytest.mark.parametrize(
    ("flags", "said"),
    [(["--train-minutes", "0"], "must be above 0"), (["--train-minutes", "1", "--epochs", "2"], "give one")],
)
def test_minutes_that_say_nothing_are_refused(texts, tmp_path, capsys, flags, said):
    code, error = outcome(capsys, "train", "--train-file", texts, *flags, "--output", tmp_path / "run")
    assert code == 2 and said in error
    assert not (tmp_path / "run").exists()
