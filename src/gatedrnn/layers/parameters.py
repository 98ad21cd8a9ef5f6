"""The parameters of one layer and direction: names and shapes as `torch.nn` has them, and initialisation by name."""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

from gatedrnn.equations import BlockScanEquations, Equations
from gatedrnn.layers.arguments import check_name, check_time_scale
from gatedrnn.layers.taken import why_refused
from gatedrnn.ops.backends import accumulation_dtype
from gatedrnn.shapes import Channels

Weights: TypeAlias = dict[str, Tensor]  # one layer and direction, without `_l0` and `_reverse`, in torch's order

WEIGHT_INITS = ("torch", "fan-in", "xavier", "orthogonal")
BIAS_INITS = ("torch", "zeros", "forget-one", "time-scales")
AUTHORS = "authors"
"""The scheme of a cell's authors, both of weights and of biases, where that is none of those."""
DIAGONAL_BOUND = 0.1
GAP_BOUND = 0.2
"""Of all gaps of a step together: a state that decays by their mean has a half-life of seven gaps."""
INITIAL_STATE_SPREAD = 0.5
ALWAYS_KEPT = 2.0
"""A clamped decay's bias, so far beyond its bound that hardly an input brings it back."""
LONGEST_TIME_SCALE = 64.0
"""Steps, where no other is asked for."""


