"""A layer in torch's older graphs: one node of `torch.fx`, or torch's own module to script."""

from collections.abc import Mapping

from torch import nn
from torch.fx import Proxy, Tracer


def record_as_node(layer: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Proxy:
    """Record the call of the layer as one node of the graph, as `torch.fx` does for `nn.LSTM`.

    Raises:
        TypeError: the layer itself is traced.
    """
    proxy = args[0]
    assert isinstance(proxy, Proxy)
    tracer: Tracer = proxy.tracer  # type: ignore[assignment]  # of symbolic_trace, which alone makes proxies of modules
    path = tracer.path_of_module(layer)
    if not path:
        raise TypeError(
            f"torch.fx keeps {type(layer).__name__} whole, as one node; trace a module that holds it, "
            "such as nn.Sequential(layer)"
        )
    return tracer.create_proxy("call_module", path, args, {k: v for k, v in kwargs.items() if v is not None})


def for_script(layer: nn.Module, torch_module: nn.Module | None, why: str) -> nn.Module:
    """Return the module that `torch.jit.script` compiles for a layer: torch's own, which shares the layer's parameters.

    Args:
        torch_module: torch's module of the same shapes, on no device; None if none computes the same.
        why: the reason, if it has none.

    Raises:
        RuntimeError: torch has no such module.
    """
    name = type(layer).__name__
    # torch's module shares parameters by name: a computed weight is none.
    if torch_module is not None and any(key not in layer._parameters for key, _ in torch_module.named_parameters()):
        torch_module, why = None, "a weight is computed by a parametrisation or was removed"
    if torch_module is None:
        raise RuntimeError(
            f"torch.jit.script cannot compile {name}: {why}; use torch.jit.trace, torch.compile or torch.export"
        )
    for key, _ in list(torch_module.named_parameters()):
        setattr(torch_module, key, layer._parameters[key])
    return torch_module.train(layer.training)
