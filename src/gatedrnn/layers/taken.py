"""Which settings of recurrent layers a cell takes, and why others are refused."""

from collections.abc import Mapping

from gatedrnn.equations import Equations
from gatedrnn.layers.dropout import REGULARISERS

OF_LAYERS = (*REGULARISERS, "layer_norm", "weight_init", "bias_init", "longest_time_scale")
"""Settings of recurrent layers, which nothing else has."""


def takes(cell: Equations | type[Equations], name: str, bias_init: str | None = None) -> bool:
    """Whether a setting has an effect in layers of a cell, whose biases are initialised by its own scheme if None."""
    match name:
        case "weight_dropout":
            return cell.multiplies_state
        case "zoneout":
            return not cell.joint_states
        case "longest_time_scale":
            return bool(cell.decay_gates) and (bias_init or cell.bias_init) == "time-scales"
        case _:
            return True


def why_refused(
    given: Mapping[str, object], cells: Mapping[str, Equations | type[Equations]], backbone: str | None = None
) -> str | None:
    """Why one of these settings is for none of the cells, given by name, or not for a backbone; None if each is for
    some, or not set."""
    bias_init = given.get("bias_init")
    scheme = bias_init if isinstance(bias_init, str) else None
    for name, value in given.items():
        if not value or any(takes(cell, name, scheme) for cell in cells.values()):
            continue
        if backbone is not None:
            return f"{name} is of recurrent layers, and {backbone} has none; leave it out"
        return f"{name} {_why(name, cells, scheme)}"
    return None


def _why(name: str, cells: Mapping[str, Equations | type[Equations]], bias_init: str | None) -> str:
    names = ", ".join(cells)
    if name == "weight_dropout":
        return f"drops recurrent weights, and {names} has none; leave it at 0"
    if name == "zoneout":
        return f"mixes each state by itself, and those of {names} belong together; leave it at 0"
    if not any(cell.decay_gates for cell in cells.values()):
        return f"spreads the biases of a gate that decays, and {names} has none; leave it out"
    schemes = ", ".join(dict.fromkeys(bias_init or cell.bias_init for cell in cells.values()))
    return f"goes with bias_init 'time-scales', and that of {names} is {schemes}; leave it out"
