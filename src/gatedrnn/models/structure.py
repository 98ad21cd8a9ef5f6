"""A model's structure in numbers: parameters by part, state size, multiply-adds per step."""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from gatedrnn.kinds import kind_of
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models.configuration import OptionValue
from gatedrnn.models.convolution import Convolution
from gatedrnn.models.modeling import BackbonePart, GatedRNNBlock, GatedRNNEmbeddings, GatedRNNPreTrainedModel
from gatedrnn.registry import CELLS

OTHERS = {
    "classifier": "head", "lm_head": "head", "head": "head", "projection": "core", "linear_path": "linear_path",
}  # fmt: skip
"""Modules beside the model itself, by part: heads, the projection back to the model's width, and a linear path, whose
parameters are fitted and frozen."""


@dataclass(frozen=True)
class Parameters:
    """Parameters by part; the core is the cells with their output projections, or a whole backbone, and the block
    normalisation and feed-forward. Those of several members are counted together."""

    embedding: int
    core: int
    block: int
    head: int
    total: int
    convolution: int = 0
    linear_path: int = 0
    """Fitted, not trained: of random convolutions and the map of them."""


@dataclass(frozen=True)
class Initialisation:
    """The schemes of initial weights and biases, as `weight_init` and `bias_init` take them."""

    weights: str
    biases: str


@dataclass(frozen=True)
class Structure:
    """Layers, widths and gates of a model."""

    cell: str
    options: dict[str, OptionValue]
    """The options of its cells, defaults included."""
    layers: int
    bidirectional: bool
    hidden_size: int
    embedding_size: int
    gates: list[str]
    reads_state: bool
    initialisation: Initialisation | None
    """The initialisation of a cell; None for a backbone."""
    block: bool
    pooling: str
    state_size: int | None
    """Elements of the state of one sequence, all layers together; None of a backbone, which has none of constant
    size."""
    multiply_adds_per_step: int
    """The multiply-adds of matrix products with one row per step: the cores', the block's, and those of a linear map of
    numbers. An embedding table, a linear path and the head cost none; elementwise operations are not counted. A
    backbone's are counted as it runs, those of attention too."""


def count_parameters(model: nn.Module) -> Parameters:
    """The parameters of a model, by part."""
    owner: dict[int, str] = {}
    for module in model.modules():
        core: list[nn.Module] = []
        if isinstance(module, GatedRNNEmbeddings):
            owner |= {id(p): "embedding" for p in module.parameters()}
        elif isinstance(module, Convolution):
            owner |= {id(p): "convolution" for p in module.parameters()}
        elif isinstance(module, RecurrentLayer | BackbonePart):
            core = [module]
        elif isinstance(module, GatedRNNBlock):
            core = [module.layer, module.projection]
        owner |= {id(p): "core" for part in core for p in part.parameters()}
    counts = Counter[str](dict.fromkeys(("embedding", "core", "block", "head"), 0))
    for name, parameter in model.named_parameters():
        counts[owner.get(id(parameter), _part_of(name))] += parameter.numel()
    return Parameters(**counts, total=counts.total())


def _part_of(name: str) -> str:
    """The part of a parameter that is of no embedding, layer or block: by its module, also of a further member."""
    first, *rest = name.split(".")
    return OTHERS.get(rest[1] if first == "others" else first, "block")


def describe_structure(model: GatedRNNPreTrainedModel, steps: int = 1) -> Structure:
    """Layers, widths, gates, state size and multiply-adds per step.

    Args:
        steps: the length of a sequence, on which those of a backbone depend.
    """
    config = model.config
    layers = [module for module in model.modules() if isinstance(module, RecurrentLayer)]
    gates = dict.fromkeys(gate for layer in layers for gate in layer.cell.projections)
    options: dict[str, OptionValue] = {}
    for choice in config.cells:
        options |= {**CELLS[choice.name].options, **choice.options}
    directions = 1 + config.bidirectional
    products = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if (parameter.dim() == 2 or (".convolution." in name and parameter.dim() == 3))
        and _part_of(name) not in ("head", "linear_path")
        and not name.endswith(("embeddings.map.weight", "embeddings.map.parts.weight"))
    )
    if config.input_size is not None:
        products += config.input_features * config.embedding_size
    backbone = next((module for module in model.modules() if isinstance(module, BackbonePart)), None)
    if backbone is not None:
        products = multiply_adds(backbone, config.embedding_size, steps)
        products += config.input_features * config.embedding_size
    return Structure(
        cell=config.cell,
        options=options,
        layers=config.num_hidden_layers,
        bidirectional=config.bidirectional,
        hidden_size=config.hidden_size,
        embedding_size=config.embedding_size,
        gates=list(gates),
        reads_state=any(kind_of(layer.cell).facts(layer.cell).iterates for layer in layers),
        initialisation=Initialisation(layers[0].weight_init, layers[0].bias_init) if layers else None,
        block=config.block,
        pooling=config.pooling,
        state_size=sum(directions * layer.num_layers * sum(layer.state_sizes()) for layer in layers) or None,
        multiply_adds_per_step=products,
    )


def multiply_adds(part: BackbonePart, features: int, steps: int) -> int:
    """The multiply-adds of a backbone's products, per step of a sequence of that length; on the meta device it is 0."""
    device = next(part.parameters()).device
    if device.type == "meta":
        return 0
    was_training = part.training
    # As plain products: the counter has no formula for torch's fused attention on a CPU.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        part.eval().call(torch.zeros(1, steps, features, device=device), None)
    part.train(was_training)
    # torch counts two FLOPs for a multiply-add.
    return round(counter.get_total_flops() / 2 / steps)
