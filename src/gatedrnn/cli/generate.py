"""gatedrnn generate."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gatedrnn.cli.arguments import at_least_one
from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console, plain


def generate(
    run: Path,
    /,
    *,
    prompt: str = "",
    length: Annotated[int, Parameter(validator=at_least_one)] = 200,
    temperature: list[float] | None = None,
    top_k: int = 0,
    top_p: float = 1.0,
    no_unk: bool = False,
    seed: int = 0,
) -> None:
    """Continue a text, once for each temperature, side by side, as it is generated.

    Args:
        run: Folder of a run of `gatedrnn train`, or of a language model that one wrote.
        prompt: Beginning of the text; nothing for a new text.
        length: Tokens to add.
        temperature: 0 takes the likeliest token each time; the larger, the more surprising. 0.8 if not given.
        top_k: Draw from so many of the likeliest tokens; 0 for all.
        top_p: Draw from the likeliest tokens that have this probability together.
        no_unk: Never write `<unk>`, the token of what the vocabulary lacks.
        seed: Seed of the draws; the same for each temperature.
    """
    temperatures = [0.8] if temperature is None else temperature
    if min(temperatures, default=-1) < 0:
        raise UsageError(f"--temperature: must be 0 (the likeliest token) or above, got {temperatures}")
    if not 0 < top_p <= 1 or top_k < 0:
        raise UsageError("--top-p must lie in (0, 1], --top-k must be 0 or above")
    from gatedrnn.data.tokenizers import unknown_in
    from gatedrnn.training.sample import load_language_model, sample

    model, tokenizer = load_language_model(run)
    console, notes = Console(), Console(stderr=True)
    if not prompt:
        notes.print("no --prompt: a new text begins", style="dim")
    unknown = unknown_in(tokenizer, prompt)
    if unknown:
        notes.print(f"not in the vocabulary, read as <unk>: {', '.join(map(repr, unknown))}", style="yellow")
    texts = [""] * len(temperatures)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="visible") as live:
        for column, heat in enumerate(temperatures):

            def show(text: str, column: int = column) -> None:
                texts[column] = text
                if console.is_terminal:
                    live.update(_side_by_side(temperatures, texts), refresh=True)

            show(
                sample(
                    model,
                    tokenizer,
                    prompt,
                    length,
                    temperature=heat,
                    top_k=top_k,
                    top_p=top_p,
                    no_unk=no_unk,
                    seed=seed,
                    on_text=show,
                )
            )
    if console.is_terminal:
        console.print(_side_by_side(temperatures, texts))
    else:
        shown = (f"[{_named(heat)}]\n{plain(text)}\n" for heat, text in zip(temperatures, texts, strict=True))
        console.print(Group(*map(Text, shown)), soft_wrap=True)


def _named(temperature: float) -> str:
    return f"temperature {temperature:g}" if temperature else "temperature 0: the likeliest token each time"


def _side_by_side(temperatures: list[float], texts: list[str]) -> Table:
    table = Table(*(_named(heat) for heat in temperatures), expand=True)
    table.add_row(*(Text(plain(text)) for text in texts))
    return table
