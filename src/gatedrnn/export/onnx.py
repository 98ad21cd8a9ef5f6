"""A language model as ONNX: one step with its state in and out, and a whole sequence; both held against torch."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from onnx.compose import add_prefix
from torch import Tensor, nn

from gatedrnn.errors import ExportWrong
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNCache, GatedRNNForCausalLM
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.records import written_together

_OPSET = 20
_INITIAL_STATE = "initial_state.npz"
ALLOWED = 1e-5
"""Largest difference of a logit or a state from torch's, in units of the largest number there (1 at least)."""
BATCH, STEPS = 3, 7  # of the check; others than the export's example, so that a fixed size shows


class OneStep(nn.Module):
    """(tokens (batch,), states …) to (logits (batch, vocabulary), states …): a stream, a token at a time."""

    def __init__(self, model: GatedRNNForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        cache = GatedRNNCache.of_tensors(self.model.config, dict(zip(state_names(self.model), states, strict=True)))
        output = self.model(tokens.unsqueeze(1), past_key_values=cache)
        return output.logits[:, 0], *(cache.tensors()[name] for name in state_names(self.model))


def export_onnx(model: GatedRNNForCausalLM, folder: Path) -> dict[str, float]:
    """Write step.onnx and sequence.onnx into `folder`, both at once, after onnxruntime ran them beside the model.

    Inputs are `tokens`, int64 of any batch (and time), and one state (batch, size) for each layer and kind; outputs are
    `logits`, and each state afterwards. initial_state.npz holds what each state begins with, (size,), by its input's
    name: zeros, unless the cell learns it.

    Returns:
        The largest difference of each, see `ALLOWED`.

    Raises:
        ExportWrong: one is larger than allowed; nothing is written.
        OSError: a file cannot be written; nothing is.
    """
    model = model.eval().float()
    step = _exported(model)
    names = [input_name(name) for name in state_names(model)]
    begun: dict[str, Any] = {name: state[0].numpy() for name, state in zip(names, beginning(model, 1), strict=True)}
    differences = {}
    with written_together(folder) as writing:
        np.savez(writing / _INITIAL_STATE, **begun)
        for name, graph in (("step", step), ("sequence", scanned_over_time(step))):
            path = writing / f"{name}.onnx"
            onnx.checker.check_model(graph)
            onnx.save(graph, path)
            differences[path.name] = difference(model, path)
            check_alike(folder / path.name, differences[path.name])
    return differences


def check_alike(path: Path, difference: float) -> None:
    """Check that the numbers of a graph, which is to be written to `path`, are the model's.

    Raises:
        ExportWrong: they are not.
    """
    if not difference <= ALLOWED:
        raise ExportWrong(f"{path}: differs from the model by {difference:.1e}, allowed {ALLOWED:.0e}; is not written")


def largest_difference(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference in units of the largest number of each output (1 at least); infinite where shapes
    differ.
    """
    largest = 0.0
    for got, right in zip(actual, expected, strict=True):
        if got.shape != right.shape:
            return float("inf")
        if right.size:
            largest = max(largest, float(np.abs(got - right).max() / max(1.0, np.abs(right).max())))
    return largest


def state_names(model: GatedRNNPreTrainedModel) -> list[str]:
    """The names of states as `GatedRNNCache.tensors` has them, in the order of the graph's inputs."""
    layers = (module for module in model.modules() if isinstance(module, RecurrentLayer))
    kinds = [len(layer.state_names) for layer in layers for _ in range(layer.num_layers)]
    return [f"layer {layer} state {number}" for layer, count in enumerate(kinds) for number in range(count)]


def input_name(state: str) -> str:
    """The name of a state among the inputs of a graph."""
    return state.replace(" ", "_")


def beginning(model: GatedRNNPreTrainedModel, batch: int) -> list[Tensor]:
    """Each state before the first token, in the order of `state_names`."""
    initial: list[Tensor] = []
    for layer in (module for module in model.modules() if isinstance(module, RecurrentLayer)):
        hx = layer.initial_state(batch)
        kinds = hx if isinstance(hx, tuple) else (hx,)
        initial += [state[i].detach() for i in range(layer.num_layers) for state in kinds]
    return initial


def _exported(model: GatedRNNForCausalLM) -> onnx.ModelProto:
    """The graph of one step, for any batch."""
    names = [input_name(name) for name in state_names(model)]
    batch = torch.export.Dim("batch", min=1)
    return graph_of(
        OneStep(model), (torch.zeros(2, dtype=torch.long), *beginning(model, 2)), ["tokens", *names],
        ["logits", *(f"{name}_after" for name in names)],
        {"tokens": {0: batch}, "states": tuple({0: batch} for _ in names)},
    )  # fmt: skip


def graph_of(
    module: nn.Module,
    example: tuple[Tensor, ...],
    inputs: list[str],
    outputs: list[str],
    dynamic_shapes: dict[str, object],
) -> onnx.ModelProto:
    """A module as ONNX, checked for form."""
    logger, level = logging.getLogger("torch.onnx"), logging.getLogger("torch.onnx").level
    logger.setLevel(logging.ERROR)  # it tells which packages it would have liked
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own workings
            program = torch.onnx.export(
                module, example, dynamo=True, opset_version=_OPSET, verbose=False, input_names=inputs,
                output_names=outputs, dynamic_shapes=dynamic_shapes,
            )  # fmt: skip
    finally:
        logger.setLevel(level)
    assert program is not None
    graph = program.model_proto
    onnx.checker.check_model(graph)
    return graph


def scanned_over_time(step: onnx.ModelProto) -> onnx.ModelProto:
    """The graph of a whole sequence: one Scan, whose body is the step and whose length is free."""
    inner = onnx.ModelProto()
    inner.CopyFrom(step)
    # Names of the body must be others than those around it; weights stay outside, where both see them.
    inner = add_prefix(inner, "at_step/")
    (tokens, *states), (logits, *after) = inner.graph.input, inner.graph.output
    body = helper.make_graph(
        inner.graph.node, "step", [*states, tokens], [*after, logits], value_info=inner.graph.value_info
    )
    inputs, outputs = [value.name for value in step.graph.input], [value.name for value in step.graph.output]
    scan = helper.make_node(
        "Scan", [*inputs[1:], inputs[0]], [*outputs[1:], outputs[0]], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_output_axes=[1],
    )  # fmt: skip
    graph = helper.make_graph(
        [scan], "sequence", [_over_time(step.graph.input[0]), *step.graph.input[1:]],
        [_over_time(step.graph.output[0]), *step.graph.output[1:]], initializer=inner.graph.initializer,
    )  # fmt: skip
    return helper.make_model(
        graph, opset_imports=step.opset_import, functions=inner.functions, ir_version=step.ir_version
    )


def _over_time(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The shape of an output with an axis of time after the batch's."""
    tensor_type = value.type.tensor_type
    batch, *rest = (size.dim_param or size.dim_value for size in tensor_type.shape.dim)
    return helper.make_tensor_value_info(value.name, tensor_type.elem_type, [batch, "time", *rest])


def difference(model: GatedRNNForCausalLM, path: Path) -> float:
    """The largest difference between onnxruntime and the model over two calls that carry the state on."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_inputs()]
    generator, largest, cache = torch.Generator().manual_seed(0), 0.0, None
    vocabulary = model.lm_head.out_features
    carried: list[Any] = [state.numpy() for state in beginning(model, BATCH)]
    for _ in range(2):
        by_step = len(session.get_inputs()[0].shape) == 1
        tokens = torch.randint(vocabulary, (BATCH, 1 if by_step else STEPS), generator=generator)
        read = tokens[:, 0] if by_step else tokens
        logits, *carried = session.run(None, dict(zip(names, [read.numpy(), *carried], strict=True)))
        with torch.no_grad():
            output = model(tokens, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        expected = [output.logits[:, 0] if by_step else output.logits]
        expected += [cache.tensors()[name] for name in state_names(model)]
        largest = max(largest, largest_difference([logits, *carried], [tensor.numpy() for tensor in expected]))
    return largest
