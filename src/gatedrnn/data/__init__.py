"""Tasks and their data: settings in `settings`, one file a task, files of the user, tokens, batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gatedrnn.extras import require

require("train")

from gatedrnn.data.settings import (
    FORECAST,
    LANGUAGE,
    SERIES,
    SERIES_REGRESSION,
    TAGGING,
    TASKS,
    TEXT,
    TEXT_REGRESSION,
    DataSettings,
    DigitsTask,
    ForecastTask,
    LanguageTask,
    MnistTask,
    ProbeTask,
    SeriesTask,
    Settings,
    TaggingTask,
    TextRegressionTask,
    TextTask,
    data_settings,
)

if TYPE_CHECKING:
    from gatedrnn.data.batches import Batch, Examples, TrainingSource, tokens_in
    from gatedrnn.data.stream import Lanes, RunningText
    from gatedrnn.data.task import TaskData, Texts, tasks_kept
    from gatedrnn.data.windows import Windows

_OF_MODULES = {
    "batches": ("Batch", "Examples", "TrainingSource", "tokens_in"), "stream": ("Lanes", "RunningText"),
    "task": ("TaskData", "Texts", "tasks_kept"), "windows": ("Windows",),
}  # fmt: skip
"""Names whose modules import torch, which a help page and an error of usage do without."""


def load_task(settings: DataSettings) -> "TaskData":
    """The data of a task, as its files are now; see `tasks_kept`.

    Raises:
        DataError: the data cannot be used.
    """
    from gatedrnn.data.task import kept
    from gatedrnn.tables.files import forget

    try:
        return kept(settings, lambda: _loaded(settings))
    finally:
        forget()  # training needs the data, not the table


def _loaded(settings: DataSettings) -> "TaskData":
    # Imported here: each brings libraries of its own.
    match settings:
        case ProbeTask():
            from gatedrnn.data.probes.task import load_probe

            return load_probe(settings)
        case DigitsTask():
            from gatedrnn.data.images import load_digits

            return load_digits(settings)
        case MnistTask():
            from gatedrnn.data.images import load_mnist

            return load_mnist(settings)
        case TextTask():
            from gatedrnn.data.text import load_ag_news, load_text_classification

            return (load_ag_news if settings.task == "ag_news" else load_text_classification)(settings)
        case TextRegressionTask():
            from gatedrnn.data.text import load_text_regression

            return load_text_regression(settings)
        case TaggingTask():
            from gatedrnn.data.text import load_tagging

            return load_tagging(settings)
        case SeriesTask():
            from gatedrnn.data.series.task import load_series_task

            return load_series_task(settings)
        case ForecastTask():
            from gatedrnn.data.forecast.task import load_forecast

            return load_forecast(settings)
        case LanguageTask():
            from gatedrnn.data.language import load_language_model

            return load_language_model(settings)


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _OF_MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'gatedrnn.data' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"gatedrnn.data.{module}"), name)
    return value


__all__ = [
    "FORECAST", "LANGUAGE", "SERIES", "SERIES_REGRESSION", "TAGGING", "TASKS", "TEXT", "TEXT_REGRESSION", "Batch",
    "DataSettings", "Examples", "Lanes", "RunningText", "Settings", "TaskData", "Texts", "TrainingSource", "Windows",
    "data_settings", "load_task", "tasks_kept", "tokens_in",
]  # fmt: skip
