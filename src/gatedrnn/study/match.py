"""Contenders and their widths: equal layers, equal parameters, or equal multiply-adds of a step."""

from collections.abc import Callable
from dataclasses import dataclass
from math import lcm

import torch

from gatedrnn.data import TaskData
from gatedrnn.errors import NoMatch, UsageError
from gatedrnn.models.modeling import BackbonePart, GatedRNNPreTrainedModel
from gatedrnn.models.structure import Parameters, Structure, count_parameters, describe_structure
from gatedrnn.study.results import Match
from gatedrnn.study.settings import CompareSettings
from gatedrnn.training.model import build_model
from gatedrnn.training.task import task_named
from gatedrnn.trust import canonical_name

MARKED, REFUSED = 0.01, 0.05
"""A mismatch above the first is marked in the report, above the second refused."""
_CHECKED_STEPS = 8
"""The steps of a sequence on which a backbone is checked not to look ahead."""


@dataclass(frozen=True)
class Contender:
    """A cell or a backbone with its widths in a comparison."""

    cell: str
    """The cell as on the command line, with its options."""
    match: Match
    hidden_size: int
    structure: Structure
    parameters: Parameters
    mismatch: float
    """The cell's parameters over the count to match, minus one."""

    @property
    def name(self) -> str:
        """The name of the contender and of its folder: a colon before an option is a dot there, as not every file
        system has colons.
        """
        cell = canonical_name(self.cell).replace(":", ".")
        return cell if self.match == "baseline" else f"{cell}-{self.match}"


@dataclass(frozen=True)
class _Sized:
    """A contender at one width."""

    structure: Structure
    parameters: Parameters
    is_backbone: bool

    def compared(self, other: "_Sized") -> tuple[int, int]:
        """Parameters of both: of the recurrent cores, or of all that a backbone replaces."""
        if self.is_backbone or other.is_backbone:
            mine, theirs = self.parameters, other.parameters
            return mine.core + mine.block, theirs.core + theirs.block
        return self.parameters.core, other.parameters.core


def contenders(settings: CompareSettings, data: TaskData) -> list[Contender]:
    """The baseline, and every other cell once for each kind of match.

    Raises:
        NoMatch: no width of a cell comes within 5 % of what is to match.
        UsageError: a backbone cannot have these sizes, or cannot do the task.
    """
    who = settings.contenders
    baseline, *others = who.cells
    for cell in who.cells:
        _check_able(settings, data, cell)
    width, target = who.hidden_size, who.core
    if target is None:
        target = core_parameters(settings, data, baseline, width)
    else:
        width = solve_width(settings, data, baseline, target)
    base = _sized(settings, data, baseline, width)
    matched = [_contender(base, baseline, "baseline", width, target, base)]
    for match in who.match:
        for cell in others:
            solved = width if match == "layers" else _matched_width(settings, data, cell, match, target, base)
            matched.append(_contender(_sized(settings, data, cell, solved), cell, match, solved, target, base))
    return matched


def _matched_width(
    settings: CompareSettings, data: TaskData, cell: str, match: Match, target: int, base: _Sized
) -> int:  # fmt: skip
    """The hidden_size whose parameters, or multiply-adds a step, come nearest to the baseline's."""
    if match == "multiply-adds":
        return _solve(
            settings, cell, base.structure.multiply_adds_per_step, "multiply-adds a step", "--hidden-size",
            lambda width: _sized(settings, data, cell, width).structure.multiply_adds_per_step,
        )  # fmt: skip
    if not (base.is_backbone or _is_backbone(settings, cell)):
        return solve_width(settings, data, cell, target)
    whole = target + base.parameters.block

    def size(width: int) -> int:
        count = _parameters(settings, data, cell, width)
        return count.core + count.block

    return _solve(settings, cell, whole, "parameters", "--hidden-size or --core", size)


