"""Docstrings of layers: what all of them share is written once, in `RecurrentLayer` and `SingleStep`."""

from inspect import cleandoc
from typing import Any, TypeVar

LayerT = TypeVar("LayerT", bound=type[Any])


def documented(layer: LayerT) -> LayerT:
    """Complete a layer's docstring by its equations and by the arguments, inputs and outputs of its base, which
    says what `hx` holds where that is more than one tensor."""
    own, shared = cleandoc(layer.__doc__ or ""), cleandoc(layer.__mro__[1].__doc__ or "")
    cell_class = layer.cell_class if hasattr(layer, "cell_class") else layer.layer_class.cell_class
    equations = cleandoc(cell_class.__doc__ or "").replace("\n", "\n    ").replace("    \n", "\n")
    if len(cell_class.states) > 1:
        shared = shared.replace("hx: ", f"hx: ({', '.join(cell_class.states)}), ", 1)
    head, example = own.partition("\n\nExample:")[::2]
    parts = [head, f"Equations:\n    {equations}", shared[shared.index("Args:") :]]
    layer.__doc__ = "\n\n".join(parts) + (f"\n\nExample:{example}" if example else "") + "\n"
    return layer
