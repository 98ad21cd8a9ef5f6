"""gatedrnn evaluate."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from gatedrnn.commands.arguments import UsageError, at_least_one


def evaluate(
    *runs: Path,
    split: str = "test",
    file: Path | None = None,
    text_column: str | None = None,
    threads: Annotated[int | None, Parameter(validator=at_least_one)] = None,
) -> None:
    """Score language models on a split of their own data, or on any text: perplexity and bits per byte.

    The state is carried from the first token to the last; every token of the text is foretold, the first from the <eos>
    before it. Perplexities of different vocabularies are never put side by side: bits per byte are.

    Args:
        runs: Folders of runs of `gatedrnn train`.
        split: test, validation or train.
        file: A text to score instead: .txt, .txt.gz, JSON lines or Parquet.
        text_column: Of that file; guessed where one name is obvious.
        threads: Threads of torch; all cores if not given.
    """
    if not runs:
        raise UsageError("name at least one run")
    import torch

    from gatedrnn.train.scoring import score_run
    from gatedrnn.train.settings import threads_for

    torch.set_num_threads(threads or threads_for())
    rows = [score_run(run, split, file, text_column) for run in runs]
    columns = list(rows[0])
    console = Console()
    if len({row.pop("identity") for row in rows}) > 1:
        columns.remove("perplexity")
        console.print(
            "The vocabularies differ, and a perplexity is one per token of its own: compare bits per byte.",
            highlight=False,
        )
    columns.remove("identity")
    table = Table(title=f"{file.name if file else split}: {rows[0].pop('text')}", title_justify="left")
    columns.remove("text")
    for column in columns:
        table.add_column(column, justify="left" if column == "run" else "right")
    for row in rows:
        table.add_row(*(_shown(row[column]) for column in columns))
    console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}" if value < 10 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
