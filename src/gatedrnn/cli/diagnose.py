"""gatedrnn diagnose."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gatedrnn.cli.arguments import at_least_one, command_line
from gatedrnn.terminal import Console

Count = Annotated[int, Parameter(validator=at_least_one)]


def diagnose(
    model: Path,
    *,
    split: str = "validation",
    file: Path | None = None,
    text_column: str | None = None,
    rows: Count = 16,
    steps: Count = 256,
    output: Path | None = None,
) -> None:
    """Look into a trained model: what its gates do, how long its channels remember, how far a gradient reaches back.

    Args:
        model: Folder of a finished run of `gatedrnn train`; with --file, also a language model in a Hugging Face
            folder.
        split: Of the run's own data: validation, test, or another that it was tested on.
        file: A text to look at a language model on instead: .txt, .txt.gz, JSON lines or Parquet.
        text_column: Of that file; guessed where one name is obvious.
        rows: Sequences.
        steps: Of each, at most.
        output: Folder for report.html and diagnosis.json; diagnosis in the model's folder, if not given.
    """
    import json

    from gatedrnn.inspect.inputs import of_run, of_text
    from gatedrnn.inspect.measure import measure
    from gatedrnn.inspect.report import print_summary, write_report
    from gatedrnn.records import environment, write_whole

    looked = of_run(model, split, rows, steps) if file is None else of_text(model, file, text_column, rows, steps)
    found = {**measure(looked), "measured": {"command": command_line(), **environment()}}
    folder = output or model / "diagnosis"
    page = write_report(found, folder / "report.html")
    write_whole(folder / "diagnosis.json", json.dumps(found, indent=1))
    console = Console()
    print_summary(found, console)
    console.print(f"report: {page}", soft_wrap=True, highlight=False)
