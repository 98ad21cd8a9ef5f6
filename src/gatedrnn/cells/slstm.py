"""LSTM with exponential gates (Beck et al. 2024)."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.layers import Wrapper
from gatedrnn.shapes import State, Step


class SLSTMEquations(LoopEquations):
    """LSTM with an exponential input gate and a mean in the place of a sum; the forget gate *keeps*.

    p = W_i x + U_i h,  q = log sigmoid(W_f x + U_f h),  z = tanh(W_z x + U_z h),  o = sigmoid(W_o x + U_o h)
    m' = max(p, m + q),  i = exp(p - m'),  f = exp(m + q - m')
    c' = f * c + i * z,  n' = f * n + i,   h' = o * c' / n'

    State (h, c, n, m), output h. n sums the weights of what c sums, and m holds exponents down: h does not read it.
    Where n = 0, before the first step, m' = p and f = 1; after it n is 1 or more. h' divides by max(n', 1), which
    differs only where hx holds an n below 1; to start from a c of your own, pass n = 1 and m = 0. U has blocks on its
    diagonal, one a head. Beck et al. 2024 (arXiv:2405.04517).
    """

    name = "slstm"
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    candidates = ("candidate", "input")  # whose exponential acts
    states = ("h", "c", "n", "m")
    bias_init = "time-scales"
    joint_states = True

    def __init__(self, heads: int = 1) -> None:
        if heads < 1:
            raise ValueError(f"heads must be 1 or more, got {heads}")
        self.heads = self.block_size = heads

    def fill_as_authors(self, weights: Mapping[str, Tensor]) -> None:
        """W normal of variance 2 / (5 features), U = 0; in each head the forget gate's bias falls from 5 to -7 as a
        power, 0.3, of the channel's place (of all their blocks, in the first), other biases are 0."""
        for name, weight in weights.items():
            if name == "weight_ih":
                nn.init.normal_(weight, std=math.sqrt(2 / (5 * weight.shape[1])))
            elif name in ("weight_hh", "bias_ih"):
                nn.init.zeros_(weight)
            if name == "bias_ih":
                channels = len(weight) // 4 // self.heads
                positions = torch.linspace(0, 1, channels, dtype=weight.dtype, device=weight.device)
                weight.chunk(4)[self.projections.index("forget")].copy_((5 - 12 * positions**0.3).repeat(self.heads))

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c, n, m = state
        log_i, f, z, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        log_f = torch.where(n == 0, log_i, m + logsigmoid(f))  # there is nothing to keep before the first step
        m = torch.maximum(log_i, log_f)
        i, f = torch.exp(log_i - m), torch.exp(log_f - m)
        c = f * c + i * torch.tanh(z)
        n = f * n + i
        return torch.sigmoid(o) * c / n.clamp(min=1.0), c, n, m

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h, c, n, m), products = state, np.split(state[0] @ weights["weight_hh"].T, 4, axis=1)
        i, f, z, o = (x + u for x, u in zip(gates, products, strict=True))
        log_f = np.where(n == 0, i, m - np.logaddexp(0, -f))
        m = np.maximum(i, log_f)
        c = np.exp(log_f - m) * c + np.exp(i - m) * np.tanh(z)
        n = np.exp(log_f - m) * n + np.exp(i - m)
        h = sigmoid(o) * c / np.maximum(n, 1)
        return h, (h, c, n, m)


class SLSTM(Layer[tuple[Tensor, Tensor, Tensor, Tensor]]):
    """sLSTM: exponential input gate, normalised state, recurrent blocks (Beck et al. 2024, arXiv:2405.04517).

    The forget gate *keeps*. Zoneout is refused: the states mean something together alone.

    Args:
        heads: blocks on the diagonal of each gate's recurrent matrix, 4 in the authors' code; hidden_size must be a
            multiple.

    Example:
        >>> layer = SLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n, n_n, m_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = SLSTMEquations
    wrapper = staticmethod(lambda cell: Wrapper(blocks=cell.heads))


class SLSTMCell(Cell[tuple[Tensor, Tensor, Tensor, Tensor]]):
    """One step of sLSTM (Beck et al. 2024, arXiv:2405.04517)."""

    layer_class = SLSTM


register(SLSTM, single_step=SLSTMCell, variants=({"heads": 2},))
