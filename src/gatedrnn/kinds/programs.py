"""Programs of kernels by cell: traced once, and checked at every call against all that the equations read.

A registered operation takes tensors, numbers and strings; its fake form and its second derivative need the cell's
equations. `remember` files them under the cell's word, such as "gru" or "gru:reset_after=false".

A program is valid as long as everything that the equations read beside their arguments is unchanged. These variables
are found from the names in the code of the equations and of the functions that they call: attributes of the cell,
variables of modules, classes and enclosing functions, and defaults.
"""

import builtins
import copy
import dis
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache, cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from gatedrnn.equations import Equations
from gatedrnn.errors import CannotBeTraced

Program = TypeVar("Program")
Tracer = Callable[[Any], Program]
CLASSES: dict[str, type[Equations]] = {}
"""The equations of each registered cell: a class derived from them may compute something else, and has no kernel."""
EQUATIONS: dict[str, Equations] = {}
_MADE: dict[tuple[str, Tracer[Any]], "_Made"] = {}
"""Programs by the cell's word and the tracer."""


class _Made(NamedTuple):
    """A program of some equations, valid as long as the variables that they read are unchanged."""

    program: Any
    """A string says why there is none: `torch.compile` can read it, but no error."""
    reads: "Reads"


def remember(cell: Equations, anew: bool = False) -> None:
    """Let operations find a cell from now on.

    Args:
        anew: trace its programs again.
    """
    word = cell.word  # which its copy has too: `torch.compile` cannot compute a cached property
    if CLASSES.get(cell.name) is type(cell) and (anew or type(EQUATIONS.get(word)) is not type(cell)):
        EQUATIONS[word] = copy.copy(cell)  # the caller may change its attributes
        for key in [key for key in _MADE if key[0] == word]:
            del _MADE[key]  # a class that was defined again may compute something else


def program_for(cell: Equations, tracer: Tracer[Program]) -> Program | None:
    """Return the program that kernels run for a cell; None if its equations are those of no registered cell, cannot be
    traced, or read something that has changed."""
    if CLASSES.get(cell.name) is not type(cell):
        return None
    made = _made(cell, tracer)
    return None if isinstance(made.program, str) or not made.reads.hold(cell) else made.program


def program_of(word: str, tracer: Tracer[Program]) -> Program:
    """Return the program of a cell that has one, even after a change: the gradient must be that of the forward."""
    program: Program = _made(EQUATIONS[word], tracer).program
    assert not isinstance(program, str), program
    return program


def why_no_program(cell: Equations, tracer: Tracer[Program]) -> str | None:
    """Return why a registered cell has no program; None if it has one."""
    if CLASSES.get(cell.name) is not type(cell):
        return None
    program, reads = _made(cell, tracer)
    if isinstance(program, str):
        return program
    return None if reads.hold(cell) else reads.change(cell)


def _made(cell: Equations, tracer: Tracer[Any]) -> _Made:
    key = cell.word, tracer
    if key not in _MADE:
        try:
            reads = reads_of(cell)
            _MADE[key] = _Made(tracer(cell), reads)
        except CannotBeTraced as error:
            blocks = f"channels act in blocks of {cell.block_size}, and a generated kernel runs each by itself"
            _MADE[key] = _Made(str(error) if cell.block_size == 1 else blocks, Reads((), ()))
    return _MADE[key]


METHODS = ("step", "output")
"""The methods of a cell that kernels are made of."""
DECLARATIONS = frozenset(Equations.__annotations__) - {"output"}
"""Attributes that a layer reads once, when it is constructed."""
UNCHANGING = frozenset({
    "abc", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "itertools",
    "math", "numbers", "operator", "types", "typing", "torch", "numpy", "gatedrnn",
})  # fmt: skip
"""Packages whose variables nobody changes and whose functions depend on their arguments alone, but for `_asked`."""
DATA = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, Enum, np.generic)
CODE = (FunctionType, BuiltinFunctionType, MethodDescriptorType, property, cached_property, type, ModuleType)
LOOKING_AROUND = frozenset({
    "open", "eval", "exec", "compile", "globals", "locals", "vars", "dir", "input", "__import__", "id", "hash",
})  # fmt: skip
"""Functions of Python that depend on more than their arguments."""
OF_TORCH = frozenset({
    "_C", "accelerator", "backends", "compiler", "cuda", "distributed", "hub", "jit", "mps", "random", "xpu",
})  # fmt: skip
OF_NUMPY = frozenset({"random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"})
"""Functions of torch and numpy that depend on more than their arguments, and modules of such functions."""
OF_ARGUMENTS = frozenset({"broadcast_shapes", "is_tensor", "is_storage", "typename", "vmap", "cond"})
"""Functions of torch without tensors that depend on their arguments alone."""
RUN_BY_NO_NAME = frozenset({"__init__", "__new__", "__post_init__", "__call__", "__getattr__", "__getattribute__"})
"""Methods that run where their class is called."""
MISSING = object()


