"""The script of a failing law: a program of at most 20 lines that needs torch and the subject's package alone."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gatedrnn.verify import feeding
from gatedrnn.verify.laws import GENERATION, CaseSizes, Law, Way
from gatedrnn.verify.subject import Arguments, Subject


def script_of(
    subject: Subject, law: Law, sizes: CaseSizes, arguments: Arguments, gradients: bool, seed: int
) -> str:  # fmt: skip
    """Write the script of a law at these sizes; empty where the subject was made elsewhere."""
    source = subject.source
    if source is None:
        return ""
    plain = law.reference in (feeding.whole, feeding.itself)
    quoted = _quoted([law.way] if plain or law in GENERATION else [law.way, law.reference])
    imports, *making, call = source.lines()
    making += ["torch.set_grad_enabled(False)"] * ("copy." in quoted)  # copies are made of tensors without history
    if not law.of_module:
        call = call.replace("def call(layer, ", "def run(").replace("def call(cell, ", "def run(")
    body = [imports, *_imports(quoted), *making, call, f"x = {_draw(subject, sizes.batch, sizes.steps, seed)}"]
    if gradients and subject.vocabulary is None:
        body[-1] += ".requires_grad_()"
    if law.more:
        body.append(f"more = {_draw(subject, sizes.batch, 2, seed + 1)}")
    if law.given_state:
        reached = f"run({_draw(subject, sizes.batch, 3, seed + 100)})[1]"
        body.append(f"state = torch.utils._pytree.tree_map(torch.Tensor.detach, {reached})")
    words = {key: _literal(value) for key, value in arguments.items()}
    words |= {"more": "more"} if law.more else {}
    words |= {"state": "state"} if law.given_state else {}
    way, reference = (
        f"{name}({', '.join([front, *(f'{key}={value}' for key, value in accepted(function, words).items())])})"
        for name, front, function in (
            (law.way.__name__, "call, layer, x" if law.of_module else "run, x", law.way),
            (law.reference.__name__, "run, x", law.reference) if not plain
            else ("call" if law.of_module else "run", "layer, x" if law.of_module else "x", law.reference),
        )
    )  # fmt: skip
    body.append(quoted)
    if law in GENERATION:
        options = ", mask=None, **options"
        body.append(f"generate = lambda x{options}: ({GENERATED})")
        body.append(f"print({way.replace('run, x', 'run, x, generate')}.max().item())  # 0 expected")
        return _joined(body)
    if gradients:
        leaves = "[*layer.parameters()]" if subject.vocabulary else "[x, *layer.parameters()]"
        body.append(f"expected, actual = {_first(law.reference, reference)}, {_first(law.way, way)}")
        body.append(
            f"expected, actual = (torch.autograd.grad(y.square().sum(), {leaves}, allow_unused=True, "
            "materialize_grads=True) for y in (expected, actual))"
        )
    elif "opaque" in subject.abilities() or not (_pair(law.way) and _pair(law.reference)):
        body.append(f"expected, actual = [{_first(law.reference, reference)}], [{_first(law.way, way)}]")
    else:
        body.append(f"expected, actual = map(torch.utils._pytree.tree_leaves, ({reference}, {way}))")
    body.append("print(max((a - b).abs().max().item() for a, b in zip(actual, expected)))  # 0 expected")
    return _joined(body)


GENERATED = (
    "layer.generate(x, attention_mask=torch.ones_like(x) if mask is None else mask.long(), max_new_tokens=6, "
    "do_sample=False, pad_token_id=0, eos_token_id=None, **options)"
)
PAIRS = (feeding.whole, feeding.itself, feeding.in_chunks, feeding.strided, feeding.deep_copied, feeding.pickled,
         feeding.saved, feeding.trained, feeding.left_as_it_was, feeding.as_it_was)  # fmt: skip
"""Ways that return a state beside the outputs."""


def _pair(function: Callable[..., Any]) -> bool:
    return function in PAIRS


def _first(function: Callable[..., Any], called: str) -> str:
    return f"{called}[0]" if _pair(function) else called


def accepted(function: Way, arguments: Arguments) -> Arguments:
    """Return those of the arguments that a function takes: a reference needs fewer than the way it is compared with."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return arguments
    return {key: value for key, value in arguments.items() if key in parameters}


def _joined(body: list[str]) -> str:
    return "\n".join(part for part in body if part) + "\n"


def _quoted(functions: list[Callable[..., Any]]) -> str:
    """Return the text of functions of `feeding`, and of those that they call, without their docstrings."""
    texts: dict[str, str] = {}
    todo = list(functions)
    while todo:
        function = todo.pop(0)
        if function.__name__ in texts:
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        del definition.body[0]
        texts[function.__name__] = ast.unparse(tree)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        todo += [getattr(feeding, name) for name in sorted(names) if inspect.isfunction(getattr(feeding, name, None))
                 and getattr(feeding, name).__module__ == feeding.__name__]  # fmt: skip
    return "\n".join(texts.values())


def _imports(text: str) -> list[str]:
    """Return imports of what the quoted functions use beside torch."""
    names = [name for name in ("copy", "io", "pickle") if f"{name}." in text]
    lines = [f"import {', '.join(names)}"] if names else []
    packing = [name for name in ("pack_padded_sequence", "pad_packed_sequence") if name in text]
    return [*lines, *([f"from torch.nn.utils.rnn import {', '.join(packing)}"] if packing else [])]


def _draw(subject: Subject, batch: int, steps: int, seed: int) -> str:
    generator = f"generator=torch.Generator().manual_seed({seed})"
    if subject.vocabulary is not None:
        return f"torch.randint({subject.vocabulary}, ({batch}, {steps}), {generator})"
    drawn = f"torch.randn({batch}, {steps}, {subject.features}, {generator}, dtype=torch.float64)"
    return drawn if subject.dtype == torch.float64 else f"{drawn}.to({subject.dtype})"


def _literal(value: Any) -> str:
    """Write an argument as Python reads it."""
    if isinstance(value, Tensor):
        shown = value.int().tolist() if value.dtype == torch.bool else value.tolist()
        return f"torch.tensor({shown}){'.bool()' if value.dtype == torch.bool else ''}"
    return repr(value)
