"""Step 2 from GRU to minGRU: gates read the input alone."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import ConvexScanEquations
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series


class InputGatedGRUEquations(ConvexScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; z *keeps*.

    z = sigmoid(W_z x),  n = tanh(W_n x),  h = (1 - z) * n + z * h

    State h, which is the output; one bias a gate. With z the other way round and g in tanh's place this is minGRU.
    """

    name = "gru-input-gated"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def logit(self, *projected: Series) -> Series:
        update, _ = projected
        return update

    def value(self, *projected: Series) -> Series:
        _, n = projected
        return torch.tanh(n)


@documented
class InputGatedGRU(RecurrentLayer[Tensor]):
    """GRU whose gates read the input alone, step 2 from GRU to minGRU, run by a scan; z *keeps*.

    Example:
        >>> layer = InputGatedGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = InputGatedGRUEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


@documented
class InputGatedGRUCell(SingleStep[Tensor]):
    """One step of `InputGatedGRU`."""

    layer_class = InputGatedGRU

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, 
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


register(InputGatedGRU, single_step=InputGatedGRUCell)
