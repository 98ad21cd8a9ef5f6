"""The private names of torch that the core reads: torch has no public one by which an operation learns who follows it.

Compiled code that is no operation may not run where a transform, a mode or forward differentiation follows it: none of
them would see it. A torch that lacks one of these names is taken as one where something always does, so that layers run
in plain torch, slower and as right, and a line says so.
"""

import logging
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch.autograd import forward_ad


def _of_torch(name: str, fallback: Any) -> Any:
    """Return what torch has under a name; `fallback`, with a line in the log, where it has nothing."""
    try:
        return attrgetter(name)(torch)
    except AttributeError:
        logging.getLogger("gatedrnn").warning(
            "torch %s has no torch.%s, by which layers see whether kernels may run: they run in plain torch, slower",
            torch.__version__, name,
        )  # fmt: skip
        return fallback


innermost_transform: Callable[[], object] = _of_torch("_C._functorch.peek_interpreter_stack", lambda: "unknown")
"""The transform of `torch.func` that runs; None for none."""
dispatch_modes: Callable[[], int] = _of_torch("_C._len_torch_dispatch_stack", lambda: 1)
"""The number of modes that see each operation."""
_of_torch("autograd.forward_ad._current_level", 0)  # says so where it is missing; the number itself changes
forward_level: Callable[[], int] = partial(getattr, forward_ad, "_current_level", 0)
"""The level of forward-mode differentiation; below 0 outside of it."""
