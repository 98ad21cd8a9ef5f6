"""Ways in: how a module is made from its sizes, and how it is called, inferred from what it takes and returns."""

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gatedrnn.laws import language_models
from gatedrnn.laws.errors import InvalidSubject, summary, unknown
from gatedrnn.laws.subject import SourceText, Subject, TextCall, evaluation_mode, is_plain

Askable: TypeAlias = "Subject | nn.Module | Callable[..., object] | str"
"""All that stands for a recurrent module: itself, what makes one, a word that names one."""
_INPUT = ("input_size", "input_dim", "in_features", "d_input", "dim", "d_model", "hidden_size", "width", "features")
"""Parameters of constructors that take the size of the input, the first of them that there is."""
HIDDEN = ("hidden_size", "hidden_dim", "out_features", "d_hidden", "dim_hidden", "units")
MASKS = ("mask", "attention_mask")
_ATTRIBUTES = ("input_size", "input_dim", "in_features", "d_input", "d_model", "dim")
"""Attributes of modules that say how many features they take."""
RESETS = ("resets", "reset", "is_init", "episode_starts")

LAYER = """def call(layer, x, state=None{flags}):
    {unpack} = layer({x}, state{keywords})
    return {output}, state"""
CELL = """def call(cell, x, state=None):
    outputs = []
    for x_t in x.unbind(1):
        state = cell(x_t, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outputs, 1), state"""
_MAMBA = """def call(layer, x, state=None):
    state = state or __import__("types").SimpleNamespace(
        seqlen_offset=0, batch_size_offset=0, max_seqlen=4096, max_batch_size=len(x), key_value_memory_dict={})
    output = layer(x, inference_params=state)
    state.seqlen_offset += x.shape[1]
    return output, state"""
"""mamba_ssm's layers, whose cache is an object that counts the steps so far."""
_FLA = """def call(layer, x, state=None, mask=None):
    cache, seen = state or (__import__("fla.models.utils").models.utils.Cache(), x[:, :0, 0].long())
    seen = torch.cat([seen, torch.ones_like(x[..., 0]).long() if mask is None else mask.long()], 1)
    output, _, cache = layer(x, attention_mask=seen, past_key_values=cache, use_cache=True)
    return output, (cache, seen)"""
"""flash-linear-attention's layers, which write into the cache that they are given."""
STEP = """def call(layer, x, state=None):
    outputs = []
    for x_t in x.unbind(1):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    return torch.stack(outputs, 1), state"""


def subject_of(thing: Askable, *, input_size: int = 4, hidden_size: int = 6, name: str = "") -> Subject:
    """Return the subject that an object stands for.

    Args:
        thing: a `Subject`; a recurrent module; a class or a function that makes one; a word that names one.
        input_size: elements of an input, for a class or a function that asks for them.
        hidden_size: elements of the state, likewise.

    Raises:
        InvalidSubject: it cannot be made from the sizes, is not recurrent, or needs a device that is not here.
    """
    if isinstance(thing, Subject):
        return thing
    if isinstance(thing, str):
        return named(thing, input_size=input_size, hidden_size=hidden_size)
    if isinstance(thing, nn.Module):
        return _subject_of_module(thing, name or type(thing).__name__, input_size, None)
    if not callable(thing):
        raise InvalidSubject(f"verify takes a module, a class, a function that makes one, or a Subject, got {thing!r}")
    return _subject_of_class(thing, name or getattr(thing, "__name__", "subject"), input_size, hidden_size)


def _subject_of_class(cls: Callable[..., Any], name: str, input_size: int, hidden_size: int) -> Subject:
    arguments = _constructor_arguments(cls, name, input_size, hidden_size)
    thing = _construct(lambda: cls(**arguments), name)
    if isinstance(thing, Subject):
        return thing
    module, class_name = inspect.getmodule(cls), getattr(cls, "__qualname__", ".")
    package = "__main__" if module is None else module.__name__
    if package == "__main__" or not class_name.isidentifier() or not package.replace(".", "").isidentifier():
        return _subject_of_module(thing, name, input_size, None)  # no script could import it
    listed = ", ".join(f"{key}={value}" for key, value in arguments.items())
    is_torch = package.split(".")[:2] == ["torch", "nn"]
    imports = "import torch" if is_torch else f"import torch\n{_path_line(name)}from {package} import {class_name}"
    source = SourceText(imports, f"layer = {'torch.nn.' * is_torch}{class_name}({listed})")
    subject = _subject_of_module(thing, name, input_size, source)
    if not arguments or not inspect.isclass(cls):
        return subject
    return replace(subject, remake=lambda width: _subject_of_class(cls, name, width, width), width=hidden_size)


