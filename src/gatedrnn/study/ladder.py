"""The minimalisation, one removal at a time: what each costs in score, and buys in parameters and speed."""

from typing import Any

from gatedrnn.study.statistics import Estimate, difference_of

LADDERS = {
    "lstm": ("lstm", "lstm-no-output-gate", "lstm-input-gated", "lstm-normalized", "minlstm"),
    "gru": ("gru", "gru-no-reset-gate", "gru-input-gated", "mingru"),
}
"""From the full cell to the minimal one."""
BESIDE = {"gru": ("mgu",)}
"""Cells that are shown with a ladder and are no step of it."""
INITIAL_VALUES = {"weight_init": "fan-in", "bias_init": "time-scales"}
"""Of every step, where none are asked for: what a removal costs must not be what another initial value costs. The
biases are a spread of time scales, after the chrono initialisation that Tallec & Ollivier 2018 (arXiv:1804.11188) gave
LSTM and GRU."""
REMOVED = {
    "lstm-no-output-gate": "the output gate (and torch's second bias)",
    "lstm-input-gated": "the state from the gates",
    "lstm-normalized": "one degree of freedom: gates sum to one",
    "minlstm": "both tanh",
    "gru-no-reset-gate": "the reset gate (and torch's second bias)",
    "gru-input-gated": "the state from the gates",
    "mingru": "tanh",
    "mgu": "the reset gate, its work given to the update gate",
}
"""What a cell lacks that the one above it has; `mgu` against gru."""


def removed(row: dict[str, Any]) -> str:
    """What this step takes away, in words."""
    in_its_place = " (g in the candidate's place)" if row["structure"]["options"].get("activation") == "g" else ""
    return REMOVED[row["cell"]] + in_its_place


def rungs(results: dict[str, Any], match: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(row, row of the step above it) down the ladder, then the cells beside it against the top; records alone."""
    ladder = results["settings"]["contenders"]["ladder"]
    top = results["contenders"][0]
    by_cell = {row["cell"]: row for row in results["contenders"] if row["match"] == match} | {top["cell"]: top}
    steps = LADDERS[ladder]
    pairs = [(steps[i], steps[i - 1]) for i in range(1, len(steps))]
    pairs += [(cell, steps[0]) for cell in BESIDE.get(ladder, ())]
    return [(by_cell[cell], by_cell[above]) for cell, above in pairs if cell in by_cell]


def cost(row: dict[str, Any], above: dict[str, Any], results: dict[str, Any]) -> Estimate:
    """Test score of a step less that of the one above it, seed by seed."""
    return difference_of(row["runs"], above["runs"], "test", results["metric"]["name"], results["data"]["rows"])
