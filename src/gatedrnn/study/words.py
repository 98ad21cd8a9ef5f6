"""Scores, differences and margins in words, the same in sentences and tables."""

from gatedrnn.pages import signed
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.statistics import Estimate

MATCH_WORDS = {
    "layers": "equal layers and widths", "params": "equal parameters of the recurrent core",
    "multiply-adds": "equal multiply-adds a step", "time": "equal seconds of training",
}  # fmt: skip
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


def margin_in_words(results: ComparisonResults) -> str:
    """0.5 points, 1 % of the perplexity, or 0.01 in mase."""
    if results.metric.score == "perplexity":
        return f"{100 * results.margin:g} % of the perplexity"
    if results.metric.name == "accuracy":
        return f"{100 * results.margin:g} points"
    return f"{results.margin:g} in {results.metric.name}"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
