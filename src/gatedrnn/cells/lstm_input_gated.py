"""Step 2 from LSTM to minLSTM: gates read the input alone."""

from typing import Never

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gatedrnn.equations import GappedScanEquations
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series


class InputGatedLSTMEquations(GappedScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; the forget gate *keeps*.

    i = sigmoid(W_i x),  f = sigmoid(W_f x),  g = tanh(W_g x),  c = f * c + i * g,  h = tanh(c)

    State c, output h, one bias a gate. A gap raises f alone: what is written does not grow with it.
    """

    name = "lstm-input-gated"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        i, f, g = projected
        return torch.sigmoid(f), torch.sigmoid(i) * torch.tanh(g)

    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        _, f, _ = projected
        return torch.exp(gaps * logsigmoid(f)), self.coefficients(*projected)[1]

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])


@documented
class InputGatedLSTM(RecurrentLayer[Tensor]):
    """LSTM whose gates read the input alone, step 2 from LSTM to minLSTM, run by a scan; the state is c.

    The forget gate *keeps*.

    Example:
        >>> layer = InputGatedLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = InputGatedLSTMEquations

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
class InputGatedLSTMCell(SingleStep[Tensor]):
    """One step of `InputGatedLSTM`; the state is c."""

    layer_class = InputGatedLSTM

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


register(InputGatedLSTM, single_step=InputGatedLSTMCell)
