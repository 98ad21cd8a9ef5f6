"""Step 3 from LSTM to minLSTM: input and forget gate sum to one."""

from typing import Never

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gatedrnn.equations import ConvexScanEquations
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series


class NormalizedLSTMEquations(ConvexScanEquations):
    """Step 3 of the ladder: input and forget gate share one whole; the forget gate *keeps*.

    i = sigmoid(W_i x),  f = sigmoid(W_f x),  f' = f / (f + i),  i' = i / (f + i)
    g = tanh(W_g x),     c = f' * c + i' * g,  h = tanh(c)

    State c, output h, one bias a gate. Without the two tanh this is minLSTM.
    """

    name = "lstm-normalized"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1, "input": -1}

    def logit(self, *projected: Series) -> Series:
        i, f, _ = projected
        return normalized_log_ratio(f, i)

    def value(self, *projected: Series) -> Series:
        _, _, g = projected
        return torch.tanh(g)

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])


def normalized_log_ratio(forget: Series, input_: Series) -> Series:
    """log f - log i of the two gates from their pre-activations: sigmoid of it is f / (f + i), which where both gates
    are closed does not divide zero by zero."""
    return softplus(-input_) - softplus(-forget)


@documented
class NormalizedLSTM(RecurrentLayer[Tensor]):
    """LSTM whose input and forget gate sum to one, step 3 from LSTM to minLSTM, run by a scan; the state is c.

    The forget gate *keeps*. Without the two tanh this is minLSTM.

    Example:
        >>> layer = NormalizedLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = NormalizedLSTMEquations

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
class NormalizedLSTMCell(SingleStep[Tensor]):
    """One step of `NormalizedLSTM`; the state is c."""

    layer_class = NormalizedLSTM

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


register(NormalizedLSTM, single_step=NormalizedLSTMCell)
