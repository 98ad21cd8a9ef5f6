"""gatedrnn export."""

from pathlib import Path
from typing import Literal

from gatedrnn.terminal import Console


def export(run: Path, /, *, to: Literal["onnx"] = "onnx", output: Path | None = None) -> None:
    """Write a language model for programs without Python: one step with its state in and out, and a whole sequence.

    Both are run by onnxruntime beside the model before they are kept.

    Args:
        run: Folder of a run of `gatedrnn train`, or of a language model that one wrote.
        to: The format.
        output: Folder for the files; RUN/onnx if not given.
    """
    from gatedrnn.export.onnx import ALLOWED, export_onnx
    from gatedrnn.train.sample import load_language_model

    folder = output or run / to
    model, _ = load_language_model(run)
    for name, difference in export_onnx(model, folder).items():
        Console().print(
            f"{folder / name}: differs from the model by {difference:.1e} (allowed {ALLOWED:.0e})", soft_wrap=True,
            highlight=False,
        )  # fmt: skip
