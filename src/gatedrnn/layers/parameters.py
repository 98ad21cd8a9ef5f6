"""The parameters of one layer and direction: names and shapes as `torch.nn` has them, and initialisation by name."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from gatedrnn.equations import Equations
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kinds import kind_of
from gatedrnn.layers.arguments import check_name, check_time_scale, why_refused
from gatedrnn.layers.wrappers import PLAIN, Wrapper
from gatedrnn.shapes import Channels

_TORCH_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
"""Parameters that torch's layers have, in their order."""
WEIGHT_INITS = ("torch", "fan-in", "xavier", "orthogonal")
BIAS_INITS = ("torch", "zeros", "forget-one", "time-scales")
AUTHORS = "authors"
"""The scheme of a cell's authors, for weights and for biases, if it is none of those."""
_DIAGONAL_BOUND = 0.1
_GAP_BOUND = 0.2
"""The bound of `weight_gap` over all gaps of a step: a decay by its mean has a half-life of seven gaps."""
_INITIAL_STATE_SPREAD = 0.5
_ALWAYS_KEPT = 2.0
"""The bias of a clamped decay that is to stay 1: so far beyond the bound that hardly any input brings it back."""
_MAX_TIME_SCALE = 64.0
"""The default of `longest_time_scale`, in steps."""


def shapes(
    cell: Equations, features: int, hidden_size: int, bias: bool, proj_size: int = 0, layer_norm: bool = False,
    wrapper: Wrapper = PLAIN,
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """Return name (without layer and direction) and shape of each parameter, torch's first and in torch's order."""
    rows = len(cell.projections) * hidden_size
    width = (proj_size if cell.projects_state else 0) or hidden_size
    others = kind_of(cell).shapes(cell, hidden_size, width, bias)
    by_name: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features)}
    by_name |= {"bias_ih": (rows,)} if bias else {}
    by_name |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
    by_name |= others
    by_name |= {"weight_norm": (rows,)} if layer_norm else {}
    # In torch's order, so that a list of parameters from `torch.nn` fits one by one.
    first = [name for name in _TORCH_NAMES if name in by_name]
    last = [name for name in ("weight_norm", "initial_state") if name in by_name]
    between = [name for name in by_name if name not in (*first, *last)]
    return wrapper.stored({name: by_name[name] for name in (*first, *between, *last)})


def check_initialisation(
    cell: Equations, weight_init: str, bias_init: str, longest_time_scale: float | None
) -> None:  # fmt: skip
    """Check that the cell has these schemes, and a spread of time scales if a longest one is set.

    Raises:
        ValueError: otherwise.
    """
    extra = () if cell.fill_as_authors is None else (AUTHORS,)
    check_name("weight_init", weight_init, WEIGHT_INITS + extra)
    check_name("bias_init", bias_init, BIAS_INITS + extra)
    if longest_time_scale is None:
        return
    check_time_scale("longest_time_scale", longest_time_scale)
    refused = why_refused({"bias_init": bias_init, "longest_time_scale": longest_time_scale}, {cell.name: cell})
    if refused is not None:
        raise ValueError(refused)


