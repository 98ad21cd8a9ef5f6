"""Activations of the minimal cells."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def g(x: Tensor) -> Tensor:
    """g(x) = x + 1/2 for x >= 0, sigmoid(x) below: continuous and positive, so that a state stays positive.

    Feng et al. 2024, arXiv:2410.01201, appendix B.3.
    """
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def log_g(x: Tensor) -> Tensor:
    """log g(x), finite where g underflows; the same appendix."""
    # The clamp keeps the branch that is not taken from handing back log of a negative number as a NaN gradient.
    return torch.where(x >= 0, torch.log(x.clamp(min=0) + 0.5), logsigmoid(x))


def identity(x: Tensor) -> Tensor:
    """No activation: the vanilla form of Feng et al. 2024, arXiv:2410.01201, appendix A."""
    return x


CANDIDATE_ACTIVATIONS = {"g": g, "identity": identity}


def candidate_activation(name: str) -> str:
    """`name` itself if it is known; ValueError otherwise."""
    if name not in CANDIDATE_ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(CANDIDATE_ACTIVATIONS)}, got {name!r}")
    return name
