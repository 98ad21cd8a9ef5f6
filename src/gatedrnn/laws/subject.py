"""A subject of the laws: a recurrent module, how it is called, and what it takes.

A subject that we make ourselves is made from text, which the script of a failure then quotes: the script runs what was
run here.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

State: TypeAlias = Any
"""The second result of a call, which the next one takes: a tensor, a tuple of them, or an object of its own."""
Module: TypeAlias = Any
"""An object that holds parameters: usually an `nn.Module`."""
Arguments: TypeAlias = dict[str, Any]
Call: TypeAlias = Callable[..., tuple[Any, State]]
"""`call(module, x, state=None, **flags)` returns outputs (batch, time, …) and the state after the last step."""
FLAGS = ("mask", "resets")


class SourceText(NamedTuple):
    """The text that makes a subject, in a script that needs no more than what it imports."""

    imports: str
    build: str
    """Lines that end with `layer = …`; torch's seed is set before them."""
    double: bool = False

    def lines(self) -> list[str]:
        """Return the lines that make the layer, with biases and such that are not zero: those would hide what reads
        them twice, or not at all."""
        to = ".double()" if self.double else ""
        nudged = f"for p in layer{to}.eval().parameters(): p.data += 0.1 * torch.randn_like(p) * (p == 0).all()"
        return [self.imports, "torch.manual_seed(0)", self.build, nudged]

    def make(self) -> Module:
        """Run the lines, and return the module."""
        names: dict[str, Any] = {}
        with torch.random.fork_rng(devices=[]):
            exec("\n".join(self.lines()), names)
        return names["layer"]


class TextCall:
    """A call that is made from the text of `def call(layer, x, state=None)`, which scripts quote."""

    def __init__(self, text: str, imports: str = "import torch") -> None:
        self.text = text
        names: dict[str, Any] = {}
        exec(f"{imports}\n{text}", names)
        self.function: Call = names["call"]

    def __call__(self, module: Module, x: Tensor, state: State = None, **flags: Tensor) -> tuple[Tensor, State]:
        """Call the module."""
        return self.function(module, x, state, **flags)


class Note(NamedTuple):
    """A use that a library does not support, as its adapter declares."""

    sentence: str
    place: str
    """The library, and the version for which it is declared."""


@dataclass(frozen=True)
class Subject:
    """A recurrent module as the laws see it.

    Args:
        module: what holds the parameters; any object that `call` takes.
        call: `call(module, x, state=None)` runs some steps, x of shape (batch, time, features) or, of token ids,
            (batch, time), and returns the outputs (batch, time, …) and the state after the last step; None begins.
            A parameter `mask` (batch, time), True at real steps, or `resets`, True where a sequence begins, says that
            it takes one.
        features: elements of an input at each step; None for token ids.
        vocabulary: number of token ids; None for inputs of floats.
        name: what reports call it.

    Example:
        >>> import torch
        >>> from gatedrnn.laws.subject import Subject
        >>> from gatedrnn.laws.suite import check
        >>> gru = torch.nn.GRU(3, 4, batch_first=True)
        >>> check(Subject(gru, lambda gru, x, state=None: gru(x, state), features=3)).failures
        []
    """

    module: Module
    call: Call
    features: int | None = None
    vocabulary: int | None = None
    name: str = "subject"
    entry: str = "call"
    """How it is run, in a word or two."""
    takes: frozenset[str] | None = None
    """The uses it is made for: "state", "mask", "packed", "resets", "reorder", "generate"."""
    notes: Mapping[str, Note] = field(default_factory=dict)
    """Uses that its library does not support, by the name of the law."""
    both_directions: bool = False
    generate: Callable[..., Tensor] | None = None
    """`generate(module, prompts, mask=None, **options)`: the prompts with what is written after them, greedily."""
    others: Mapping[str, Call] = field(default_factory=dict)
    """Calls of other uses, by what they take."""
    source: SourceText | None = None
    remake: Callable[[int], "Subject"] | None = None
    """Makes it anew with another width, where there is one to choose."""
    width: int | None = None
    block: int = 1
    """Steps that its parallel form takes at a time, where it is known."""

    def __post_init__(self) -> None:
        if (self.features is None) == (self.vocabulary is None):
            raise ValueError("give features for inputs of floats, or vocabulary for token ids")

    def for_law(self, needs: tuple[str, ...]) -> "Subject":
        """Return the subject that is called as a law asks for it."""
        return next((replace(self, call=call) for need, call in self.others.items() if need in needs), self)

    def abilities(self) -> frozenset[str]:
        """Return what it takes: what was given, or what its call has parameters for."""
        if self.takes is not None:
            return self.takes
        return frozenset({"state", *(flag for flag in FLAGS if flag in inspect.signature(self.call).parameters)})

    def run_of(self, module: Module = None) -> Call:
        """Return `run(x, state=None, **flags)` of the module, or of a copy of it."""
        module = self.module if module is None else module
        return lambda x, state=None, **flags: self.call(module, x, state, **flags)

    def draw(self, batch: int, steps: int, seed: int) -> Tensor:
        """Draw inputs: normal floats, or token ids."""
        generator = torch.Generator().manual_seed(seed)
        if self.features is None:
            assert self.vocabulary is not None
            return torch.randint(self.vocabulary, (batch, steps), generator=generator)
        # Drawn in float64, so that float32 and float64 get the same numbers but for rounding.
        return torch.randn(batch, steps, self.features, generator=generator, dtype=torch.float64).to(self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters, float32 where there are none."""
        return next((p.dtype for _, p in self.parameters() if p.is_floating_point()), torch.float32)

    def parameters(self) -> list[tuple[str, Tensor]]:
        """Return the module's parameters by name; none where it has none."""
        return list(self.module.named_parameters()) if hasattr(self.module, "named_parameters") else []


def is_plain(state: State) -> bool:
    """Whether a state is a tensor or a container of them, and not an object that keeps what it likes."""
    leaves = tree_leaves(state)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    return bool(tensors) and all(isinstance(leaf, Tensor | int | float | None) for leaf in leaves)


@contextmanager
def evaluation_mode(module: Module) -> Iterator[None]:
    """Put a module into evaluation mode; its modes, parameters and buffers are as before in the end."""
    modes = {submodule: submodule.training for submodule in module.modules()} if isinstance(module, nn.Module) else {}
    tensors = [*module.parameters(), *module.buffers()] if isinstance(module, nn.Module) else []
    copies = [tensor.detach().clone() for tensor in tensors]
    for submodule in modes:
        submodule.training = False
    try:
        yield
    finally:
        for submodule, mode in modes.items():
            submodule.training = mode
        with torch.no_grad():
            for tensor, before in zip(tensors, copies, strict=True):
                # A write raises the tensor's version, which would break a graph that the caller still holds.
                if not torch.equal(tensor, before):
                    tensor.copy_(before)