class Variable(NamedTuple):
    """A variable and its value at the time of tracing."""

    holder: Any
    """The object that has it as an attribute, or a dictionary."""
    name: str
    value: object

    @property
    def now(self) -> object:
        """The present value."""
        if type(self.holder) is dict:
            return self.holder.get(self.name, MISSING)
        return getattr(self.holder, self.name, MISSING)


class Reads(NamedTuple):
    """All that the equations of a class read."""

    attributes: tuple[tuple[str, object], ...]
    """Attributes of the cell, with their values at the time of tracing."""
    variables: tuple[Variable, ...]

    def hold(self, cell: Equations) -> bool:
        """Whether nothing has changed; called at every call of a layer."""
        for name, value in self.attributes:
            now = getattr(cell, name, MISSING)
            if now is not value and not _equal(now, value):
                return False
        for variable in self.variables:
            now = variable.now
            if now is not variable.value and not _equal(now, variable.value):
                return False
        return True

    def change(self, cell: Equations) -> str:
        """Return a sentence on what has changed."""
        read = [(name, getattr(cell, name, MISSING), value) for name, value in self.attributes]
        read += [(variable.name, variable.now, variable.value) for variable in self.variables]
        name, now, was = next((name, now, was) for name, now, was in read if not _equal(now, was))
        values = f", {was!r} then and {now!r} now" if isinstance(was, DATA) and isinstance(now, DATA) else ""
        return f"{name}, which its equations read, has changed since its kernel was made{values}"


def reads_of(cell: Equations) -> Reads:
    """Find everything that the equations of a cell read.

    Raises:
        CannotBeTraced: they read something that may change unseen, or a tensor that may be learned.
    """
    search = _Search(cell)
    search.of_cell(METHODS)
    return Reads(tuple(search.attributes.items()), tuple(search.variables.values()))


def _equal(now: object, was: object) -> bool:
    return now is was or (type(now) is type(was) and not isinstance(was, CODE) and bool(now == was))


