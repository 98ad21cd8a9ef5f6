"""The steps between LSTM and minLSTM: each takes one thing away from the one before."""

import torch
from torch.nn.functional import softplus

from gatedrnn.equations import LoopEquations, Recurrent, ScanEquations
from gatedrnn.shapes import Series, State, Step


class NoOutputGateLSTMEquations(LoopEquations):
    """Step 1 of the ladder: an LSTM without its output gate; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h)
    c = f * c + i * g,           h = tanh(c)

    State c alone, output h, one bias a gate.
    """

    name = kernel = "lstm-no-output-gate"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (c,) = state
        h = self.output(c)
        i, f, g = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        return (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g),)

    def output(self, *state: Series) -> Series:
        return torch.tanh(state[0])


class InputGatedLSTMEquations(ScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; the forget gate *keeps*.

    i = sigmoid(W_i x),  f = sigmoid(W_f x),  g = tanh(W_g x),  c = f * c + i * g,  h = tanh(c)

    State c, output h, one bias a gate.
    """

    name = kernel = "lstm-input-gated"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        i, f, g = projected
        return torch.sigmoid(f), torch.sigmoid(i) * torch.tanh(g)

    def output(self, *state: Series) -> Series:
        return torch.tanh(state[0])


class NormalizedLSTMEquations(ScanEquations):
    """Step 3 of the ladder: input and forget gate share one whole; the forget gate *keeps*.

    i = sigmoid(W_i x),  f = sigmoid(W_f x),  f' = f / (f + i),  i' = i / (f + i)
    g = tanh(W_g x),     c = f' * c + i' * g,  h = tanh(c)

    State c, output h, one bias a gate. Without the two tanh this is minLSTM.
    """

    name = kernel = "lstm-normalized"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1, "input": -1}

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        i, f, g = projected
        keep = normalized_share(f, i)
        return keep, (1 - keep) * torch.tanh(g)

    def output(self, *state: Series) -> Series:
        return torch.tanh(state[0])


def normalized_log_ratio(forget: Series, input_: Series) -> Series:
    """log f - log i of the two gates from their pre-activations: sigmoid of it is f / (f + i)."""
    return softplus(-input_) - softplus(-forget)


def normalized_share(forget: Series, input_: Series) -> Series:
    """f / (f + i) from pre-activations; where both gates are shut this does not divide zero by zero."""
    return torch.sigmoid(normalized_log_ratio(forget, input_))
