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
    """LSTM with an exponential input gate and a mean in the place of a sum; the forget gate *keeps*."""

    name = "slstm"
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    # The input gate is no sigmoid: its exponential acts.
    candidates = ("candidate", "input")
    states = ("h", "c", "n", "m")
    bias_init = "time-scales"
    joint_states = True

    def __init__(self, heads: int = 1) -> None:
        if heads < 1:
            raise ValueError(f"heads must be 1 or more, got {heads}")
        # hidden_size must be a multiple of the heads, which `check_blocks` asks of a block size.
        self.heads = self.block_size = heads

    def fill_as_authors(self, weights: Mapping[str, Tensor]) -> None:
        """W normal of variance 2 / (5 features), U = 0; in each head the forget gate's bias falls from 5 to -7 as a
        power, 0.3, of the channel's place (of all their blocks, in the first), other biases are 0."""
        for name, weight in weights.items():
            if name == "weight_ih":
                # "Small init" of the authors' code (Nguyen & Salazar 2019, arXiv:1910.05895).
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
        # Before the first step n is 0 and nothing is kept: the initial m of 0 must not enter the maximum.
        log_f = torch.where(n == 0, log_i, m + logsigmoid(f))
        # m is the larger exponent (the paper's stabiliser state): no exp below exceeds 1, and none overflows.
        m = torch.maximum(log_i, log_f)
        i, f = torch.exp(log_i - m), torch.exp(log_f - m)
        c = f * c + i * torch.tanh(z)
        n = f * n + i
        # n is 1 or more after the first step; the clamp is for an n below 1 that was passed in.
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

    Equations:
        p = W_i x + U_i h,  q = log sigmoid(W_f x + U_f h),  z = tanh(W_z x + U_z h),  o = sigmoid(W_o x + U_o h)
        m' = max(p, m + q),  i = exp(p - m'),  f = exp(m + q - m')
        c' = f * c + i * z,  n' = f * n + i,   h' = o * c' / n'

    The forget gate *keeps*. n sums the weights of what c sums, and m holds exponents down: h does not read it. Where n
    = 0, before the first step, m' = p and f = 1; after it n is 1 or more. h' divides by max(n', 1), which differs only
    where hx holds an n below 1; to start from a c of your own, pass n = 1 and m = 0.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, a multiple of heads.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that the output is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: 0, for the states mean something together alone.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of h, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: rate at which an element of `weight_hh_l0` is zeroed for a whole batch, 0 to below 1.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Keyword Args:
        heads: blocks on the diagonal of each gate's recurrent matrix U, 1 or more; 4 in the authors' code.

    Weights:
        weight_ih_l0: (4 · hidden_size, input_size), rows of input, forget, candidate, output.
        weight_hh_l0: (4 · hidden_size, hidden_size / heads).
        bias_ih_l0: (4 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (4 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of the forget gate spread its decay over 2 to
        64 steps, others are 0 ("time-scales").
        "authors" is the scheme of the authors' code, which `gatedrnn describe` prints.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.
        c: (L, batch, hidden_size).
        n: (L, batch, hidden_size).
        m: (L, batch, hidden_size).

    Example:
        >>> layer = SLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n, n_n, m_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Beck et al. 2024, arXiv:2405.04517.
    """

    cell_class = SLSTMEquations
    wrapper = staticmethod(lambda cell: Wrapper(blocks=cell.heads))


class SLSTMCell(Cell[tuple[Tensor, Tensor, Tensor, Tensor]]):
    """One step of `SLSTM`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more, a multiple of heads.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `SLSTM`.
        heads: as in `SLSTM`.

    Weights:
        weight_ih: (4 · hidden_size, input_size), rows of input, forget, candidate, output.
        weight_hh: (4 · hidden_size, hidden_size / heads).
        bias_ih: (4 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (h, c, n, m), each (batch, hidden_size), without batch for one input; None for
            zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = SLSTMCell(3, 8)
        >>> (h, c, n, m) = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = SLSTM


register(SLSTM, single_step=SLSTMCell, variants=({"heads": 2},))
