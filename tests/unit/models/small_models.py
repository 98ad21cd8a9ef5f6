"""Models small enough for any test, with weights large enough for every gate to leave its linear range."""

import torch
from covering import Axis, over

from gatedrnn.kinds import kind_of
from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification, GatedRNNForTokenClassification
from gatedrnn.registry import CELLS

VOCABULARY, FEATURES, EMBEDDING, HIDDEN, LABELS = 11, 3, 7, 6, 4
PAD, UNK = 0, 1  # the configuration's own defaults; `tokens` draws neither
KINDS = {"tokens": {"vocab_size": VOCABULARY}, "numbers": {"input_size": FEATURES}}
BUILDS = {
    "plain": {}, "block": {"block": True}, "both-directions": {"bidirectional": True},
    "both-directions-block": {"bidirectional": True, "block": True},
}  # fmt: skip
OPTIONS = {
    "gru": {"reset_after": False}, "mgu": {"keep": True},
    "minlstm": {"activation": "identity", "log_space": False},
    "mingru": {"activation": "identity", "log_space": False},
    "block-orthogonal": {"block_size": 3}, "gru-d": {"gap_features": 2}, "indrnn": {"activation": "tanh"},
    "janet": {"beta": 0.5}, "slstm": {"heads": 3}, "qrnn": {"window": 1},
}  # fmt: skip
HEADS = (GatedRNNForSequenceClassification, GatedRNNForTokenClassification)
EVERY_POOLING = ("last", "mean", "max")
BUILD, KIND = tuple(BUILDS), tuple(KINDS)


def one_of_each(kind, cells=tuple(CELLS)):
    """An axis of cells, of which the fast suite takes the first of each kind, by what its equations declare."""
    first = {}
    for name in cells:
        first.setdefault(kind(CELLS[name].equations()), name)
    return Axis(fast=tuple(first.values()), every=cells)


def kept_by(cell):
    parameters = kind_of(cell).shapes(cell, HIDDEN, HIDDEN, True)
    names = [name for name in parameters if name not in map("weight_{}".format, cell.diagonals)]
    return *names, min(2, len(cell.diagonals)), cell.fill_diagonals is not None


CELL = one_of_each(kind_of)
"""The property of a cell that a model knows: what runs it."""
# Not the cell with signs, which a rounding may turn, and with decays of exactly 0, past which nothing is seen.
SMOOTH_CELL = one_of_each(kind_of, tuple(name for name in CELLS if name != "block-orthogonal"))
OPTION_CELL = Axis(one_of_each(kind_of, tuple(OPTIONS)).fast, tuple(CELLS))
KEPT_CELL = one_of_each(kept_by)
"""Kinds of parameters, of which each is drawn in another way."""
every_build, every_kind = over(build=BUILD), over(kind=KIND)


def allows(build, pooling):
    """A block mixes the directions, which "last" needs apart."""
    return build != "both-directions-block" or pooling != "last"


def config_of(kind="tokens", build="plain", **fields):
    chosen = {"embedding_size": EMBEDDING, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_labels": LABELS}
    pooling = {"pooling": "last" if allows(build, "last") else "mean"}
    return GatedRNNConfig(**(KINDS[kind] | BUILDS[build] | chosen | pooling | fields))


def model_of(head, kind="tokens", dtype=torch.float64, **fields):
    """A model in eval mode. Its weights are smaller in float32: states, which `signed-mingru` does not bound, would
    else be so much larger than the logits that their roundings show there. Those of gaps are above 0: below it nothing
    decays, and nothing is learned of that."""
    model = head(config_of(kind, **fields)).to(dtype).eval()
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, std=0.7 if dtype == torch.float64 else 0.5)
        if "_gap_" in name:
            weight.data.abs_()
    return model


def inputs_of(kind, *shape, dtype=torch.float64):
    """Random inputs without padding, as an argument of forward."""
    if kind == "tokens":
        return {"input_ids": tokens(*shape)}
    return {"input_values": torch.randn(*shape, FEATURES, dtype=dtype)}


def tokens(*shape):
    return torch.randint(2, VOCABULARY, shape)
