"""Long short-term memory."""

import torch

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.shapes import State, Step


class LSTMEquations(LoopEquations):
    """LSTM with input, forget and output gate; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  o = sigmoid(W_o x + U_o h)
    g = tanh(W_g x + U_g h),     c = f * c + i * g,           h = o * tanh(c)

    State (h, c), output h; two biases a gate, as `torch.nn.LSTM`. With proj_size, h = W_hr (o * tanh(c)), and that is
    what the gates read (LSTMP). Hochreiter & Schmidhuber 1997; forget gate after Gers et al. 2000; projection after
    Sak et al. 2014 (arXiv:1402.1128).
    """

    name = kernel = "lstm"
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = 2
    projects_state = True
    recurrent_bias = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = recurrent.project(torch.sigmoid(o) * torch.tanh(c))
        return h, c
