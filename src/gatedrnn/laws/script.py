"""The script of a failing law: a program of at most 20 lines that needs torch and the subject's package alone."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gatedrnn.laws import modes
from gatedrnn.laws.laws import GENERATION, CaseSizes, Law, Way
from gatedrnn.laws.subject import Arguments, Call, SourceText, Subject, TextCall

_GENERATE = (
    "generate = lambda x, mask=None, **options: layer.generate(x, attention_mask=torch.ones_like(x) if mask is None "
    "else mask.long(), max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None, **options)"
)
_GRADIENTS = (
    "expected, actual = (torch.autograd.grad(y.square().sum(), {leaves}, allow_unused=True, materialize_grads=True) "
    "for y in (expected, actual))"
)
_RETURNING_STATE = (modes.whole, modes.itself, modes.in_chunks, modes.strided, modes.deep_copied, modes.pickled,
         modes.saved, modes.trained, modes.left_as_it_was, modes.as_it_was)  # fmt: skip
"""Ways that return a state beside the outputs."""
_PLAIN_CALLS = (modes.whole, modes.itself)
"""References that a script writes as a plain call."""


def script_of(
    subject: Subject, law: Law, sizes: CaseSizes, arguments: Arguments, gradients: bool, seed: int
) -> str:  # fmt: skip
    """Write the script of a law at these sizes; empty where the subject was made elsewhere."""
    if subject.source is None:
        return ""
    generates = law in GENERATION
    quoted = _function_texts([law.way] if generates or law.reference in _PLAIN_CALLS else [law.way, law.reference])
    keywords = {key: _literal(value) for key, value in arguments.items()}
    named = {"more": law.more, "state": law.given_state, "generate": generates}
    keywords |= {name: name for name, wanted in named.items() if wanted}
    way, reference = _call_text(law, law.way, keywords), _call_text(law, law.reference, keywords)
    if generates:
        checks = [_GENERATE, f"print({way}.max().item())  # 0 expected"]
    else:
        largest = "print(max((a - b).abs().max().item() for a, b in zip(actual, expected)))  # 0 expected"
        checks = [*_comparison_lines(subject, law, way, reference, gradients), largest]
    setup = _setup_lines(subject.source, subject.call, law, quoted)
    return "\n".join([*setup, *_input_lines(subject, law, sizes, gradients, seed), quoted, *checks]) + "\n"


def _setup_lines(source: SourceText, call_of: Call, law: Law, quoted: str) -> list[str]:
    """Return the lines that import, make the layer and say how it is called."""
    assert isinstance(call_of, TextCall)  # as the module, it is made from text
    (imports, *making), call = source.lines(), call_of.text
    if not law.of_module:
        call = call.replace("def call(layer, ", "def run(").replace("def call(cell, ", "def run(")
    # Tensors with a history cannot be copied.
    copies = ["torch.set_grad_enabled(False)"] * ("copy." in quoted)
    return [imports, *_import_lines(quoted), *making, *copies, call]


def _input_lines(subject: Subject, law: Law, sizes: CaseSizes, gradients: bool, seed: int) -> list[str]:
    """Return the lines that draw the inputs, and the state and the steps that a law asks for."""
    leaf = ".requires_grad_()" if gradients and subject.vocabulary is None else ""
    lines = [f"x = {_draw_text(subject, sizes.batch, sizes.steps, seed)}{leaf}"]
    if law.more:
        lines.append(f"more = {_draw_text(subject, sizes.batch, 2, seed + 1)}")
    if law.given_state:
        reached = f"run({_draw_text(subject, sizes.batch, 3, seed + 100)})[1]"
        lines.append(f"state = torch.utils._pytree.tree_map(torch.Tensor.detach, {reached})")
    return lines


def _call_text(law: Law, function: Way, keywords: dict[str, str]) -> str:
    """Return the call of a way, or of the module itself."""
    name, first = function.__name__, "call, layer, x" if law.of_module else "run, x"
    if function in _PLAIN_CALLS:
        name, first = ("call", "layer, x") if law.of_module else ("run", "x")
    return f"{name}({', '.join([first, *(f'{key}={value}' for key, value in accepted(function, keywords).items())])})"


def _comparison_lines(subject: Subject, law: Law, way: str, reference: str, gradients: bool) -> list[str]:
    """Return the lines that run both ways, the reference first, as they ran here."""
    outputs = [f"{text}[0]" if function in _RETURNING_STATE else text
               for function, text in ((law.reference, reference), (law.way, way))]  # fmt: skip
    if gradients:
        leaves = "[*layer.parameters()]" if subject.vocabulary else "[x, *layer.parameters()]"
        return [f"expected, actual = {', '.join(outputs)}", _GRADIENTS.format(leaves=leaves)]
    states = {law.way, law.reference} <= set(_RETURNING_STATE) and "opaque" not in subject.abilities()
    if states:
        return [f"expected, actual = map(torch.utils._pytree.tree_leaves, ({reference}, {way}))"]
    return [f"expected, actual = [{outputs[0]}], [{outputs[1]}]"]


def accepted(function: Way, arguments: Arguments) -> Arguments:
    """Return those of the arguments that a function takes: a reference needs fewer than the way it is compared with."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return arguments
    return {key: value for key, value in arguments.items() if key in parameters}


def _function_texts(functions: list[Callable[..., Any]]) -> str:
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
        # The docstring: a script has at most 20 lines.
        del definition.body[0]
        texts[function.__name__] = ast.unparse(tree)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        todo += [getattr(modes, name) for name in sorted(names) if inspect.isfunction(getattr(modes, name, None))
                 and getattr(modes, name).__module__ == modes.__name__]  # fmt: skip
    return "\n".join(texts.values())


def _import_lines(text: str) -> list[str]:
    """Return imports of what the quoted functions use beside torch."""
    names = [name for name in ("copy", "io", "pickle") if f"{name}." in text]
    lines = [f"import {', '.join(names)}"] if names else []
    packing = [name for name in ("pack_padded_sequence", "pad_packed_sequence") if name in text]
    return [*lines, *([f"from torch.nn.utils.rnn import {', '.join(packing)}"] if packing else [])]


def _draw_text(subject: Subject, batch: int, steps: int, seed: int) -> str:
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
