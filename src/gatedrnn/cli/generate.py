"""gatedrnn generate."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gatedrnn.cli.arguments import at_least_one
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
    stop: list[str] | None = None,
    samples: Annotated[int, Parameter(validator=at_least_one)] = 1,
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
        stop: Texts; the continuation ends before the first of them. A line break is $'\\n' in most shells.
        samples: Texts for each temperature, with the seeds SEED, SEED + 1, ...
    """
    temperatures = [0.8] if temperature is None else temperature
    from gatedrnn.data.tokenizers import unknown_in
    from gatedrnn.training.sample import check_draws, load_language_model, sample

    stop = stop or []
    for heat in temperatures:
        check_draws(heat, top_k, top_p, stop, named=lambda name: f"--{name.replace('_', '-')}")
    model, tokenizer = load_language_model(run)
    console, notes = Console(), Console(stderr=True)
    if not prompt:
        notes.print("no --prompt: a new text begins", style="dim")
    unknown = unknown_in(tokenizer, prompt)
    if unknown:
        notes.print(f"not in the vocabulary, read as <unk>: {', '.join(map(repr, unknown))}", style="yellow")
    seeds = range(seed, seed + samples)
    columns = [(heat, number) for heat in temperatures for number in seeds]
    titles = [_named(heat) + (f", seed {number}" if samples > 1 else "") for heat, number in columns]
    texts = [""] * len(columns)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="visible") as live:
        for column, (heat, number) in enumerate(columns):

            def show(piece: str, column: int = column) -> None:
                texts[column] += piece
                if console.is_terminal:
                    live.update(_side_by_side(titles, texts), refresh=True)
                else:
                    console.print(Text(plain(piece)), end="", soft_wrap=True)
                    console.file.flush()

            if not console.is_terminal:
                console.print(Text(f"[{titles[column]}]"))
            sample(
                model, tokenizer, prompt, length, temperature=heat, top_k=top_k, top_p=top_p, no_unk=no_unk,
                seed=number, stop=stop, on_text=show,
            )  # fmt: skip
            if not console.is_terminal:
                console.print("\n")
    if console.is_terminal:
        console.print(_side_by_side(titles, texts))


def _named(temperature: float) -> str:
    return f"temperature {temperature:g}" if temperature else "temperature 0: the likeliest token each time"


def _side_by_side(titles: list[str], texts: list[str]) -> Table:
    table = Table(*titles, expand=True)
    table.add_row(*(Text(plain(text)) for text in texts))
    return table
