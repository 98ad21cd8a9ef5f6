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
    split: str | None = None,
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
        split: Split of the run's own data: validation, test, or another that it was tested on; validation, or test
            without one, if not given.
        file: A text to look at a language model on instead: .txt, .txt.gz, JSON lines or Parquet.
        text_column: Column of that file's texts; guessed where one name is obvious.
        rows: Sequences.
        steps: Most steps of each.
        output: Folder for report.html and diagnosis.json; diagnosis in the model's folder, if not given.
    """
    from gatedrnn.inspect.diagnose import diagnose as run_diagnosis
    from gatedrnn.inspect.diagnose import from_run, from_text
    from gatedrnn.inspect.report import print_summary, write_report

    inspected = (
        from_run(model, split, rows, steps) if file is None else from_text(model, file, text_column, rows, steps)
    )
    diagnosis = run_diagnosis(inspected, command_line())
    folder = output or model / "diagnosis"
    page = write_report(diagnosis, folder / "report.html")
    diagnosis.write(folder / "diagnosis.json")
    console = Console()
    print_summary(diagnosis, console)
    console.print(f"report: {page}", soft_wrap=True, highlight=False)