def solve_width(settings: CompareSettings, data: TaskData, cell: str, target: int) -> int:
    """The hidden_size whose recurrent core comes nearest to `target` parameters.

    Raises:
        NoMatch: the nearest is more than 5 % away.
    """
    return _solve(
        settings, cell, target, "parameters", "--hidden-size or --core",
        lambda width: core_parameters(settings, data, cell, width),
    )  # fmt: skip


def _solve(
    settings: CompareSettings, cell: str, target: int, what: str, larger: str, size: Callable[[int], int]
) -> int:
    unit = _unit(settings, cell)
    high = 2
    while size(unit * high) < target:
        high *= 2
    low = high // 2
    while high - low > 1:  # size grows with the width; the target lies between, or below both
        middle = (low + high) // 2
        low, high = (middle, high) if size(unit * middle) < target else (low, middle)
    sizes = {width: size(width) for width in (unit * low, unit * high)}
    nearest = min(sizes, key=lambda width: abs(sizes[width] - target))
    if abs(sizes[nearest] / target - 1) > REFUSED:
        (below, fewer), (above, more) = sizes.items()
        raise NoMatch(
            f"{cell}: no hidden_size brings it within {100 * REFUSED:.0f} % of the {target:,} {what} to match; the "
            f"nearest are {below} ({fewer:,}) and {above} ({more:,}); choose a larger {larger}"
        )
    return nearest


def _contender(sized: _Sized, cell: str, match: Match, width: int, target: int, base: _Sized) -> Contender:
    mine, theirs = sized.compared(base)
    theirs += target - base.parameters.core  # the count that is asked for, which the baseline may miss too
    return Contender(cell, match, width, sized.structure, sized.parameters, mine / theirs - 1)


def _check_able(settings: CompareSettings, data: TaskData, cell: str) -> None:
    """Check that a backbone does not look ahead where the next step is what it must predict."""
    if not (_is_backbone(settings, cell) and task_named(data.name).model_class(data).can_generate()):
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = _built(settings, data, cell, settings.contenders.hidden_size).eval()
        part = next(module for module in model.modules() if isinstance(module, BackbonePart))
        x = torch.randn(1, _CHECKED_STEPS, model.config.embedding_size)
        other = torch.cat([x[:, :-1], -x[:, -1:]], dim=1)
        first, second = part.call(x, None), part.call(other, None)
    if not torch.allclose(first[:, :-1], second[:, :-1], atol=1e-4):
        raise UsageError(f"{cell}: an output depends on later steps, which a language model has yet to predict")


def _is_backbone(settings: CompareSettings, cell: str) -> bool:
    return settings.run(cell, 1, 0).backbone is not None


def _unit(settings: CompareSettings, cell: str) -> int:
    """The widths of a cell are multiples of this."""
    return lcm(*(choice.equations().block_size for choice in settings.run(cell, 1, 0).cells))


def _sized(settings: CompareSettings, data: TaskData, cell: str, width: int) -> _Sized:
    if not _is_backbone(settings, cell):
        with torch.device("meta"):
            model = _built(settings, data, cell, width)
    else:
        with torch.random.fork_rng(devices=[]):  # its multiply-adds are counted as it runs
            model = _built(settings, data, cell, width)
    return _Sized(describe_structure(model, data.steps), count_parameters(model), model.config.backbone is not None)


def core_parameters(settings: CompareSettings, data: TaskData, cell: str, width: int) -> int:
    """Parameters of the recurrent core with that cell and width."""
    return _parameters(settings, data, cell, width).core


def _parameters(settings: CompareSettings, data: TaskData, cell: str, width: int) -> Parameters:
    with torch.device("meta"):
        return count_parameters(_built(settings, data, cell, width))


def _built(settings: CompareSettings, data: TaskData, cell: str, width: int) -> GatedRNNPreTrainedModel:
    run = settings.run(cell, width, 0)
    try:
        return build_model(run, data)
    except ValueError as error:
        if run.backbone is None:
            raise
        raise UsageError(f"{cell}: {error}") from error
