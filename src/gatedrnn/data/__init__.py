"""Tasks and their data."""

from functools import lru_cache

from gatedrnn.data.batches import Batch, Examples, TrainingSource, tokens_in
from gatedrnn.data.lanes import Lanes
from gatedrnn.data.probes import PROBES
from gatedrnn.data.settings import LANGUAGE, TASKS, DataSettings, Settings
from gatedrnn.data.task import TaskData, Texts


@lru_cache(maxsize=2)
def load_task(settings: DataSettings) -> TaskData:
    """The data of a task. Kept in memory, so that the runs of a comparison share it.

    Raises:
        DataError: the data cannot be used.
    """
    if settings.task in PROBES:
        from gatedrnn.data.probes.task import load_probe as load
    elif settings.task == "digits":
        from gatedrnn.data.digits import load_digits as load
    elif settings.task == "mnist":
        from gatedrnn.data.mnist import load_mnist as load
    elif settings.task == "ag_news":
        from gatedrnn.data.text import load_ag_news as load
    elif settings.task == LANGUAGE:
        from gatedrnn.data.language import load_language_model as load
    else:
        from gatedrnn.data.text import load_text_classification as load
    return load(settings)


__all__ = [
    "LANGUAGE", "TASKS", "Batch", "DataSettings", "Examples", "Lanes", "Settings", "TaskData", "Texts",
    "TrainingSource", "load_task", "tokens_in",
]  # fmt: skip
