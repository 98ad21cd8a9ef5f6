"""Tasks and their data: settings in `settings`, one file a task, files of the user, tokens, batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gatedrnn.extras import require

require("train")

from gatedrnn.data.registry import DEFAULT_TASK, DataSettings, data_settings, registered_task
from gatedrnn.data.settings import (
    FORECAST,
    LANGUAGE,
    SERIES,
    SERIES_REGRESSION,
    TAGGING,
    TEXT,
    TEXT_REGRESSION,
    Settings,
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
    """Read the data of a task, as its files are now; see `tasks_kept`.

    Raises:
        DataError: the data cannot be used.
    """
    from gatedrnn.data.task import kept
    from gatedrnn.tables.files import forget

    try:
        data: TaskData = kept(settings, lambda: registered_task(settings.task).read(settings))
        return data
    finally:
        forget()  # training needs the data, not the table


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _OF_MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'gatedrnn.data' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"gatedrnn.data.{module}"), name)
    return value


__all__ = [
    "DEFAULT_TASK", "FORECAST", "LANGUAGE", "SERIES", "SERIES_REGRESSION", "TAGGING", "TEXT", "TEXT_REGRESSION",
    "Batch", "DataSettings", "Examples", "Lanes", "RunningText", "Settings", "TaskData", "Texts", "TrainingSource",
    "Windows", "data_settings", "load_task", "tasks_kept", "tokens_in",
]  # fmt: skip
