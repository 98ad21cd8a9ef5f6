"""Gates, half-lives and gradients of a trained model on some inputs, as a typed record (diagnosis.json)."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn.data import Examples, Lanes, Windows
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.stream import tokenise_with
from gatedrnn.errors import DataError, reason
from gatedrnn.inspect.trace import Traced, trace
from gatedrnn.kinds import kind_of
from gatedrnn.kinds.kind import Tracking
from gatedrnn.kinds.scan.path import SIGNED
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import open_model
from gatedrnn.records import Machine, environment
from gatedrnn.shapes import Series
from gatedrnn.training.finished import data_of, model_class_of, model_place
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.result import Record
from gatedrnn.training.sample import load_language_model

SHUT, OPEN = 0.05, 0.95
"""Bounds of gates: shut below the first, open above the second."""
BINS = 40
DEAD = 1e-3
"""A channel is dead if its output varies less than this share of its layer's channels (root mean square)."""
_MAX_HALF_LIFE = 1e6
"""A longer half-life counts as endless: a decay of 1, but for rounding."""
DRAWS = 8
"""Random directions of the backward pass: the mean of the squared gradients is that of the whole Jacobian."""


class GateValues(Record):
    """The values of a gate over channels and steps."""

    lowest: float
    """The lower end of the histogram: 0, or -1 for a decay with a sign; the upper end is 1."""
    share: list[float]
    """The histogram: shares of values in bins of equal width."""
    shut: float
    """Share of values near 0."""
    open: float
    """Share of values near 1 or -1."""
    mean: float


class LayerDiagnosis(Record):
    """One layer in one direction."""

    name: str
    cell: str
    channels: int
    dead: int
    """The number of channels that hardly move."""
    gates: dict[str, GateValues]
    half_life: list[float | None] | None
    """The half-life of each channel in steps, shortest first; None if endless, and for a cell without a decay gate."""
    negative: list[float] | None
    """Share of steps with a negative decay, by channel, smallest first; None for a cell whose decay has no sign."""


class DiagnosisMeasured(Record):
    """The command, the date and the machine."""

    command: str
    date: str
    environment: Machine


class Diagnosis(Record):
    """The content of diagnosis.json: a model on some inputs."""

    cells: list[str]
    classes: dict[str, Tracking]
    """The class of each cell by its name."""
    source: str
    """The origin of the inputs, without a path."""
    rows: int
    steps: int
    layers: list[LayerDiagnosis]
    depth: int
    reach: list[float]
    """‖d h_T / d x_t‖ by T - t, the root mean square over rows."""
    measured: DiagnosisMeasured


class Inspected(NamedTuple):
    """A trained model and its inputs."""

    model: GatedRNNPreTrainedModel
    inputs: dict[str, Tensor]
    """input_ids (rows, steps), or input_values (rows, steps, features)."""
    source: str
    """The origin of the inputs, in words, without a path."""


def from_run(path: Path, split: str | None, rows: int, steps: int) -> Inspected:
    """Load a finished run's model, and a split of its own data.

    Raises:
        DataError: no finished run, no such split, or data that have changed since the run.
    """
    data = data_of(RunFolder(path))
    if split is None:
        split = "validation" if "validation" in data.evaluation else "test"
    if split not in data.evaluation:
        raise DataError(f"{path}: has no split {split!r}; there are {', '.join(data.evaluation)}")
    examples, model_folder = data.evaluation[split], model_place(path)
    try:
        model = open_model(model_class_of(path), model_folder)
    except Exception as error:  # the library raises many kinds for a torn or foreign folder
        raise DataError(f"{model_folder}: cannot be loaded: {reason(error)}") from error
    if isinstance(examples, Lanes):
        inputs = _inputs_of_lanes(examples, rows, steps)
    elif isinstance(examples, Windows):
        inputs = _inputs_of_windows(model, examples, rows, steps)
    else:
        inputs = _inputs_of_examples(examples, rows, steps)
    return Inspected(model, inputs, f"{data.name}, {split} split")


def from_text(path: Path, file: Path, text_column: str | None, rows: int, steps: int) -> Inspected:
    """Load a language model from a run or a Hugging Face folder, and a text.

    Raises:
        DataError: no language model, or no text.
    """
    model, tokenizer = load_language_model(path)
    text = Lanes(tokenise_with(tokenizer, read_corpus(file, text_column, None)), steps, False)
    return Inspected(model, _inputs_of_lanes(text, rows, steps), file.name)


_MODEL_INPUTS = ("input_ids", "input_values", "gaps")
"""Names of the tensors that a model reads from a batch without padding."""


