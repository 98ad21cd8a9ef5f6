"""gatedrnn describe --model: the parts of a trained model."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from gatedrnn.terminal import Console


def print_model(folder: Path) -> None:
    """Print the parts of a run's or a folder's model, each with its parameters, and how they answer together.

    Raises:
        DataError: there is no model.
    """
    from gatedrnn.inspect.parts import answers_of, parts_of
    from gatedrnn.models.structure import describe_structure
    from gatedrnn.training.finished import open_finished

    console, model = Console(), open_finished(folder).model
    parts, structure = parts_of(model), describe_structure(model)
    console.rule(Text.assemble((folder.name, "bold"), f"  {type(model).__name__}"), align="left")
    table = Table(show_footer=True)
    trained, fitted = sum(part.trained for part in parts), sum(part.fitted for part in parts)
    for title, footer in (("part", "together"), ("of", ""), ("trained", f"{trained:,}"), ("fitted", f"{fitted:,}")):
        table.add_column(title, footer, justify="right" if footer.replace(",", "").isdigit() else "left")
    for part in parts:
        table.add_row(part.name, part.what, f"{part.trained:,}", f"{part.fitted:,}")
    console.print(table)
    state, work = structure["state_size"], structure["multiply_adds_per_step"]
    lines = [("answer", sentence) for sentence in answers_of(model)]
    lines += [] if state is None else [("state", f"{state:,} elements a sequence")]
    for title, text in [*lines, ("work", f"{work:,} multiply-adds a step")]:
        console.print(Text(f"{title:<8}{text}"), soft_wrap=True)
