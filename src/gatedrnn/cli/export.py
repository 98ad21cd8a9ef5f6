"""gatedrnn export."""

from pathlib import Path
from typing import Literal

from gatedrnn.terminal import Console


def export(run: Path, /, *, to: Literal["onnx"] = "onnx", output: Path | None = None) -> None:
    """Write a model for programs without Python.

    A language model: one step with its state in and out, and a whole sequence. A forecast: a window, and a step of the
    stream after it. A model that reads series: a window of any length. A classifier of texts: the tokens of texts of
    any length. All are run by onnxruntime beside the model before they are kept.

    Args:
        run: Folder of a run of `gatedrnn train`, or of a model that one wrote.
        to: The format.
        output: Folder for the files; RUN/onnx if not given.
    """
    from gatedrnn.export.onnx import ALLOWED, export_onnx
    from gatedrnn.export.series import export_classifier, export_forecast
    from gatedrnn.export.text import export_text_classifier
    from gatedrnn.models import GatedRNNForCausalLM, GatedRNNForForecasting
    from gatedrnn.training.finished import open_finished

    folder, model = output or run / to, open_finished(run).model
    if isinstance(model, GatedRNNForCausalLM):
        differences = export_onnx(model, folder)
    elif isinstance(model, GatedRNNForForecasting):
        differences = export_forecast(model, folder)
    elif model.config.input_size is not None:
        differences = export_classifier(model, folder)
    else:
        differences = export_text_classifier(model, folder)
    for name, difference in differences.items():
        Console().print(
            f"{folder / name}: differs from the model by {difference:.1e} (allowed {ALLOWED:.0e})", soft_wrap=True,
            highlight=False,
        )  # fmt: skip
