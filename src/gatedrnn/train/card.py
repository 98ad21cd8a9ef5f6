"""The card in a model's folder: what it is, what it was trained on, what it scored, what it cannot do."""

from typing import Any

from jinja2 import Environment, PackageLoader

from gatedrnn.data import TaskData
from gatedrnn.records import environment
from gatedrnn.train.result import RunResult
from gatedrnn.train.settings import RunSettings

PIPELINES = {"sequence": "text-classification", "step": "token-classification", "next": "text-generation"}
CLASSES = {
    "sequence": "AutoModelForSequenceClassification", "step": "AutoModelForTokenClassification",
    "next": "AutoModelForCausalLM",
}  # fmt: skip


def model_card(
    settings: RunSettings, data: TaskData, structure: dict[str, Any], parameters: dict[str, int], result: RunResult
) -> str:
    """Markdown for the model's folder. Names data by set and sha256, never by path, and holds none of its text."""
    card = Environment(loader=PackageLoader("gatedrnn.train"), trim_blocks=True, lstrip_blocks=True)
    return card.get_template("card.md").render(
        settings=settings.shown(), data=data, structure=structure, parameters=parameters,
        scores=scores_of(result), environment=environment(), language=data.labelled == "next",
        pipeline=PIPELINES[data.labelled] if data.tokenizer is not None else None, auto=CLASSES[data.labelled],
    )  # fmt: skip


def scores_of(result: RunResult) -> dict[str, dict[str, float]]:
    """The scores of a result, by split and name, in words."""
    found = {}
    for split, scores in result.scores.items():
        _, _, length = split.partition("test_")
        named = scores.model_dump(exclude_none=True)
        found[f"test at length {length}" if length else split] = {k.replace("_", " "): v for k, v in named.items()}
    return found
