"""The ladder from the full cell to the minimal one, one removal at a time: its effect on score, parameters and
speed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatedrnn.study.results import ComparisonResults, ContenderResults, PairResults

LADDERS = {
    "lstm": ("lstm", "lstm-no-output-gate", "lstm-input-gated", "lstm-normalized", "minlstm"),
    "gru": ("gru", "gru-no-reset-gate", "gru-input-gated", "mingru"),
}
"""The ladders from the full cell to the minimal one."""
BESIDE = {"gru": ("mgu",)}
"""Cells that are shown with a ladder without being a step of it."""
INITIALISATION = {"weight_init": "fan-in", "bias_init": "time-scales"}
"""The initialisation of every step, unless another is asked for: the cost of a removal must not include a change of
initialisation. The biases are a spread of time scales, after the chrono initialisation that Tallec & Ollivier 2018
(arXiv:1804.11188) gave LSTM and GRU."""
REMOVED = {
    "lstm-no-output-gate": "the output gate (and torch's second bias)",
    "lstm-input-gated": "the state from the gates",
    "lstm-normalized": "one degree of freedom: gates sum to one",
    "minlstm": "both tanh",
    "gru-no-reset-gate": "the reset gate (and torch's second bias)",
    "gru-input-gated": "the state from the gates",
    "mingru": "tanh",
    "mgu": "the reset gate, whose work the update gate does",
}
"""The part that a cell lacks in comparison with the one above it; `mgu` in comparison with gru."""


def removed(row: "ContenderResults") -> str:
    """The part that this step removes, in words."""
    in_its_place = " (g in the candidate's place)" if row.structure.options.get("activation") == "g" else ""
    return REMOVED[row.cell] + in_its_place


def step_above(ladder: str, cell: str) -> str | None:
    """The cell that a step is compared with; None for the first step."""
    steps = LADDERS[ladder]
    if cell in steps:
        return steps[steps.index(cell) - 1] if cell != steps[0] else None
    return steps[0]


def steps_below(results: "ComparisonResults", match: str) -> "list[tuple[ContenderResults, PairResults]]":
    """The steps below the first with their differences, in the order of the ladder, the cells beside it last."""
    ladder = results.settings.contenders.ladder
    if ladder is None:
        return []
    rows = {row.cell: row for row in results.contenders if row.match == match}
    cells = [*LADDERS[ladder][1:], *BESIDE.get(ladder, ())]
    steps = [rows[cell] for cell in cells if cell in rows]
    return [(row, results.pair(row.name, row.step_above)) for row in steps if row.step_above is not None]
