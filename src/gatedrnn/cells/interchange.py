"""Layers from weights of other libraries."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gatedrnn.cells.mingru import MinGRU
from gatedrnn.cells.minlstm import MinLSTM

_LAYERS: dict[str, tuple[type[MinGRU] | type[MinLSTM], int]] = {
    "to_hidden_and_gate.weight": (MinGRU, 2),
    "to_hidden_and_f_i_gate.weight": (MinLSTM, 3),
}


def from_min_gru_pytorch(module: nn.Module | Mapping[str, Tensor]) -> MinGRU | MinLSTM:
    """Return a layer with the weights of a `minGRU` or `minLSTM` of the package minGRU-pytorch (lucidrains).

    Args:
        module: the module, or its state dict.

    Returns:
        A `MinGRU` or `MinLSTM` without biases, `batch_first`, with `proj_size` where the module has `to_out`.
        A carried state of theirs is ours with two axes swapped: (batch, 1, channels) there, (1, batch, channels) here.

    Raises:
        ValueError: a state dict of another shape.

    Example:
        >>> from_min_gru_pytorch({"to_hidden_and_gate.weight": torch.randn(16, 3)})
        MinGRU(3, 8, bias=False, batch_first=True)
    """
    weights: dict[str, Tensor] = dict(module.state_dict() if isinstance(module, nn.Module) else module)
    keys = [key for key in _LAYERS if key in weights]
    # A weight that is not read would be dropped in silence.
    unknown = sorted(set(weights) - {*_LAYERS, "to_out.weight"})
    if len(keys) != 1 or unknown:
        raise ValueError(
            f"a minGRU or minLSTM holds {' or '.join(_LAYERS)}, and maybe to_out.weight; got {sorted(weights)}"
        )
    layer_class, gates = _LAYERS[keys[0]]
    gate_weight, out = weights[keys[0]], weights.get("to_out.weight")
    if gate_weight.dim() != 2 or gate_weight.shape[0] % gates:
        raise ValueError(f"{keys[0]} must be ({gates} · channels, features), got {tuple(gate_weight.shape)}")
    channels = gate_weight.shape[0] // gates
    if out is not None and (out.dim() != 2 or out.shape[1] != channels):
        raise ValueError(f"to_out.weight must be (features, {channels}), got {tuple(out.shape)}")
    layer = layer_class(
        gate_weight.shape[1], channels, bias=False, batch_first=True,
        proj_size=0 if out is None else out.shape[0], device=gate_weight.device, dtype=gate_weight.dtype,
    )  # fmt: skip
    with torch.no_grad():
        layer.weight_ih_l0.copy_(gate_weight)
        if out is not None:
            layer.weight_hr_l0.copy_(out)
    return layer
