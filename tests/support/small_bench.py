"""A bench of sizes that take no time, and contenders made by hand."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch

from benchmarks import measure, sizes
from benchmarks.bars import Bar
from benchmarks.contenders import Contender, Expected, Setting
from benchmarks.measure import Bench
from benchmarks.record import Findings
from benchmarks.sizes import Sizes
from gatedrnn.timing import Action, Samples

SHAPE = (2, 6, 4)
SIZES = Sizes(
    layers=(SHAPE,), autocast=(SHAPE,), scan=(SHAPE, (1, 40, 4)), memory=(SHAPE,), loops=(SHAPE,), step_widths=(4,),
    lengths=(4, 8), loop_lengths=4, length_width=4, words=13, training_scale=16, copied=1000, model=(2, 5, 4),
    vocabulary=11, softmax=(2, 5, 4), stream=(2, 4, 7), series=(3, 30, 4), family=(SHAPE,), drop_in=(SHAPE,),
    drop_in_widths=(4,), few_steps=((2, 1, 4),),
)  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs have these sizes."""
    monkeypatch.setitem(sizes.SIZES, "cpu", SIZES)


@pytest.fixture
def timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything runs once, and is said to take a second."""

    def interleave(actions: Mapping[Any, Action], seconds: float, synchronize: Action | None) -> dict[Any, Samples]:
        for action in actions.values():
            action()
        return {key: Samples({0: 1.0}, 1) for key in actions}

    monkeypatch.setattr(measure, "interleave", interleave)


def found_by(section: Callable[..., None], *arguments: Any) -> Findings:
    """The findings of a section on a CPU; its arguments after the first."""
    bench = Bench()
    section(bench, *arguments)
    return bench.findings


def assert_every_weight_is_trained_by(step: Any) -> None:
    """One step changes all weights, and leaves no gradient."""
    step.optimizer.param_groups[0]["lr"] = 1.0
    before = [weight.detach().clone() for weight in step.leaves.values()]
    step.train_step()
    assert not any(map(torch.equal, before, step.leaves.values()))
    assert all(weight.grad is None for weight in step.leaves.values())


def double(name: str = "double", factor: float = 2.0, slope: float = 2.0, **fields: Any) -> Contender:
    """y = factor · x, whose gradient is said to be `slope`; right if both are 2."""
    x = Setting(SHAPE).input()
    leaves = {"x": x}
    expected = Expected(lambda w: [2 * w["x"]], leaves, torch.ones(SHAPE))

    def run() -> torch.Tensor:
        # The value of one product, the gradient of another.
        return (factor - slope) * x.detach() + slope * x

    return Contender(name, Setting(SHAPE), fields.pop("run", run), leaves, expected, **fields)


class AskedBar(Findings):
    """Remembers what a bar asks for, and has found nothing."""

    def ratio(self, *key: Any) -> None:
        self.left_out.append(key)  # type: ignore[arg-type]

    count = ratio  # type: ignore[assignment]

    def largest_ratio(self, section: str, mode: str, numerators: Any, denominator: str) -> None:
        for numerator in numerators:
            self.ratio(section, mode, numerator, denominator, None)

    @classmethod
    def of(cls, bar: Bar) -> list[Any]:
        """The keys that a bar looks for: section, mode, names, and for a ratio the shapes."""
        asked = cls()
        assert bar.find(asked) is None
        return asked.left_out

    @classmethod
    def not_in(cls, found: Findings, bars: Iterable[Bar]) -> list[Any]:
        """Rows that bars of a CPU look for and a run did not find, at whatever shape."""
        measured: set[Any] = {(row.section, row.mode, row.numerator, row.denominator) for row in found.ratios}
        measured |= {(row.section, row.mode, row.contender) for row in found.counts}
        keys = [key for bar in bars if bar.device == "cpu" for key in cls.of(bar)]
        return [key for key in keys if (key[:4] if len(key) > 4 else key[:3]) not in measured]
