"""Contenders and their widths: equal layers, or equal parameters of the recurrent core."""

from dataclasses import dataclass
from math import lcm

import torch

from gatedrnn.data import TaskData
from gatedrnn.errors import NoMatch
from gatedrnn.models.modeling import GatedRNNClassifier
from gatedrnn.models.structure import count_parameters, describe_structure
from gatedrnn.study.results import Match, Parameters, Structure
from gatedrnn.study.settings import CompareSettings
from gatedrnn.train.model import build_model

MARKED, REFUSED = 0.01, 0.05
"""A mismatch of the core parameters above the first is marked in the report, above the second refused."""


@dataclass(frozen=True)
class Contender:
    """A cell with its widths in a comparison."""

    cell: str
    """As on the command line, with its options."""
    match: Match
    hidden_size: int
    structure: Structure
    parameters: Parameters
    mismatch: float
    """Core parameters over the count to match, minus one."""

    @property
    def name(self) -> str:
        """Also the name of its folder: a colon before an option is a dot there, as not every file system has colons."""
        cell = self.cell.replace(":", ".")
        return cell if self.match == "baseline" else f"{cell}-{self.match}"


def contenders(settings: CompareSettings, data: TaskData) -> list[Contender]:
    """The baseline, and every other cell once for each kind of match.

    Raises:
        NoMatch: no width of a cell comes within 5 % of the baseline's core parameters.
    """
    baseline, *others = settings.contenders.cells
    width, target = settings.contenders.hidden_size, settings.contenders.core
    if target is None:
        target = core_parameters(settings, data, baseline, width)
    else:
        width = solve_width(settings, data, baseline, target)
    found = [_contender(settings, data, baseline, "baseline", width, target)]
    for match in settings.contenders.match:
        for cell in others:
            solved = width if match == "layers" else solve_width(settings, data, cell, target)
            found.append(_contender(settings, data, cell, match, solved, target))
    return found


def solve_width(settings: CompareSettings, data: TaskData, cell: str, target: int) -> int:
    """The hidden_size whose recurrent core comes nearest to `target` parameters.

    Raises:
        NoMatch: the nearest is more than 5 % away.
    """

    unit = _unit(settings, cell)

    def core(units: int) -> int:
        return core_parameters(settings, data, cell, unit * units)

    high = 2
    while core(high) < target:
        high *= 2
    low = high // 2
    while high - low > 1:  # core grows with the width; the target lies between, or below both
        middle = (low + high) // 2
        low, high = (middle, high) if core(middle) < target else (low, middle)
    nearest = min((low, high), key=lambda units: abs(core(units) - target))
    if abs(core(nearest) / target - 1) > REFUSED:
        raise NoMatch(
            f"{cell}: no hidden_size brings its core within {100 * REFUSED:.0f} % of the "
            f"{target:,} parameters to match; the nearest are {unit * low} ({core(low):,}) and {unit * high} "
            f"({core(high):,}); choose a larger --hidden-size or --core"
        )
    return unit * nearest


def _contender(
    settings: CompareSettings, data: TaskData, cell: str, match: Match, width: int, target: int
) -> Contender:
    model = _model(settings, data, cell, width)
    parameters = Parameters.model_validate(count_parameters(model))
    structure = Structure.model_validate(describe_structure(model))
    return Contender(cell, match, width, structure, parameters, parameters.core / target - 1)


def _unit(settings: CompareSettings, cell: str) -> int:
    """The widths of a cell are multiples of this."""
    return lcm(*(choice.equations().block_size for choice in settings.run(cell, 1, 0).cells))


def core_parameters(settings: CompareSettings, data: TaskData, cell: str, width: int) -> int:
    """Parameters of the recurrent core with that cell and width."""
    return count_parameters(_model(settings, data, cell, width))["core"]


def _model(settings: CompareSettings, data: TaskData, cell: str, width: int) -> GatedRNNClassifier:
    """The contender's model on the meta device: enough to count its parameters."""
    with torch.device("meta"):
        return build_model(settings.run(cell, width, 0), data)
