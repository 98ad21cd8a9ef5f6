"""The scores of comparisons for other programs: CSV, one line per contender and split, and tables in LaTeX."""

import csv
import io
from collections.abc import Mapping

from gatedrnn.pages import render
from gatedrnn.study import joined_summary, tables
from gatedrnn.study.joined import Joined
from gatedrnn.study.printing import SCORES
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.statistics import Estimate

COLUMNS = (
    "task", "contender", "cell", "match", "split", "metric", "mean", "low", "high", "seeds",
    "difference", "difference_low", "difference_high", "verdict",
    "core_parameters", "total_parameters", "training_seconds", "tokens_per_second", "memory_mib",
)  # fmt: skip
"""low and high: of the 95 % interval. difference and verdict: to the baseline, on the test split. A plain
baseline has no cell, and of its sizes the total alone."""


def as_csv(results: Mapping[str, ComparisonResults]) -> str:
    """Every score with its interval; nothing where there is no value.

    Args:
        results: by the name of their task.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for task, study in results.items():
        memory = study.measured.memory_mib or {}
        for row in study.contenders:
            shared = {
                "contender": row.name, "cell": row.cell, "match": row.match, "core_parameters": row.parameters.core,
                "total_parameters": row.parameters.total, "training_seconds": f"{study.training_seconds(row):.3f}",
                "tokens_per_second": f"{study.measured.speed[row.name].median:.0f}", "memory_mib": memory.get(row.name),
            }  # fmt: skip
            writer.writerows(_lines(task, study, shared, row.scores))
        for plain in study.baseline.plain:
            seconds = study.measured.plain_seconds[plain.name]
            shared = {
                "contender": plain.name, "match": "plain", "total_parameters": plain.parameters,
                "training_seconds": f"{seconds:.3f}",
            }  # fmt: skip
            writer.writerows(_lines(task, study, shared, plain.scores))
    return text.getvalue()


def _lines(
    task: str, results: ComparisonResults, shared: Mapping[str, object], scores: Mapping[str, Estimate]
) -> list[dict[str, object]]:
    lines, name, baseline = [], str(shared["contender"]), results.baseline.contender
    for split, estimate in scores.items():
        line = {
            **shared, "task": task, "split": split, "metric": results.metric.name, "mean": estimate.mean,
            "low": estimate.low, "high": estimate.high, "seeds": estimate.runs,
        }  # fmt: skip
        if split == "test" and name != baseline:
            pair = results.pair(name, baseline)
            gap = pair.difference
            line |= {
                "difference": gap.mean,
                "difference_low": gap.low,
                "difference_high": gap.high,
            }
            line["verdict"] = pair.verdict
        lines.append(line)
    return lines


def as_latex(results: ComparisonResults) -> str:
    """Test scores, differences to the baseline and prices, for the package booktabs."""
    rows = [{column: row[column] for column in SCORES} for row in tables.score_rows(results)]
    return render("gatedrnn.study", "scores.tex", rows=rows)


def joined_as_latex(joined: Joined) -> str:
    """Test scores of all tasks and average ranks, for the package booktabs."""
    return render("gatedrnn.study", "scores.tex", rows=joined_summary.scores_by_contender(joined))
