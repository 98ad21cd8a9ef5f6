"""gatedrnn verify."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from gatedrnn.cli.arguments import above_zero, at_least_one, known_cell
from gatedrnn.errors import FAILURE, USAGE, UsageError
from gatedrnn.terminal import Console

if TYPE_CHECKING:
    from gatedrnn.verify import Report

_EVERY_FAMILY = "transformers"


def is_cell(word: str) -> bool:
    """Whether a word is a cell, with options or without, and not the place of another layer."""
    return word != _EVERY_FAMILY and (":" not in word or "=" in word)


def _known(_: object, word: str) -> None:
    if is_cell(word):
        known_cell(_, word)


def verify(
    *subjects: Annotated[str, Parameter(validator=_known)],
    dtypes: tuple[Literal["float64", "float32", "bfloat16"], ...] = ("float64", "float32", "bfloat16"),
    input_size: Annotated[int, Parameter(validator=at_least_one)] = 4,
    hidden_size: Annotated[int, Parameter(validator=at_least_one)] = 6,
    seconds: Annotated[float, Parameter(validator=above_zero)] = 60,
    full: bool = False,
    json_: Annotated[bool, Parameter(name="--json")] = False,
    output: Annotated[Path, Parameter(name="--output")] = Path("runs/verify.json"),
) -> None:
    """Prove that a recurrent layer gives the same values and gradients however the same sequences are fed to it.

    A cell of this library runs as a whole sequence, step by step, in chunks, packed, padded, reversed, with resets and
    with dropout, on every backend there is, against its own equations run step by step in float64, and those against
    plain numpy written from the papers. Values in brackets are those of the log-space scan, shown and not judged. Any
    other layer, and every recurrent language model of transformers, is asked the same laws; a law that fails comes with
    its smallest case and a script that needs torch and the layer's package alone. Exit code 1 if a law fails.

    Args:
        subjects: Cells; `PACKAGE.MODULE:CLASS` or `FILE.py:FUNCTION` that makes a layer; `transformers:TYPE` for a
            small random model of one family, `transformers` for all that recur. All cells if none is named.
        dtypes: Types of parameters and inputs of cells.
        input_size: Elements of an input, for a class that asks for them.
        hidden_size: Elements of the state, for a class that asks for them.
        seconds: Time that one law may take of what is not ours.
        full: A line for every execution mode of a cell, not for the worst alone.
        json_: Print the file of all values, and no tables.
        output: JSON file of all values; scripts go into a folder of the same name.
    """
    from gatedrnn.laws.language_models import families
    from gatedrnn.records import write_whole
    from gatedrnn.verify import check, report

    console, started = Console(), time.perf_counter()
    progress = Console(stderr=True)
    cells, words = [word for word in subjects if is_cell(word)], list[str]()
    for word in subjects:
        if not is_cell(word):
            words += [f"{word}:{kind}" for kind in families()] if word == _EVERY_FAMILY else [word]
    rows, reports, refused = [], list["Report"](), list[str]()
    with progress.status("") as status:
        if cells or not words:
            for row in report.verify(cells, dtypes):
                rows.append(row)
                status.update(f"{row.cell} {row.dtype} {row.mode}")
        for word in words:
            status.update(word)
            try:
                reports.append(
                    check(word, input_size=input_size, hidden_size=hidden_size, seconds=seconds, ends_process=True)
                )
            except UsageError as error:
                if len(words) == 1:
                    raise
                refused.append(str(error))
    record = report.as_record(rows, reports)
    output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, allow_nan=False)
    write_whole(output, text)
    scripts = report.write_scripts(reports, output.with_suffix(""))
    if json_:
        print(text)
    else:
        if rows:
            report.print_tables(rows, console, full)
            console.print(f"{report.verdict(rows)} in {time.perf_counter() - started:.0f} s", highlight=False)
        report.print_reports(reports, console)
        console.print(f"all values: {output}", soft_wrap=True, highlight=False)
        if scripts:
            console.print(f"scripts of what fails: {output.with_suffix('')}", soft_wrap=True, highlight=False)
    for message in refused:
        progress.print(f"gatedrnn: {message}", soft_wrap=True, highlight=False)
    if not record["passed"] or refused:
        sys.exit(USAGE if record["passed"] else FAILURE)
