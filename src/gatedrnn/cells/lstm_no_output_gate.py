"""Step 1 from LSTM to minLSTM: no output gate."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series, State, Step


class NoOutputGateLSTMEquations(LoopEquations):
    """Step 1 of the ladder: an LSTM without its output gate; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h)
    c = f * c + i * g,           h = tanh(c)

    State c alone, output h, one bias a gate.
    """

    name = "lstm-no-output-gate"
    bias_init = "forget-one"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (c,) = state
        h = torch.tanh(c)
        i, f, g = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        return (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g),)

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])


@documented
class NoOutputGateLSTM(RecurrentLayer[Tensor]):
    """LSTM without its output gate, step 1 from LSTM to minLSTM; the forget gate *keeps*, and the state is c.

    Example:
        >>> layer = NoOutputGateLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = NoOutputGateLSTMEquations

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
class NoOutputGateLSTMCell(SingleStep[Tensor]):
    """One step of `NoOutputGateLSTM`; the state is c."""

    layer_class = NoOutputGateLSTM

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


register(NoOutputGateLSTM, single_step=NoOutputGateLSTMCell)
