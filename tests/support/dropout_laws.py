"""What the tests of dropout and zoneout share: layers with masks, masks cut by hand, a plain layer that bears them."""

import torch
from layer_laws import (
    CELLS,
    DIAGONAL_CELLS,
    HIDDEN,
    INPUT_GATED_CELLS,
    JOINT,
    LOOP_CELLS,
    PROJECTED_STATES,
    as_tuple,
    layer_of,
    packed_up,
)
from torch.func import functional_call

from gatedrnn.layers import DropoutMasks

RATES = {"zoneout": 0.3, "input_dropout": 0.4, "state_dropout": 0.3, "weight_dropout": 0.2}
REGULARISERS = RATES | {"layer_norm": True}
TANH = ("lstm-no-output-gate", "lstm-input-gated", "lstm-normalized")  # whose output is tanh of the state
CASES = [
    (name, what)
    for name in CELLS
    for what in (*REGULARISERS, "all")
    if (what != "weight_dropout" or name in LOOP_CELLS)  # the others have no recurrent matrix
    and not (what == "zoneout" and name in JOINT)
]
OF_H = {"para-lstm": ("af", "ag", "ao")}  # diagonal weights of h, where others are of c, which is not dropped


def regularised(name, what="all", *sizes, **kwargs):
    """A layer with one regulariser, or with all that the cell allows and then, where it can, a projection."""
    chosen = REGULARISERS if what == "all" else {what: REGULARISERS[what]}
    if name not in LOOP_CELLS:
        chosen = {k: v for k, v in chosen.items() if k != "weight_dropout"}
    if name in JOINT:
        chosen = {k: v for k, v in chosen.items() if k != "zoneout"}
    if what == "all" and name not in ("gru", "gru-reset-before"):
        kwargs = {"proj_size": 2} | kwargs
    return layer_of(name, *sizes, **chosen, **kwargs)


def masks_of(masks, rows=slice(None), steps=slice(None)):
    """The masks of some rows and steps."""

    def part(one):
        return one._replace(
            input=None if one.input is None else one.input[rows],
            state=None if one.state is None else one.state[rows],
            zoneout=None if one.zoneout is None else tuple(z[rows][:, steps] for z in one.zoneout),
        )

    return DropoutMasks(tuple(part(one) for one in masks.directions))


def plainly(layer, name, x, hx, dropout_masks):
    """The layer row by row and step by step, through one without regularisers whose weights and input bear the masks.

    x is (batch, time, features), the layer has one direction; `dropout_masks` None means the expectation.
    """
    gates = len(layer.cell.projections)
    inside = layer.proj_size if name in PROJECTED_STATES else 0
    plain = CELLS[name](gates * HIDDEN, HIDDEN, batch_first=True, dtype=x.dtype, proj_size=inside)
    ones = {k: torch.zeros_like(v) for k, v in plain.named_parameters()}
    ones["weight_ih_l0"] = torch.eye(gates * HIDDEN, dtype=x.dtype)  # its input is the projection itself
    finals = []
    for level in range(layer.num_layers):
        end = f"_l{level}"
        weights = {k.removesuffix(end): v for k, v in layer.named_parameters() if k.endswith(end)}
        dropped = None if dropout_masks is None else dropout_masks.directions[level]
        projected = projection(layer, weights, x if dropout_masks is None else times(x, dropped.input, 1))
        rows = []
        for b in range(len(x)):
            borne = {f"{k}_l0": weights[k] for k in weights if f"{k}_l0" in ones and k not in ("weight_ih", "bias_ih")}
            if "weight_hh" in weights and dropped is not None:
                borne["weight_hh_l0"] = times(weights["weight_hh"], dropped.weight)
                if dropped.state is not None:  # U (m * h) is (U * m) h
                    borne["weight_hh_l0"] = borne["weight_hh_l0"] * dropped.state[b]
            if name in DIAGONAL_CELLS and dropped is not None and dropped.state is not None:  # a (m * h) is (a * m) h
                for diagonal in OF_H.get(name, layer.cell.diagonals):
                    borne[f"weight_{diagonal}_l0"] = weights[f"weight_{diagonal}"] * dropped.state[b]
            state, outputs = tuple(s[level, b] for s in as_tuple(hx)), []
            for t in range(x.shape[1]):

                def one_step(before, x_t=projected[b, t], borne=borne):
                    arguments = x_t[None, None], packed_up(tuple(s[None, None] for s in before))
                    return tuple(s[0, 0] for s in as_tuple(functional_call(plain, ones | borne, arguments)[1]))

                after = one_step(state)
                if name in INPUT_GATED_CELLS and dropped is not None and dropped.state is not None:
                    drive = one_step((torch.zeros_like(state[0]),))[0]
                    after = (after[0] - drive + dropped.state[b] * drive,)
                if layer.zoneout:
                    keep = (
                        [layer.zoneout] * len(state)
                        if dropout_masks is None
                        else [1.0 * k[b, t] for k in dropped.zoneout]
                    )
                    after = tuple(k * s + (1 - k) * a for k, s, a in zip(keep, state, after, strict=True))
                state = after
                outputs.append(read_out(name, state, projected[b, t]))
            rows.append((torch.stack(outputs), state))
        x = torch.stack([row for row, _ in rows])
        if layer.proj_size and not inside:
            x = x @ weights["weight_hr"].T
        finals.append([torch.stack(kind) for kind in zip(*[state for _, state in rows], strict=True)])
    return x, packed_up(tuple(torch.stack(kind) for kind in zip(*finals, strict=True)))


def projection(layer, weights, x):
    """W x + b; normalised, each gate by itself, before gain and bias."""
    product = x @ weights["weight_ih"].T
    if layer.layer_norm:
        blocks = product.split(HIDDEN, dim=-1)
        centred = [block - block.mean(-1, keepdim=True) for block in blocks]
        normal = [c / torch.sqrt((c * c).mean(-1, keepdim=True) + 1e-5) for c in centred]
        product = weights["weight_norm"] * torch.cat(normal, dim=-1)
    return product + weights["bias_ih"]


def times(x, mask, dim=None):
    if mask is None:
        return x
    return x * (mask if dim is None else mask.unsqueeze(dim))


def read_out(name, state, projected):
    if name == "qrnn":
        return torch.sigmoid(projected[2 * HIDDEN :]) * state[0]
    if name in TANH:
        return torch.tanh(state[0])
    return torch.sin(state[0]) if name == "own" else state[0]
