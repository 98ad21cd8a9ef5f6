"""Who is compared with whom: equal layers, or equal parameters of the recurrent core."""

from dataclasses import dataclass
from math import lcm
from typing import Any

import torch

from gatedrnn.data import TaskData
from gatedrnn.errors import NoMatch
from gatedrnn.models.modeling import GatedRNNClassifier
from gatedrnn.models.structure import count_parameters, describe_structure
from gatedrnn.registry import CELLS
from gatedrnn.study.settings import CompareSettings
from gatedrnn.train.model import build_model, cell_options

MARKED, REFUSED = 0.01, 0.05
"""A residue of matched parameters above the first is marked in the report, above the second refused."""


@dataclass(frozen=True)
class Contender:
    """A cell with its widths in a comparison."""

    cell: str
    match: str
    """"baseline", "layers" or "params"."""
    hidden_size: int
    structure: dict[str, Any]
    parameters: dict[str, int]
    residue: float
    """Core parameters over those that were to be matched, minus one."""

    @property
    def name(self) -> str:
        """Also the name of its folder."""
        return self.cell if self.match == "baseline" else f"{self.cell}-{self.match}"


def contenders(settings: CompareSettings, data: TaskData) -> list[Contender]:
    """The baseline, and every other cell once for each way of matching.

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
            f"{cell}: no hidden_size brings its core within {100 * REFUSED:.0f} % of the {target:,} parameters to "
            f"match; the nearest are {unit * low} ({core(low):,}) and {unit * high} ({core(high):,}); choose a "
            "larger --hidden-size or --core"
        )
    return unit * nearest


def _contender(settings: CompareSettings, data: TaskData, cell: str, match: str, width: int, target: int) -> Contender:
    model = _model(settings, data, cell, width)
    parameters = count_parameters(model)
    residue = parameters["core"] / target - 1
    return Contender(cell, match, width, describe_structure(model), parameters, residue)


def _unit(settings: CompareSettings, cell: str) -> int:
    """What a width is a multiple of."""
    run = settings.run(cell, 1, 0)
    options, sizes = cell_options(run), []
    for layer in (CELLS[name].layer for name in run.cells):
        own = {name: value for name, value in options.items() if name in layer.options}
        sizes.append(layer.cell_class(**own).block_size)
    return lcm(*sizes)


def core_parameters(settings: CompareSettings, data: TaskData, cell: str, width: int) -> int:
    """Parameters of the recurrent core with that cell and width."""
    return count_parameters(_model(settings, data, cell, width))["core"]


def _model(settings: CompareSettings, data: TaskData, cell: str, width: int) -> GatedRNNClassifier:
    """The contender's model without memory behind its parameters: enough to count them."""
    with torch.device("meta"):
        return build_model(settings.run(cell, width, 0), data)
