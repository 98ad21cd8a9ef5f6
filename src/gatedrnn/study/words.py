"""Scores, differences and margins in words, the same in sentences and tables."""

import math

from gatedrnn.pages import signed
from gatedrnn.study.results import ComparisonResults, ContenderResults, PairResults, PlainScores
from gatedrnn.study.settings import BESIDE, LADDERS
from gatedrnn.study.statistics import Estimate

MATCH_WORDS = {
    "layers": "equal layers and widths", "params": "equal parameters of the recurrent core",
    "multiply-adds": "equal multiply-adds a step", "time": "equal seconds of training",
}  # fmt: skip
SAID = {
    "balanced_accuracy": "balanced accuracy", "micro_f1": "micro-F1", "macro_f1": "macro-F1", "auroc": "AUROC",
    "average_precision": "average precision", "log_loss": "log loss", "r2": "R²", "spearman": "Spearman's correlation",
    "perplexity": "perplexity", "mase": "MASE", "scaled_mae": "scaled error",
}  # fmt: skip
"""The names of metrics in a sentence."""
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
NONE = "–"


def with_interval(estimate: Estimate) -> str:
    """0.9123 [0.9100, 0.9150], or the mean alone where there is no interval."""
    if estimate.low is None:
        return mean_alone(estimate)
    digits = _digits(estimate)
    return f"{mean_alone(estimate)} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def mean_alone(estimate: Estimate) -> str:
    return f"{estimate.mean:.{_digits(estimate)}f}"


def _digits(estimate: Estimate) -> int:
    return 4 if abs(estimate.mean) < 10 else 2


def difference_in_words(difference: Estimate, results: ComparisonResults) -> str:
    """+0.0012 [-0.0003, +0.0027], of accuracies and errors; +1.2% [-0.3%, +2.7%], of perplexities."""
    form = ".1%" if results.metric.score == "perplexity" else ".4f"
    mean = signed(difference.mean, form)
    if difference.low is None or difference.high is None:
        return mean
    return f"{mean} [{signed(difference.low, form)}, {signed(difference.high, form)}]"


def plain_score(row: ContenderResults | PlainScores, results: ComparisonResults) -> str:
    """99.0 %, perplexity 132 or MASE 0.523: of the test, as a person would say it."""
    mean, name = row.scores["test"].mean, results.metric.name
    if name == "accuracy":
        return f"{100 * mean:.1f} %"
    return f"{SAID[name]} {mean:,.0f}" if mean >= 100 else f"{SAID[name]} {mean:.3g}"


def gap_in_words(difference: Estimate, results: ComparisonResults) -> str:
    """1.7 points, 12 % or 0.021: how far apart two scores are."""
    gap = abs(difference.mean)
    if math.isinf(gap):
        return "more than any number"
    if results.metric.name == "accuracy":
        return f"{100 * gap:.1f} points"
    if results.metric.score == "perplexity":
        return f"{100 * gap:,.0f} %" if gap >= 0.1 else f"{100 * gap:.2g} %"
    return f"{gap:,.0f}" if gap >= 10 else f"{gap:.2g}"


def duration(seconds: float) -> str:
    """< 0.01 s, 0.042 s, 3.1 s, 410 s or 12 min."""
    if seconds < 10:
        return "< 0.01 s" if seconds < 0.01 else f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def margin_in_words(results: ComparisonResults) -> str:
    """0.5 points, 1 % of the perplexity, or 0.01 in mase."""
    if results.metric.score == "perplexity":
        return f"{100 * results.margin:g} % of the perplexity"
    if results.metric.name == "accuracy":
        return f"{100 * results.margin:g} points"
    return f"{results.margin:g} in {SAID[results.metric.name]}"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def removed(row: ContenderResults) -> str:
    """The part that this step removes, in words."""
    in_its_place = " (g in the candidate's place)" if row.structure.options.get("activation") == "g" else ""
    return REMOVED[row.cell] + in_its_place


def steps_below(results: ComparisonResults, match: str) -> list[tuple[ContenderResults, PairResults]]:
    """The steps below the first with their differences, in the order of the ladder, the cells beside it last."""
    ladder = results.settings.contenders.ladder
    if ladder is None:
        return []
    rows = {row.cell: row for row in results.contenders if row.match == match}
    cells = [*LADDERS[ladder][1:], *BESIDE.get(ladder, ())]
    steps = [rows[cell] for cell in cells if cell in rows]
    return [(row, results.pair(row.name, row.step_above)) for row in steps if row.step_above is not None]
