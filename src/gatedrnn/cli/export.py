"""gatedrnn export."""

from pathlib import Path
from typing import Literal

from gatedrnn.runs import Run
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
    from gatedrnn.export.onnx import ALLOWED

    for file, difference in Run(run).export(output, to=to).items():
        Console().print(
            f"{file}: differs from the model by {difference:.1e} (allowed {ALLOWED:.0e})", soft_wrap=True,
            highlight=False,
        )  # fmt: skip
