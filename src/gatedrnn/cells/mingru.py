"""Minimal GRU (Feng et al. 2024, arXiv:2410.01201)."""

from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import ACTIVATIONS, Activation, check_activation, numpy_g, sigmoid
from gatedrnn.equations import Arrays, ConvexScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series


class MinGRUEquations(ConvexScanEquations):
    """Minimal GRU: one gate, which sees the input only; z *replaces* (in `gru` it keeps)."""

    name = "mingru"
    projections = ("candidate", "update")
    decay_gates = {"update": -1}

    def __init__(self, activation: Activation = "g", log_space: bool = False) -> None:
        check_activation(activation, log_space)
        self.activation, self.log_space = activation, log_space

    def logit(self, *projected: Series) -> Series:
        _, update = projected
        return -update

    def value(self, *projected: Series) -> Series:
        v, _ = projected
        return ACTIVATIONS[self.activation](v)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, z), (h,) = gates, state
        h = (1 - sigmoid(z)) * h + sigmoid(z) * (numpy_g(v) if self.activation == "g" else v)
        return h, (h,)


class MinGRU(Layer[Tensor]):
    """minGRU (Feng et al. 2024, arXiv:2410.01201), run by a scan; z *replaces* (in `GRU` it keeps).

    Equations:
        z = sigmoid(W_z x),  h = (1 - z) * h + z * g(W_v x)

    g(v) is v + 1/2 where v is 0 or more, and sigmoid(v) below: the state stays positive. A gap raises 1 - z to it.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that the output is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of what a step adds is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Keyword Args:
        activation: of the candidate: "g" (appendix B.3 of the paper, a positive state) or "identity" (appendix A).
        log_space: run whole sequences by the paper's scan over logarithms, for fidelity: slower, and its error grows
            with the length; needs the activation g; no resets, no gaps, no zoneout, no state_dropout.

    Weights:
        weight_ih_l0: (2 · hidden_size, input_size), rows of candidate, update.
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of the update gate spread its decay over 2 to
        64 steps, others are 0 ("time-scales").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, gaps, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = MinGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape)
        ((2, 5, 8), (1, 2, 8))

    Source:
        Feng et al. 2024, arXiv:2410.01201: g of appendix B.3, or identity of appendix A.
    """

    cell_class = MinGRUEquations


class MinGRUCell(Cell[Tensor]):
    """One step of `MinGRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `MinGRU`.
        activation, log_space: as in `MinGRU`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of candidate, update.
        bias_ih: (2 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = MinGRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = MinGRU


register(MinGRU, single_step=MinGRUCell, variants=({"activation": "identity"},))
