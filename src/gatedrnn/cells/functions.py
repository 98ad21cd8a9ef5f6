"""Activations of the candidate in the minimal cells (Feng et al. 2024, arXiv:2410.01201), and functions that the cells'
definitions in numpy share."""

from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Activation: TypeAlias = Literal["g", "identity"]


def g(x: Tensor) -> Tensor:
    """g(x) = x + 1/2 for x >= 0, sigmoid(x) below: continuous and positive, so that a state stays positive.

    Appendix B.3.
    """
    # Both branches are finite for every finite x: the one that is not taken has no NaN for the gradient.
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def identity(x: Tensor) -> Tensor:
    """No activation: the vanilla form of appendix A."""
    return x


ACTIVATIONS = {"g": g, "identity": identity}


def check_activation(activation: str, log_space: bool) -> None:
    """Check the name of an activation, and that it keeps the state positive where its logarithm is taken.

    Raises:
        ValueError: otherwise.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    if log_space and activation != "g":
        raise ValueError(f"log_space needs a positive state: activation 'g', got {activation!r}")


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + e^-x) in numpy, in two branches, because exp(1000) overflows."""
    small = np.exp(-np.abs(x))
    quotient: NDArray[np.float64] = np.where(x >= 0, 1, small) / (1 + small)
    return quotient


def numpy_g(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`g` in numpy."""
    return np.where(x >= 0, x + 0.5, sigmoid(x))
