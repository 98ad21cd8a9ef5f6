"""Classifiers of texts as ONNX: token numbers and a mask in, scores of the labels out; held against torch."""

from pathlib import Path

import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from gatedrnn.export.onnx import check_alike, graph_of, largest_difference
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.records import written_together

BATCH, STEPS = 3, 11  # of the check; others than the export's example, so that a fixed size shows
NAMES = ["input_ids", "attention_mask"]


class _Logits(nn.Module):
    def __init__(self, model: GatedRNNPreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def export_text_classifier(model: GatedRNNPreTrainedModel, folder: Path) -> dict[str, float]:
    """Write text.onnx into `folder`, after onnxruntime ran it beside the model.

    It takes `input_ids` and `attention_mask`, int64 (batch, time) of any batch and length, as the folder's tokenizer
    makes them, to `logits`, (batch, labels), or (batch, time, labels) for a label at every step.

    Returns:
        The largest difference, see `gatedrnn.export.onnx.ALLOWED`.

    Raises:
        ExportWrong: it is larger than allowed; nothing is written.
        OSError: the file cannot be written.
    """
    module = _Logits(model.eval().float())
    free = {0: torch.export.Dim("batch", min=1), 1: torch.export.Dim("time", min=2)}
    graph = graph_of(module, _example(model, 4, 7), NAMES, ["logits"], dict.fromkeys(NAMES, free))
    inputs = _example(model, BATCH, STEPS)
    with written_together(folder) as writing:
        path = writing / "text.onnx"
        onnx.save(graph, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {name: tensor.numpy() for name, tensor in zip(NAMES, inputs, strict=True)})
        with torch.no_grad():
            difference = largest_difference(outputs, [module(*inputs).numpy()])
        check_alike(folder / path.name, difference)
    return {path.name: difference}


def _example(model: GatedRNNPreTrainedModel, rows: int, steps: int) -> tuple[Tensor, Tensor]:
    """Texts of several lengths, the last one whole."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.config.vocab_size or 1, (rows, steps), generator=generator)
    lengths = torch.linspace(1, steps, rows).long()
    return tokens, (torch.arange(steps) < lengths.unsqueeze(1)).long()
