"""What equations read beside their arguments: a kernel that was made of them holds for as long as that is as it was.

It is found from the names in their code: attributes of the cell, variables of modules, classes and enclosing functions,
and defaults; in the functions that they call too.
"""

import builtins
import copy
import dis
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache, cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from gatedrnn.equations import Equations
from gatedrnn.errors import CannotBeTraced

METHODS = ("step", "output")
"""What kernels are made of."""
UNCHANGING = frozenset({
    "abc", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "itertools",
    "math", "numbers", "operator", "types", "typing", "torch", "numpy", "gatedrnn",
})  # fmt: skip
"""Packages whose variables nobody changes and whose functions answer by their arguments alone, but for `_asked`."""
DATA = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, Enum, np.generic)
CODE = (FunctionType, BuiltinFunctionType, MethodDescriptorType, property, cached_property, type, ModuleType)
LOOKING_AROUND = frozenset({
    "open", "eval", "exec", "compile", "globals", "locals", "vars", "dir", "input", "__import__", "id", "hash",
})  # fmt: skip
"""Functions of Python that answer by more than their arguments."""
OF_TORCH = frozenset({
    "_C", "accelerator", "backends", "compiler", "cuda", "distributed", "hub", "jit", "mps", "random", "xpu",
})  # fmt: skip
OF_NUMPY = frozenset({"random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"})
"""Likewise, or modules of such functions."""
OF_ARGUMENTS = frozenset({"broadcast_shapes", "is_tensor", "is_storage", "typename", "vmap", "cond"})
"""Of torch's functions that take no tensors, those that answer by their arguments."""
RUN_BY_NO_NAME = frozenset({"__init__", "__new__", "__post_init__", "__call__", "__getattr__", "__getattribute__"})
"""Functions of a class that run where it is called."""
MISSING = object()


class Variable(NamedTuple):
    """A variable, and its value when it was read."""

    holder: Any
    """What has it as an attribute, or a dictionary."""
    name: str
    value: object

    @property
    def now(self) -> object:
        """Its present value."""
        if type(self.holder) is dict:
            return self.holder.get(self.name, MISSING)
        return getattr(self.holder, self.name, MISSING)


class Reads(NamedTuple):
    """All that the equations of a class read."""

    attributes: tuple[tuple[str, object], ...]
    """Those of a cell, with the values that they had."""
    variables: tuple[Variable, ...]

    def hold(self, cell: Equations) -> bool:
        """Whether all is as it was; asked at every call of a layer."""
        for name, value in self.attributes:
            found = getattr(cell, name, MISSING)
            if found is not value and not _equal(found, value):
                return False
        for variable in self.variables:
            now = variable.now
            if now is not variable.value and not _equal(now, variable.value):
                return False
        return True

    def change(self, cell: Equations) -> str:
        """What is not as it was."""
        found = [(name, getattr(cell, name, MISSING), value) for name, value in self.attributes]
        found += [(variable.name, variable.now, variable.value) for variable in self.variables]
        name, now, was = next((name, now, was) for name, now, was in found if not _equal(now, was))
        values = f", {was!r} then and {now!r} now" if isinstance(was, DATA) and isinstance(now, DATA) else ""
        return f"{name}, which its equations read, has changed since its kernel was made{values}"


def reads_of(cell: Equations) -> Reads:
    """What the equations of a cell read now.

    Raises:
        CannotBeTraced: they read something that may change unseen, or a tensor that may be learned.
    """
    search = _Search(cell)
    search.of_cell(METHODS)
    return Reads(tuple(search.attributes.items()), tuple(search.variables.values()))


def _equal(found: object, value: object) -> bool:
    return found is value or (type(found) is type(value) and not isinstance(value, CODE) and bool(found == value))


class _Search:
    """Follows names from one function to the next."""

    def __init__(self, cell: Equations) -> None:
        self.cell = cell
        self.classes = [x for x in type(cell).__mro__ if issubclass(x, Equations) or not _unchanging(x.__module__)]
        self.attributes: dict[str, object] = {}
        self.variables: dict[tuple[int, str], Variable] = {}
        self._seen: set[object] = set()

    def of_cell(self, names: Iterable[str]) -> None:
        """The attributes of the cell that have these names."""
        for name in set(names) - set(Equations.__annotations__):  # declarations, of which a layer is made
            definitions = [vars(kind)[name] for kind in self.classes if name in vars(kind)]
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
        if not ours and "getattr" in variables:  # of a name that may be put together
            attributes |= vars(self.cell).keys() | {n for kind in self.classes for n in vars(kind) if _is_data(kind, n)}
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
        """A variable, and what has these names in it."""
        now = Variable(holder, name, MISSING).now
        value = self._constant(title or name, now, attributes)
        if not isinstance(value, ModuleType):
            self.variables.setdefault((id(holder), name), Variable(holder, name, value))

    def _constant(self, title: str, value: Any, attributes: Iterable[str] = ()) -> object:
        """A value whose change is seen: of a collection a copy."""
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
        """Of a module or class the members that have these names."""
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
        kinds = holder.__mro__ if isinstance(holder, type) else (holder,)
        for kind in kinds:
            if kind is not holder and _unchanging(kind.__module__):
                continue
            for attribute, member in tuple(vars(kind).items()):
                if attribute in attributes or attribute in RUN_BY_NO_NAME:
                    self._read(holder, attribute, attributes)
                    if (function := _function_of(member)) is not None:
                        self._function(function)


def _function_of(member: Any) -> FunctionType | None:
    """What runs where a member of a class is read or called; None for data."""
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    elif isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    return member if isinstance(member, FunctionType) else None


def _is_data(kind: type, name: str) -> bool:
    member = vars(kind)[name]
    return not name.startswith(("__", "_abc_")) and not isinstance(member, (*CODE, staticmethod, classmethod))


def _origin(function: Any) -> str:
    """The module of a function; "" where it is bound to an object, which may change."""
    owner = getattr(function, "__self__", None) or getattr(function, "__objclass__", None)
    if owner is None or isinstance(owner, ModuleType):
        return str(function.__module__)
    return owner.__module__ if isinstance(owner, type) else ""


@cache
def _asked(package: str) -> frozenset[str]:
    """Names in an unchanging package of what answers by more than arguments."""
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
    """Variables of modules that code reads, all that may be names of attributes, and modules that it imports."""
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