def shapes(
    cell: Equations, features: int, hidden_size: int, bias: bool, proj_size: int = 0, layer_norm: bool = False
) -> dict[str, tuple[int, ...]]:
    """Name (without layer and direction) and shape of each parameter, torch's first and in torch's order."""
    rows = len(cell.projections) * hidden_size
    found: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features * cell.window)}
    if cell.multiplies_state:
        found["weight_hh"] = (rows, ((proj_size if cell.projects_state else 0) or hidden_size) // cell.heads)
    if bias:
        found["bias_ih"] = (rows,)
        if cell.recurrent_bias:
            found["bias_hh"] = (rows,)
    if proj_size:
        found["weight_hr"] = (proj_size, hidden_size)
    found |= {f"weight_{name}": (diagonal_size(cell, hidden_size),) for name in cell.diagonals}
    if cell.gap_features:
        found["weight_gap"] = (hidden_size, cell.gap_features)
        if bias:
            found["bias_gap"] = (hidden_size,)
    if layer_norm:
        found["weight_norm"] = (rows,)
    if cell.learns_initial_state:
        found["initial_state"] = (hidden_size,)
    return found


def diagonal_size(cell: Equations, hidden_size: int) -> int:
    """Elements of each of the diagonal weights: one a channel, or one a block."""
    return hidden_size // cell.block_size if isinstance(cell, BlockScanEquations) else hidden_size


def state_sizes(cell: Equations, features: int, hidden_size: int, proj_size: int = 0) -> tuple[int, ...]:
    """Channels of each tensor of `hx`; `features` of the input, the most that a layer reads."""
    first = proj_size if proj_size and cell.projects_state else hidden_size
    return (first, *(hidden_size,) * (len(cell.states) - 1), *(features,) * (cell.carried - len(cell.states)))


def check_initialisation(
    cell: Equations, weight_init: str, bias_init: str, longest_time_scale: float | None
) -> None:  # fmt: skip
    """Schemes that the cell has, and a longest time scale, if any, where there is a spread for it.

    Raises:
        ValueError: otherwise.
    """
    more = (AUTHORS,) if hasattr(cell, "fill_as_authors") else ()
    check_name("weight_init", weight_init, WEIGHT_INITS + more)
    check_name("bias_init", bias_init, BIAS_INITS + more)
    if longest_time_scale is None:
        return
    check_time_scale("longest_time_scale", longest_time_scale)
    refused = why_refused({"bias_init": bias_init, "longest_time_scale": longest_time_scale}, {cell.name: cell})
    if refused is not None:
        raise ValueError(refused)


def initialise(
    cell: Equations, weights: Mapping[str, Tensor], hidden_size: int, weight_init: str, bias_init: str,
    longest_time_scale: float | None = None,
) -> None:  # fmt: skip
    """Fill the parameters of one layer and direction by the schemes' names.

    Weights: "torch", uniform within 1/sqrt(hidden_size); "fan-in", uniform within 1/sqrt(fan-in); "xavier", Xavier
    uniform a gate; "orthogonal", the same, but an orthogonal matrix a gate where a state is read (Saxe et al. 2014,
    arXiv:1312.6120). But with "torch", diagonal weights are as their cell says (`fill_diagonals`), and what reads gaps
    from 0 to 0.2 over their number, so that every state decays; a learned initial state is normal (0, 0.5).
    Biases: "torch", uniform within 1/sqrt(hidden_size); "zeros"; "forget-one", 1 where a gate keeps and -1 where it
    replaces, set once, in `bias_ih`; "time-scales", the decays at zero input spread over time scales from 2 to the
    longest, except in blocks that begin with a decay of 1, and above a bound of HGRN, which makes them longer.
    Either: "authors", as the code of a cell's authors does (its `fill_as_authors`), where that is none of these; what
    that leaves alone is as the cell's default fills it.
    Only through `torch.nn.init`: transformers guards those while it loads a file.
    """
    if AUTHORS in (weight_init, bias_init):
        first = cell.weight_init if weight_init == AUTHORS else weight_init
        initialise(
            cell, weights, hidden_size, first, cell.bias_init if bias_init == AUTHORS else bias_init, longest_time_scale
        )
        chosen = {n: w for n, w in weights.items() if (bias_init if n.startswith("bias") else weight_init) == AUTHORS}
        _fill_by(cell.fill_as_authors, chosen)  # type: ignore[attr-defined]
        return
    diagonals = [f"weight_{name}" for name in cell.diagonals] if weight_init != "torch" else []
    for name, weight in weights.items():
        if name in diagonals[:1]:  # all at once: one may follow from another
            fill = getattr(cell, "fill_diagonals", _fill_near_zero)
            _fill_by(fill, {each.removeprefix("weight_"): weights[each] for each in diagonals})
        if name in diagonals or not weight.numel():  # a single step may have no channels
            continue
        if getattr(weight, "_is_hf_initialized", False):
            continue  # transformers has loaded it, and its guard does not see into the slices below
        if name.startswith("bias"):
            _fill_bias(cell, name, weight.detach(), hidden_size, bias_init, longest_time_scale or LONGEST_TIME_SCALE)
        elif name == "weight_norm":
            nn.init.ones_(weight)
        elif name == "initial_state":
            nn.init.normal_(weight, std=INITIAL_STATE_SPREAD)
        else:
            _fill_weight(cell, name, weight.detach(), hidden_size, weight_init)


def _fill_by(fill: Callable[[Mapping[str, Tensor]], None], weights: Mapping[str, Tensor]) -> None:
    """By a cell's own function; what transformers has loaded stays."""
    drawn = {name: weight.detach().clone() for name, weight in weights.items()}
    with torch.no_grad():
        fill(drawn)
        for name, weight in weights.items():
            if not getattr(weight, "_is_hf_initialized", False):
                weight.copy_(drawn[name])


def _fill_near_zero(weights: Mapping[str, Tensor]) -> None:
    for weight in weights.values():
        nn.init.uniform_(weight, -DIAGONAL_BOUND, DIAGONAL_BOUND)


def _fill_weight(cell: Equations, name: str, weight: Tensor, hidden_size: int, scheme: str) -> None:
    if scheme == "torch":
        bound = 1 / math.sqrt(hidden_size)
        nn.init.uniform_(weight, -bound, bound)
    elif name == "weight_gap":
        nn.init.uniform_(weight, 0.0, GAP_BOUND / weight.shape[1])
    elif scheme == "fan-in":
        bound = 1 / math.sqrt(weight.shape[1])
        nn.init.uniform_(weight, -bound, bound)
    else:
        for block in weight.chunk(1 if name == "weight_hr" else len(cell.projections)):
            if scheme == "orthogonal" and name == "weight_hh":
                for head in block.chunk(cell.heads):
                    # There is no orthogonal matrix in half precision.
                    exact = torch.empty_like(head, dtype=accumulation_dtype(head.dtype))
                    head.copy_(nn.init.orthogonal_(exact))
            else:
                nn.init.xavier_uniform_(block)


def _fill_bias(cell: Equations, name: str, bias: Channels, hidden_size: int, scheme: str, longest: float) -> None:
    if scheme == "torch":
        bound = 1 / math.sqrt(hidden_size)
        nn.init.uniform_(bias, -bound, bound)
        return
    nn.init.zeros_(bias)
    if name != "bias_ih":
        return  # a second bias would add up with the first
    for gate, block in zip(cell.projections, bias.chunk(len(cell.projections)), strict=True):
        sign = cell.decay_gates.get(gate, 0)
        if scheme == "forget-one":
            nn.init.constant_(block, sign)
        elif scheme == "time-scales" and sign:
            spread_time_scales(block, sign, longest)
            if cell.clamped_decay:
                block.sigmoid_()
            if cell.begins_keeping:
                blocks = block.view(cell.block_size, -1)
                nn.init.constant_(blocks[:, : math.ceil(cell.begins_keeping * blocks.shape[1])], ALWAYS_KEPT)


def spread_time_scales(bias: Channels, sign: int, longest: float) -> None:
    """Fill a decay gate's bias so that sigmoid(sign · bias) = 1 - 1/tau, tau - 1 log-uniform from 1 to `longest` - 1.

    A state keeps 1 - 1/tau of itself at each step: for a long tau it has decayed to 1/e after as many steps. Where two
    gates sum to one the decay is f / (f + i), with another spread. The idea, with another spread, is the chrono
    initialisation of Tallec & Ollivier 2018 (arXiv:1804.11188). `sign` as in `Equations.decay_gates`.
    """
    # bias = sign · log(tau - 1) is then plainly uniform.
    edge = sign * math.log(longest - 1)
    nn.init.uniform_(bias, min(0.0, edge), max(0.0, edge))