def initialise(
    cell: Equations, weights: Mapping[str, Tensor], hidden_size: int, weight_init: str, bias_init: str,
    longest_time_scale: float | None = None, blocks: int = 1,
) -> None:  # fmt: skip
    """Fill the parameters of one layer and direction by the schemes' names.

    Weights: "torch", uniform within 1/sqrt(hidden_size); "fan-in", uniform within 1/sqrt(fan-in); "xavier", Xavier
    uniform a gate; "orthogonal", the same, but an orthogonal matrix a gate where a state is read (Saxe et al. 2014,
    arXiv:1312.6120). Except with "torch", a cell initialises its diagonal weights (`fill_diagonals`), and weights of
    gaps are uniform from 0 to 0.2 over their number, so that every state decays. A learned initial state is normal
    (0, 0.5).
    Biases: "torch", uniform within 1/sqrt(hidden_size); "zeros"; "forget-one", 1 where a gate keeps and -1 where it
    replaces, set once, in `bias_ih`; "time-scales", the decays at zero input spread over time scales from 2 to the
    longest, except in blocks that begin with a decay of 1, and above a bound of HGRN, which makes them longer.
    Either: "authors", as in the code of a cell's authors (its `fill_as_authors`), if that is none of these; parameters
    that it leaves out get the cell's default.
    All calls go through `torch.nn.init`, which transformers guards while it loads a file.
    """
    if AUTHORS in (weight_init, bias_init):
        # The defaults first: the authors' code may leave out some parameters.
        first = kind_of(cell).facts(cell).weight_init if weight_init == AUTHORS else weight_init
        second = cell.bias_init if bias_init == AUTHORS else bias_init
        initialise(cell, weights, hidden_size, first, second, longest_time_scale, blocks)
        chosen = {n: w for n, w in weights.items() if (bias_init if n.startswith("bias") else weight_init) == AUTHORS}
        assert cell.fill_as_authors is not None
        _fill_by(cell.fill_as_authors, chosen)
        return
    diagonals = [f"weight_{name}" for name in cell.diagonals] if weight_init != "torch" else []
    for name, weight in weights.items():
        if name in diagonals[:1]:  # all at once: one may follow from another
            _fill_by(
                cell.fill_diagonals or _fill_near_zero,
                {each.removeprefix("weight_"): weights[each] for each in diagonals},
            )
        if name in diagonals or not weight.numel():  # a single step may have no channels
            continue
        if getattr(weight, "_is_hf_initialized", False):
            continue  # transformers has loaded it, and its guard does not see into the slices below
        if name.startswith("bias"):
            _fill_bias(cell, name, weight.detach(), hidden_size, bias_init, longest_time_scale or _MAX_TIME_SCALE)
        elif name == "weight_norm":
            nn.init.ones_(weight)
        elif name == "initial_state":
            nn.init.normal_(weight, std=_INITIAL_STATE_SPREAD)
        else:
            _fill_weight(cell, name, weight.detach(), hidden_size, weight_init, blocks)


def _fill_by(fill: Callable[[Mapping[str, Tensor]], None], weights: Mapping[str, Tensor]) -> None:
    """Fill weights by a cell's own function, except those that transformers has loaded."""
    # On copies: the functions fill in place, and what transformers has loaded must stay.
    drawn = {name: weight.detach().clone() for name, weight in weights.items()}
    with torch.no_grad():
        fill(drawn)
        for name, weight in weights.items():
            if not getattr(weight, "_is_hf_initialized", False):
                weight.copy_(drawn[name])


def _fill_near_zero(weights: Mapping[str, Tensor]) -> None:
    for weight in weights.values():
        nn.init.uniform_(weight, -_DIAGONAL_BOUND, _DIAGONAL_BOUND)


def _fill_weight(
    cell: Equations, name: str, weight: Tensor, hidden_size: int, scheme: str, blocks: int
) -> None:  # fmt: skip
    if scheme == "torch":
        bound = 1 / math.sqrt(hidden_size)
        nn.init.uniform_(weight, -bound, bound)
    elif name == "weight_gap":
        nn.init.uniform_(weight, 0.0, _GAP_BOUND / weight.shape[1])
    elif scheme == "fan-in":
        bound = 1 / math.sqrt(weight.shape[1])
        nn.init.uniform_(weight, -bound, bound)
    else:
        # Gate by gate: the fan-out of the stacked matrix is that of one gate times their number.
        for block in weight.chunk(1 if name == "weight_hr" else len(cell.projections)):
            if scheme == "orthogonal" and name == "weight_hh":
                for matrix in block.chunk(blocks):
                    # There is no orthogonal matrix in half precision.
                    exact = torch.empty_like(matrix, dtype=accumulation_dtype(matrix.dtype))
                    matrix.copy_(nn.init.orthogonal_(exact))
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
            facts = kind_of(cell).facts(cell)
            if facts.bias_is_decay:
                # Here the bias is the decay, and `spread_time_scales` gave its logit.
                block.sigmoid_()
            if facts.begins_with_kept:
                blocks = block.view(cell.block_size, -1)
                nn.init.constant_(blocks[:, : math.ceil(facts.begins_with_kept * blocks.shape[1])], _ALWAYS_KEPT)


def spread_time_scales(bias: Channels, sign: int, longest: float) -> None:
    """Fill a decay gate's bias so that sigmoid(sign · bias) = 1 - 1/tau, tau - 1 log-uniform from 1 to `longest` - 1.

    A state keeps 1 - 1/tau of itself at each step: for a long tau it has decayed to 1/e after as many steps. Where two
    gates sum to one the decay is f / (f + i), with another spread. The idea, with another spread, is the chrono
    initialisation of Tallec & Ollivier 2018 (arXiv:1804.11188). `sign` as in `Equations.decay_gates`.
    """
    # bias = sign · log(tau - 1) is then plainly uniform.
    edge = sign * math.log(longest - 1)
    nn.init.uniform_(bias, min(0.0, edge), max(0.0, edge))