def _inputs_of_lanes(text: Lanes, rows: int, steps: int) -> dict[str, Tensor]:
    """Cut a text into consecutive chunks, each read from the initial state; a short text gives shorter ones."""
    tokens = np.asarray(text.stream.tokens[: rows * steps])
    steps = _check_steps(min(steps, len(tokens)))
    whole = tokens[: len(tokens) // steps * steps].reshape(-1, steps)
    return {"input_ids": torch.from_numpy(whole.astype(np.int64))}


def _inputs_of_examples(examples: Examples, rows: int, steps: int) -> dict[str, Tensor]:
    """Choose the longest examples, cut to their median length; shorter ones are left out, to avoid padding."""
    # Stable: the choice among examples of one length is the same on every machine.
    chosen = np.argsort(-examples.lengths, kind="stable")[:rows]
    steps = _check_steps(min(steps, int(np.median(examples.lengths[chosen]))))
    batch = examples.collate(chosen[examples.lengths[chosen] >= steps])
    return {name: values[:, :steps] for name, values in batch.items() if name in _MODEL_INPUTS}


def _inputs_of_windows(model: Any, windows: Windows, rows: int, steps: int) -> dict[str, Tensor]:
    """Choose evenly spaced windows, as a model reads them."""
    chosen = np.unique(np.linspace(0, len(windows) - 1, min(rows, len(windows))).round().astype(int))
    batch = windows.collate(windows.places[chosen])
    del batch["labels"]
    return {"input_values": model.inputs_of(**batch)[:, -_check_steps(min(steps, windows.context)) :]}


def _check_steps(steps: int) -> int:
    if steps < 2:
        raise DataError("sequences must have 2 steps or more to show memory; give longer ones, or --steps above 1")
    return steps


def diagnose(inspected: Inspected, command: str = "") -> Diagnosis:
    """Diagnose every layer of a model on its inputs, and how far back its gradient reaches.

    Raises:
        DataError: the model has no recurrent layers, or an output of it, or its gradient, is not finite.
    """
    model, layers, depth = inspected.model, list[LayerDiagnosis](), 0
    modules = {name: module for name, module in model.named_modules() if isinstance(module, RecurrentLayer)}
    if not modules:
        raise DataError(f"{model.config.cell} has no recurrent layers, and so neither gates nor a memory to look into")
    with torch.no_grad():
        read = _layer_inputs(model, modules, inspected.inputs)
    for name, module in modules.items():
        for traced in trace(module, read[name]):
            title = f"layer {depth + traced.layer}"
            if not traced.output.isfinite().all():
                raise DataError(f"{title}: its output is not finite, so there is nothing to diagnose")
            layers.append(_diagnose_layer(title, module, traced))
        depth += module.num_layers
    classes = {module.cell.name: kind_of(module.cell).tracking(module.cell) for module in modules.values()}
    rows, steps = next(iter(inspected.inputs.values())).shape[:2]
    return Diagnosis(
        cells=list(classes), classes=classes, source=inspected.source, rows=rows, steps=steps, layers=layers,
        depth=depth, reach=_gradient_reach(model, inspected.inputs),
        measured=DiagnosisMeasured(command=command, **environment()),
    )  # fmt: skip


def _layer_inputs(model: Any, modules: dict[str, RecurrentLayer], inputs: dict[str, Tensor]) -> dict[str, Series]:
    """Record the input of each recurrent layer."""
    read: dict[str, Series] = {}

    def note(name: str) -> Callable[[nn.Module, tuple[Series, ...]], None]:
        return lambda module, arguments: read.__setitem__(name, arguments[0])

    handles = [module.register_forward_pre_hook(note(name)) for name, module in modules.items()]
    model.model(**inputs)
    for handle in handles:
        handle.remove()
    return read


def _diagnose_layer(title: str, module: RecurrentLayer, traced: Traced) -> LayerDiagnosis:
    spread = traced.output.flatten(0, 1).std(0, correction=0)
    alive = spread > DEAD * spread.square().mean().sqrt()
    half_life = negative = None
    if traced.decay is not None:
        # The rate of a product of decays. A decay of 0 counts as one half: half is gone after such a step in any case.
        rate = traced.decay.abs().double().clamp(0.5, 1).log().mean((0, 1))
        lives = torch.where(rate < math.log(0.5) / _MAX_HALF_LIFE, math.log(0.5) / rate, torch.inf)
        half_life = [None if life == torch.inf else life for life in lives.sort().values.tolist()]
        if kind_of(module.cell).tracking(module.cell) is SIGNED:
            negative = (traced.decay < 0).double().mean((0, 1)).sort().values.tolist()
    return LayerDiagnosis(
        name=f"{title}, backwards" if traced.reverse else title,
        cell=module.cell.name,
        channels=spread.numel(),
        dead=int((~alive).sum()),
        gates={gate: _gate_values(values) for gate, values in traced.gates.items()},
        half_life=half_life,
        negative=negative,
    )


def _gate_values(values: Series) -> GateValues:
    lowest = -1.0 if bool((values < 0).any()) else 0.0
    counts = torch.histc(values.float().clamp(lowest, 1.0), BINS, lowest, 1.0)  # rounding may lead beyond
    size = values.abs()
    return GateValues(
        lowest=lowest,
        share=(counts / counts.sum()).tolist(),
        shut=float((size < SHUT).double().mean()),
        open=float((size > OPEN).double().mean()),
        mean=float(values.double().mean()),
    )


def _gradient_reach(model: Any, inputs: dict[str, Tensor]) -> list[float]:
    """Compute ‖d h_T / d x_t‖ by T - t, the root mean square over rows: h the model's last states, x the embeddings."""
    embedded: list[Tensor] = []
    handle = model.model.embeddings.register_forward_hook(lambda module, arguments, out: embedded.append(out))
    # With gradients from the embeddings on: token ids have none.
    h = model.model(**inputs).last_hidden_state
    handle.remove()
    random, total = torch.Generator().manual_seed(0), torch.zeros(h.shape[1], dtype=torch.float64)
    for draw in range(DRAWS):
        # E (J^T v)^2 over random v is the squared norm of the Jacobian (Hutchinson's estimator).
        direction = torch.randn(h.shape[2], generator=random).to(h)
        (gradient,) = torch.autograd.grad(
            (h[:, -1] @ direction).sum(), embedded[0], retain_graph=draw < DRAWS - 1
        )  # rows are independent, so the gradient of their sum has each row's own
        if not gradient.isfinite().all():
            raise DataError("the gradient is not finite; give fewer --steps")
        total += gradient.double().square().sum(2).mean(0)
    norms: list[float] = (total / DRAWS).sqrt().flip(0).tolist()
    return norms
