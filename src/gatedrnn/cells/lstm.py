"""Long short-term memory (Hochreiter & Schmidhuber 1997)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent, TorchKernel
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class LSTMEquations(LoopEquations):
    """LSTM with input, forget and output gate; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  o = sigmoid(W_o x + U_o h)
    g = tanh(W_g x + U_g h),     c = f * c + i * g,           h = o * tanh(c)

    State (h, c), output h; two biases a gate, as `torch.nn.LSTM`. With proj_size, h = W_hr (o * tanh(c)), and that is
    what the gates read (LSTMP). Hochreiter & Schmidhuber 1997; forget gate after Gers et al. 2000; projection after
    Sak et al. 2014 (arXiv:1402.1128).
    """

    name = "lstm"
    weight_init = bias_init = "torch"
    torch_kernel = TorchKernel("LSTM", padding_gates={"input": -1.0, "forget": 1.0}, projects=True)  # c = 1 * c + 0 * g
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    projects_state = True
    recurrent_bias = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = recurrent.project(torch.sigmoid(o) * torch.tanh(c))
        return h, c


@documented
class LSTM(RecurrentLayer[tuple[Tensor, Tensor]]):
    """`torch.nn.LSTM` with masks, resets, regularisers and streaming: same parameters, state dict, values and kernels.

    The forget gate *keeps*. With `proj_size`, which must be below hidden_size, the projected output is also what the
    gates read (LSTMP, Sak et al. 2014, arXiv:1402.1128).

    Example:
        >>> layer = LSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = LSTMEquations

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
class LSTMCell(SingleStep[tuple[Tensor, Tensor]]):
    """`torch.nn.LSTMCell`: the same parameters, state dict and values."""

    layer_class = LSTM

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


register(LSTM, single_step=LSTMCell)
