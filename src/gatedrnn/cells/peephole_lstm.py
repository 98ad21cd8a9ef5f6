"""LSTM with peepholes."""

import torch

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.shapes import State, Step


class PeepholeLSTMEquations(LoopEquations):
    """LSTM whose gates see the cell state through diagonal weights; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h + w_ci * c),  f = sigmoid(W_f x + U_f h + w_cf * c),  g = tanh(W_g x + U_g h)
    c' = f * c + i * g,  o = sigmoid(W_o x + U_o h + w_co * c'),  h' = o * tanh(c')

    i and f see the state before the step, o sees the state after it. State (h, c), output h, one bias a gate. With
    proj_size, h' = W_hr (o * tanh(c')): the LSTMP of Sak et al. 2014 (arXiv:1402.1128). Gers et al. 2002.
    """

    name = "lstm-peephole"
    kernel = "lstm"
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = 2
    peepholes = ("ci", "cf", "co")
    projects_state = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        w_ci, w_cf, w_co = (recurrent.peephole(name) for name in self.peepholes)
        c = torch.sigmoid(f + w_cf * c) * c + torch.sigmoid(i + w_ci * c) * torch.tanh(g)
        h = recurrent.project(torch.sigmoid(o + w_co * c) * torch.tanh(c))
        return h, c