def _path_line(name: str) -> str:
    """Return the line by which a script finds a file that was named by its path."""
    file = Path(name.partition(":")[0])
    return f"import sys; sys.path.insert(0, {str(file.parent)!r})\n" if file.suffix == ".py" else ""


def _construct(make: Callable[[], Any], name: str) -> Any:
    try:
        # Parameters made in inference mode have no gradients; the caller's random numbers must not move.
        with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return make()
    except InvalidSubject:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidSubject(
            f"{name} cannot be made from these sizes: {summary(error)}; "
            "write a function without arguments that makes it, FILE.py:FUNCTION"
        ) from error


def _constructor_arguments(cls: Callable[..., Any], name: str, input_size: int, hidden_size: int) -> dict[str, int]:
    """Return the arguments of a constructor."""
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        # A class written in C may have no signature of its own.
        parameters = inspect.signature(cls.__init__).parameters
    named = [key for key, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    is_torch = inspect.isclass(cls) and issubclass(cls, nn.RNNBase)
    # torch's RNNs take *args and **kwargs, whose names say nothing.
    if is_torch:
        named = ["input_size", "hidden_size"]
    arguments = {"layer_idx": 0} if "layer_idx" in named else {}  # the place in a cache, of which there is one
    input_name = next((key for key in _INPUT if key in named), None)
    if input_name is not None:
        arguments[input_name] = input_size
    hidden_name = next((key for key in HIDDEN if key in named and key != input_name), None)
    if hidden_name is not None:
        arguments[hidden_name] = hidden_size
    if "batch_first" in named or is_torch:
        arguments["batch_first"] = True
    needed = {key for key, parameter in parameters.items() if parameter.default is parameter.empty} - {"self"}
    missing = [key for key in named if key in needed and key not in arguments]
    if missing:
        raise InvalidSubject(
            f"{name} asks for {', '.join(missing)}, which verify does not know; write a function without arguments "
            "that makes it, and name that: FILE.py:FUNCTION"
        )
    return arguments


def _subject_of_module(module: Any, name: str, features: int, source: SourceText | None) -> Subject:
    """Return the subject of a module: the first way to call it that carries a state."""
    if language_models.is_language_model(module):
        return language_models.of_model(module, name)
    features = next(
        (getattr(module, key) for key in _ATTRIBUTES if isinstance(getattr(module, key, None), int)), features
    )
    parts = module.modules() if isinstance(module, nn.Module) else [module]
    bidirectional, failures = any(getattr(part, "bidirectional", False) is True for part in parts), []
    for entry, text, takes in _call_forms(module):
        subject = Subject(
            module, TextCall(text), features=features, name=name, entry=entry, takes=frozenset(takes), source=source,
            both_directions=bidirectional,
        )  # fmt: skip
        try:
            with torch.no_grad(), evaluation_mode(module):
                _check_stateful_call(subject)
        except Exception as error:
            failures.append(f"{entry}: {summary(error)}")
            continue
        # Made afresh: the trial calls may have written to buffers or caches.
        return subject if source is None else replace(subject, module=source.make())
    if any(word in failure for word in ("CUDA", "cuda", "active drivers") for failure in failures):
        raise InvalidSubject(f"{name} needs a GPU: {failures[0]}")
    if not hasattr(module, "step") and len(_parameters(module)) < 2:
        raise InvalidSubject(f"{name} is not recurrent: it takes an input and no state")
    raise InvalidSubject(
        f"{name} is not run by any way that verify knows, with {features} features ({'; '.join(failures[:3])}); "
        "is it recurrent? A Subject says how it is called, and vocabulary= that it takes token ids: see docs/verify.md"
    )


def _parameters(module: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a module's forward, where it has one of its own."""
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    forward = getattr(module, "forward", None)
    if not callable(forward) or getattr(type(module), "forward", None) is nn.Module.forward:
        return {}
    return inspect.signature(forward).parameters


def _call_forms(module: Any) -> Iterator[tuple[str, str, set[str]]]:
    """Iterate over the ways that a module may be called: a name, the text of the call, what it takes."""
    if parameters := _parameters(module):
        # Calls with a cache come first: such a module also runs without one, but then carries no state.
        if "inference_params" in parameters:
            yield "layer(x, inference_params=…)", _MAMBA, {"state", "opaque"}
        if "past_key_values" in parameters:
            yield "layer(x, past_key_values=…)", _FLA, {"state", "opaque", "mask"}
        keywords, flags, takes = "", "", {"state"}
        wanted = [key for key in parameters if re.fullmatch(r"return_\w*(hidden|state|cache)\w*", key)]
        keywords += "".join(f", {key}=True" for key in wanted)
        mask = next((key for key in MASKS if key in parameters), None)
        # A default of False is a switch for the whole call, and no flags of steps.
        resets = next((key for key in RESETS if key in parameters and parameters[key].default is not False), None)
        for flag, key in (("mask", mask), ("resets", resets)):
            if key is not None:
                flags += f", {flag}=None"
                keywords += f", {key}={flag}"
                takes.add(flag)
        # A cell takes one step, (batch, features), and would read a sequence as a batch.
        if "Cell" not in type(module).__name__:
            batch_first = LAYER.format(x="x", unpack="output, state", output="output", flags=flags, keywords=keywords)
            time_first = LAYER.format(
                x="x.transpose(0, 1)", unpack="output, state", output="output.transpose(0, 1)", flags=flags,
                keywords=re.sub(r"=(mask|resets)", r"=\1 if \1 is None else \1.transpose(0, 1)", keywords),
            )  # fmt: skip
            packs = {"packed"} if isinstance(module, nn.RNNBase) else set()
            # A module that does not say where its batch axis is, is tried both ways.
            if getattr(module, "batch_first", True):
                yield f"layer(x, state{keywords})", batch_first, takes | packs
            if not getattr(module, "batch_first", False):
                yield f"layer(x, state{keywords}), time first", time_first, takes
    if callable(getattr(module, "step", None)):
        yield "layer.step(x, state)", STEP, {"state"}
    if parameters:
        yield "cell(x, state)", CELL, {"state"}


def _check_stateful_call(subject: Subject) -> None:
    """Call a module twice: it returns one output a step and a state that it takes again."""
    plain, run = "opaque" not in subject.abilities(), subject.run_of()
    # Unequal sizes: exchanged axes of batch and time show.
    x = subject.draw(2, 3, 0)
    output, state = run(x)
    if not isinstance(output, Tensor) or output.shape[:2] != (2, 3):
        raise TypeError(f"returns no output for each of (2, 3) steps, but {_shape(output)}")
    if plain and not is_plain(state):
        raise TypeError("returns no state of tensors")
    shapes = [_shape(leaf) for leaf in tree_leaves(state)] if plain else []
    output, state = run(x[:, :1], state)
    if output.shape[:2] != (2, 1) or (plain and [_shape(leaf) for leaf in tree_leaves(state)] != shapes):
        raise TypeError("returns outputs or states of other shapes when it goes on from its state")


def _shape(x: object) -> str:
    return f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"


def named(word: str, *, input_size: int = 4, hidden_size: int = 6) -> Subject:
    """Return the subject that a word names: `transformers:TYPE`, `PACKAGE.MODULE:CLASS` or `FILE.py:FUNCTION`.

    Raises:
        InvalidSubject: there is nothing of that name, or it cannot be run.
    """
    module_name, _, attribute = word.partition(":")
    if not attribute:
        raise InvalidSubject(f"{word!r}: name a layer as PACKAGE.MODULE:CLASS, FILE.py:FUNCTION or transformers:TYPE")
    if module_name == "transformers":
        return language_models.family(attribute)
    try:
        # A console script does not look for modules in the current folder, as `python -m` does.
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        module = _from_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
    except InvalidSubject:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidSubject(f"{module_name} cannot be imported: {summary(error)}") from error
    if not hasattr(module, attribute):
        names = [name for name in dir(module) if not name.startswith("_")]
        raise unknown(f"class or function in {module_name}", attribute, names)
    return subject_of(getattr(module, attribute), input_size=input_size, hidden_size=hidden_size, name=word)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidSubject(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # pickle and dataclasses look a class's module up by its name.
    sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # its neighbours, as if it were run
    spec.loader.exec_module(module)
    return module
