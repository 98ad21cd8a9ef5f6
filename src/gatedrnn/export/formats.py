"""A model of any task for programs without Python."""

from pathlib import Path

from gatedrnn.export.onnx import export_onnx
from gatedrnn.export.series import export_classifier, export_forecast
from gatedrnn.export.text import export_text_classifier
from gatedrnn.models import GatedRNNForCausalLM, GatedRNNForForecasting
from gatedrnn.models.modeling import GatedRNNPreTrainedModel


def export_model(model: GatedRNNPreTrainedModel, folder: Path) -> dict[str, float]:
    """Write a model into a folder, and return by how much each file of it differs when onnxruntime runs it.

    Raises:
        ExportWrong: one differs by more than rounding.
    """
    if isinstance(model, GatedRNNForCausalLM):
        return export_onnx(model, folder)
    if isinstance(model, GatedRNNForForecasting):
        return export_forecast(model, folder)
    return (export_classifier if model.config.input_size is not None else export_text_classifier)(model, folder)