class _Search:
    """Follows names from one function to the next."""

    def __init__(self, cell: Equations) -> None:
        self.cell = cell
        self.classes = [x for x in type(cell).__mro__ if issubclass(x, Equations) or not _unchanging(x.__module__)]
        self.attributes: dict[str, object] = {}
        self.variables: dict[tuple[int, str], Variable] = {}
        self._seen: set[object] = set()

    def of_cell(self, names: Iterable[str]) -> None:
        """Follow the attributes of the cell that have these names."""
        for name in set(names) - DECLARATIONS:
            definitions = [
                vars(owner)[name] for owner in self.classes if name in vars(owner) and owner is not Equations
            ]
            functions = [function for function in map(_function_of, definitions) if function is not None]
            if name in vars(self.cell) or len(functions) < len(definitions):
                self.attributes[name] = self._constant(name, getattr(self.cell, name))
            elif functions and not _unchanging(functions[0].__module__):
                self._read(type(self.cell), name)
            for function in functions:
                self._function(function)

    def _function(self, function: FunctionType) -> None:
        ours = (function.__module__ or "").startswith("gatedrnn.")
        if id(function) in self._seen or (_unchanging(function.__module__) and not ours):
            return
        self._seen.add(id(function))
        variables, attributes, imported = _names(function.__code__)
        if not ours and "getattr" in variables:  # whose name may be computed
            attributes |= vars(self.cell).keys() | {n for base in self.classes for n in vars(base) if _is_data(base, n)}
        self.of_cell(attributes)
        if ours:
            return
        for name in imported:
            if not _unchanging(name):
                raise CannotBeTraced(f"{function.__name__} imports {name}, whose changes are unseen; import it outside")
            if name in sys.modules:
                self._constant(name, sys.modules[name], attributes)
        for name in variables:
            if name in function.__globals__:
                self._read(function.__globals__, name, attributes)
            elif name in LOOKING_AROUND:
                self._constant(name, getattr(builtins, name))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._read(cell, "cell_contents", attributes, name)
        for defaults in ("__defaults__", "__kwdefaults__"):
            if getattr(function, defaults) is not None:
                self._read(function, defaults, attributes, f"a default of {function.__name__}")

    def _read(self, holder: Any, name: str, attributes: Iterable[str] = (), title: str = "") -> None:
        """Record a variable, and follow its members of these names."""
        now = Variable(holder, name, MISSING).now
        value = self._constant(title or name, now, attributes)
        if not isinstance(value, ModuleType):
            self.variables.setdefault((id(holder), name), Variable(holder, name, value))

    def _constant(self, title: str, value: Any, attributes: Iterable[str] = ()) -> object:
        """Return a value whose change can be seen: a collection as a copy."""
        if isinstance(value, torch.Tensor):
            raise CannotBeTraced(f"the equations read {title}, a tensor that is none of their arguments")
        if isinstance(value, (tuple, list, set, frozenset, dict)):
            for element in value.values() if isinstance(value, dict) else value:
                self._constant(title, element, attributes)
            return copy.deepcopy(value)
        if isinstance(value, MethodType) and isinstance(value.__self__, type):  # a class method
            return self._constant(title, value.__func__, attributes) and value
        if isinstance(value, (FunctionType, BuiltinFunctionType, MethodDescriptorType)):
            module, written = _origin(value), value if isinstance(value, FunctionType) else None
            if value.__name__ in _asked(module.partition(".")[0]) or not (written or _unchanging(module)):
                raise CannotBeTraced(f"the equations call {value.__name__}, which answers by more than its arguments")
            if written:
                self._function(written)
        elif isinstance(value, (ModuleType, type)):
            self._members(value, attributes)
        elif value is not MISSING and not isinstance(value, (*DATA, *CODE)):
            raise CannotBeTraced(f"the equations read {title}, and no change of a {type(value).__name__} is seen")
        return value

    def _members(self, holder: Any, attributes: Iterable[str]) -> None:
        """Follow the members of a module or class that have these names."""
        name = holder.__module__ if isinstance(holder, type) else holder.__name__
        if _unchanging(name):
            package, *parts = name.split(".")
            asked = sorted(_asked(package) & {*parts, *attributes}) if isinstance(holder, ModuleType) else []
            if asked:
                raise CannotBeTraced(f"the equations ask {package}'s {asked[0]}, and no change of it is seen")
            return
        if holder in self.classes or (id(holder), *sorted(attributes)) in self._seen:
            return
        self._seen.add((id(holder), *sorted(attributes)))
        for owner in holder.__mro__ if isinstance(holder, type) else (holder,):
            if owner is not holder and _unchanging(owner.__module__):
                continue
            for attribute, member in tuple(vars(owner).items()):
                if attribute in attributes or attribute in RUN_BY_NO_NAME:
                    self._read(holder, attribute, attributes)
                    if (function := _function_of(member)) is not None:
                        self._function(function)


def _function_of(member: Any) -> FunctionType | None:
    """Return the function that runs where a member of a class is read or called; None for data."""
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    elif isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    return member if isinstance(member, FunctionType) else None


def _is_data(base: type, name: str) -> bool:
    member = vars(base)[name]
    return not name.startswith(("__", "_abc_")) and not isinstance(member, (*CODE, staticmethod, classmethod))


def _origin(function: Any) -> str:
    """Return the module of a function; "" if it is bound to an object, which may change."""
    owner = getattr(function, "__self__", None) or getattr(function, "__objclass__", None)
    if owner is None or isinstance(owner, ModuleType):
        return str(function.__module__)
    return owner.__module__ if isinstance(owner, type) else ""


@cache
def _asked(package: str) -> frozenset[str]:
    """Return the names in an unchanging package that depend on more than arguments."""
    match package:
        case "torch":
            ignored = torch.overrides.get_ignored_functions()
            of_tensors = {*dir(torch._C._VariableFunctions), *OF_ARGUMENTS}
            asked = {n for n, member in vars(torch).items() if callable(member) and member in ignored}
            return frozenset(n for n in asked - of_tensors if not isinstance(getattr(torch, n), type)) | OF_TORCH
        case "numpy":
            return OF_NUMPY
        case "builtins":
            return LOOKING_AROUND
        case _:
            return frozenset()


def _names(code: CodeType) -> tuple[set[str], set[str], set[str]]:
    """Return the global variables that code reads, possible names of attributes, and modules that it imports."""
    variables, attributes, imported = set[str](), set[str](), set[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            variables.add(str(instruction.argval))
        elif instruction.opname == "IMPORT_NAME":
            imported.add(str(instruction.argval))
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(str(instruction.argval))
        elif isinstance(instruction.argval, CodeType):
            inner = _names(instruction.argval)
            variables, attributes, imported = variables | inner[0], attributes | inner[1], imported | inner[2]
        elif instruction.opname == "LOAD_CONST" and isinstance(instruction.argval, str):  # of getattr
            attributes.add(instruction.argval)
    return variables, attributes, imported


def _unchanging(module: str | None) -> bool:
    return (module or "").partition(".")[0] in UNCHANGING
