"""Models small enough for any test, with weights large enough for every gate to leave its linear range."""

import pytest
import torch

from gatedrnn.models import GatedRNNConfig
from gatedrnn.registry import CELLS

VOCABULARY, FEATURES, EMBEDDING, HIDDEN, LABELS = 11, 3, 7, 6, 4
PAD, UNK = 0, 1  # the configuration's own defaults; `tokens` draws neither
KINDS = {"tokens": {"vocab_size": VOCABULARY}, "numbers": {"input_size": FEATURES}}
BUILDS = {
    "plain": {},
    "block": {"block": True},
    "both-directions": {"bidirectional": True},
    "both-directions-block": {"bidirectional": True, "block": True},
}
OPTIONS = {
    "gru": {"reset_after": False}, "mgu": {"keep": True},
    "minlstm": {"activation": "identity", "log_space": False},
    "mingru": {"activation": "identity", "log_space": False},
    "block-orthogonal": {"block_size": 3}, "gru-d": {"gap_features": 2}, "indrnn": {"activation": "tanh"},
    "janet": {"beta": 0.5}, "slstm": {"heads": 3}, "qrnn": {"window": 1},
}  # fmt: skip
MULTIPLIES_STATE = (
    "lstm", "lstm-peephole", "lstm-no-output-gate", "gru", "gru-d", "mgu", "gru-no-reset-gate", "cifg", "janet",
    "slstm",
)  # fmt: skip
JOINT = ("slstm",)  # whose states belong together: no zoneout
READS_STATE = (*MULTIPLIES_STATE, "indrnn", "para-gru", "para-lstm", "sru")
EVERY_POOLING = ("last", "mean", "max")

every_cell = pytest.mark.parametrize("cell", CELLS)
# Not the cell with signs, which a rounding may turn, and with decays of exactly 0, past which nothing is seen.
every_smooth_cell = pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "block-orthogonal"])
every_build = pytest.mark.parametrize("build", BUILDS)
# Where the full table is too much: every cell in both directions, and every build of a scan, a kernel and a step loop.
_CROSS = [(cell, "both-directions") for cell in CELLS]
_CROSS += [(cell, build) for cell in ("mingru", "lstm", "mgu") for build in BUILDS if build != "both-directions"]
every_cell_and_every_build = pytest.mark.parametrize("cell, build", _CROSS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def poolings_of(build):
    """The poolings that a build allows; a block mixes the directions, which "last" needs apart."""
    return EVERY_POOLING[1:] if build == "both-directions-block" else EVERY_POOLING


def config_of(kind="tokens", build="plain", **fields):
    chosen = {"embedding_size": EMBEDDING, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_labels": LABELS}
    pooling = {"pooling": poolings_of(build)[0]}
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
