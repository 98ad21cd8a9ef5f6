"""gatedrnn report."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console

_JOINED = Path("runs/joined")
ENDINGS = {"html": (".html", ".htm"), "md": (".md",), "csv": (".csv",), "latex": (".tex",)}
"""The endings of files by format."""


def check_output(output: Path, format: str) -> None:
    """Check that a file of that format can be written there.

    Raises:
        UsageError: it is a folder, or ends as another kind of file.
    """
    if output.is_dir():
        raise UsageError(f"--output {output}: is a folder; name a file in it")
    if output.suffix.lower() not in ENDINGS[format]:
        raise UsageError(f"--output {output}: must end in {' or '.join(ENDINGS[format])} for --format {format}")


def report(
    folders: Annotated[list[Path], Parameter(consume_multiple=True, negative=())],
    /,
    *,
    format: Literal["html", "md", "csv", "latex"] = "html",
    output: Path | None = None,
) -> None:
    """Write the report of a comparison again from its records, or one of several comparisons together.

    Several comparisons of the same contenders on different data are joined: scores of all tasks, average ranks,
    verdicts task by task, and price.

    Args:
        folders: Folders of finished comparisons, of a suite of them, or of one suite of probes.
        format: html: report.html and report.md in the folder, or in runs/joined for several. md, csv and latex are
            printed; csv has a line per contender and split.
        output: File to write instead, with the ending of its format: .html, .md, .csv or .tex.
    """
    from gatedrnn.records import write_whole
    from gatedrnn.study import report as reports
    from gatedrnn.study import tables
    from gatedrnn.study.results import ProbeResults
    from gatedrnn.study.tables import print_joined

    if output is not None:
        check_output(output, format)
    console, comparisons = Console(), reports.comparisons_in(folders)
    probes = [folder for folder in comparisons if (folder / ProbeResults.FILE).exists()]
    if probes and (len(comparisons) > 1 or format in ("csv", "latex")):
        raise UsageError(f"{probes[0]}: holds probes; they are reported alone, as html or md")
    several = len(comparisons) > 1
    home = folders[0] if len(folders) == 1 else _JOINED
    if several:
        joined = reports.joined_comparisons(comparisons)
        shown = reports.report_of_joined(joined, comparisons, home if output is None else output.parent)
    else:
        shown = reports.report_of(comparisons[0])
    if format == "html":
        if several:
            print_joined(joined, console)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            shown.write_page(output)
        page = output or (shown.write(home) if several else reports.write_report(comparisons[0]))
        console.print(f"report: {page}", soft_wrap=True, highlight=False)
        return
    if format == "md":
        text = shown.markdown()
    elif several:
        text = tables.as_csv(joined.tasks) if format == "csv" else tables.joined_as_latex(joined)
    else:
        results = reports.read_comparison(comparisons[0])
        text = tables.as_csv({results.task: results}) if format == "csv" else tables.as_latex(results)
    if output is None:
        print(text, end="")
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, text)
