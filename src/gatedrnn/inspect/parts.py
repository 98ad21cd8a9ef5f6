"""A trained model's parts, each with its parameters, and how their answers are combined."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import nn

from gatedrnn.models import GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.models.causal_lm import GatedRNNForCausalLM
from gatedrnn.models.convolution import KERNELS
from gatedrnn.models.grams import CharacterEmbedding
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.models.modeling import GatedRNNClassifier, GatedRNNModel, GatedRNNPreTrainedModel
from gatedrnn.models.random_convolutions import ConvolutionPath
from gatedrnn.models.smoothing import SMOOTHERS


class Part(NamedTuple):
    """One part of a model; the same part of several members is counted together."""

    name: str
    what: str
    """Its sizes, in words."""
    trained: int
    """Parameters that gradients train."""
    fitted: int
    """Parameters that are fitted or measured, and frozen."""


class _Modules(NamedTuple):
    """A part before its parameters are counted."""

    name: str
    what: str
    modules: Sequence[nn.Module]


def parts_of(model: GatedRNNPreTrainedModel) -> list[Part]:
    """Return the parts in the order of execution; a parameter belongs to the first that has it, so a tied head has
    none."""
    counted, frozen, parts = set[int](), _frozen_ids(model), list[Part]()
    for name, what, modules in _parts_with_modules(model):
        # By identity: tied weights are one tensor under two names.
        new = {id(p): p for module in modules for p in module.parameters() if id(p) not in counted}
        counted |= new.keys()
        fitted = sum(p.numel() for p in new.values() if id(p) in frozen)
        parts.append(Part(name, what, sum(p.numel() for p in new.values()) - fitted, fitted))
    return parts


def _frozen_ids(model: GatedRNNPreTrainedModel) -> set[int]:
    """Return the parameters that a new model of this configuration does not train; transformers loads them unfrozen."""
    with torch.device("meta"):
        new = dict(type(model)(model.config).named_parameters())
    return {id(p) for name, p in model.named_parameters() if not new[name].requires_grad}


def _parts_with_modules(model: GatedRNNPreTrainedModel) -> Iterator[_Modules]:
    config, cores = model.config, [module for module in model.modules() if isinstance(module, GatedRNNModel)]
    maps = [core.embeddings.map for core in cores]
    if isinstance(model, GatedRNNForForecasting):
        seasons = [str(season) for season in model.config.periods if season > 1]
        of_seasons = f", seasons of {' and '.join(seasons)} steps" if seasons else ""
        if (regression := model.config.known_regression) is not None:
            how = "factors" if regression["relative"] else "terms in units of a series' deviation"
            yield _Modules("regression", f"on {model.config.known_size} known covariates, {how}, taken off first", [])
        yield _Modules("smoothers", f"{SMOOTHERS} of fixed weights{of_seasons}", [])
    grams = [embedding.parts for embedding in maps if isinstance(embedding, CharacterEmbedding)]
    if grams:
        yield _Modules("character n-grams", f"{config.character_grams:,} with {config.embedding_size} features", grams)
    yield _Modules("embedding", _embedding_sizes(model), maps)
    if (uneven := [core.uneven for core in cores if core.uneven is not None]) != []:
        yield _Modules("decay of inputs", f"{config.input_size} features by the time since they were seen", uneven)
    if (convolutions := [core.convolution for core in cores if core.convolution is not None]) != []:
        kernels = ", ".join(map(str, KERNELS))
        yield _Modules("convolutions", f"kernels {kernels} with {config.convolution_size} channels", convolutions)
    layers = [getattr(part, "layer", part) for core in cores for part in core.parts]
    yield _Modules("backbone" if config.backbone is not None else "cells", _layer_sizes(model), layers)
    if config.block and config.backbone is None:
        yield _Modules("blocks", "projections, normalisation and feed-forward networks", cores)
    yield _Modules("head", _head_sizes(model), _heads(model))
    path = getattr(model, "linear_path", None)
    if isinstance(path, LinearPath):
        triples = "" if path.triples is None else f"{len(path.triples):,} triples, "
        sizes = f"{path.tokens:,} tokens, {len(path.pairs):,} pairs, {triples}"
        sizes += f"{path.features - path.words:,} character n-grams"
        yield _Modules("linear path", f"TF-IDF of {sizes}", [path])
    elif isinstance(path, ConvolutionPath):
        yield _Modules("linear path", f"{path.convolutions.size:,} features of random convolutions", [path])


def _embedding_sizes(model: GatedRNNPreTrainedModel) -> str:
    config = model.config
    if config.vocab_size is not None:
        return f"{config.vocab_size:,} tokens with {config.embedding_size} features"
    numbers = f"{config.input_features} number{'s' if config.input_features > 1 else ''} a step"
    return f"{numbers} to {config.embedding_size} features" if config.embedding_size else f"{numbers} as they are"


def _layer_sizes(model: GatedRNNPreTrainedModel) -> str:
    config = model.config
    if config.backbone is not None:
        return config.backbone
    stacked = ((cell, len(list(same))) for cell, same in groupby(config.cells))
    stack = ", ".join(f"{cell.name}, {count} layer{'s' if count > 1 else ''}" for cell, count in stacked)
    return f"{stack} of {config.hidden_size} channels{' in both directions' if config.bidirectional else ''}"


def _head_sizes(model: GatedRNNPreTrainedModel) -> str:
    if isinstance(model, GatedRNNForForecasting):
        config = model.config
        return f"{len(config.levels)} quantiles of {config.horizon} step{'s' if config.horizon > 1 else ''}"
    if isinstance(model, GatedRNNForCausalLM):
        return "scores of the next token" + (", tied to the embedding" if model.config.tie_word_embeddings else "")
    labels = "a number" if model.config.problem_type == "regression" else f"scores of {model.config.num_labels} labels"
    pooled = isinstance(model, GatedRNNForSequenceClassification)
    return labels + (f", of the {model.config.pooling} over steps" if pooled else " at every step")


def _heads(model: GatedRNNPreTrainedModel) -> list[nn.Module]:
    if isinstance(model, GatedRNNClassifier):
        return [network.classifier for network in model.networks]
    if isinstance(model, GatedRNNForForecasting):
        return [network.head for network in model.networks]
    return [module for name, module in model.named_children() if name in ("projection", "lm_head")]


def answers_of(model: GatedRNNPreTrainedModel) -> list[str]:
    """Say how the answers of a model's parts are combined, and what was set after training; a sentence each."""
    config, sentences, path = model.config, list[str](), getattr(model, "linear_path", None)
    if config.members > 1:
        of_labels = "numbers" if config.problem_type == "regression" else "log-probabilities"
        what = "quantiles" if isinstance(model, GatedRNNForForecasting) else of_labels
        size = sum(parameter.numel() for parameter in model.others[0].parameters())
        sentences.append(f"{config.members} networks of {size:,} parameters each; their {what} are averaged")
    if path is not None:
        probabilities = "log-probabilities" if isinstance(path, LinearPath) else "probabilities"
        what = "numbers" if config.problem_type == "regression" else probabilities
        how = "" if config.path_share == 0.5 else f", the path's with weight {config.path_share:.0%}"
        sentences.append(f"network and linear path; their {what} are averaged{how}")
    if isinstance(model, GatedRNNForForecasting):
        sentences.append(
            f"shrinkage {model.config.shrinkage:g}, where 0 follows the training and 1 the smoothers by their errors"
        )
        factors = [factor for step in model.config.bands or () for factor in step]
        sentences.append(
            f"intervals are calibrated: distances between quantiles times {min(factors):.2f} to {max(factors):.2f}"
            if factors else "intervals are not calibrated"
        )  # fmt: skip
    return sentences
