"""Write the JSON schema of every record into docs/schemas/.

python tools/write_schemas.py
"""

import ast
import inspect
import json
from functools import cache
from itertools import pairwise
from pathlib import Path

from pydantic import TypeAdapter

from gatedrnn.benchmarking.record import BenchRecord
from gatedrnn.inspect.diagnose import Diagnosis
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, ProbeResults, Trials
from gatedrnn.training.forecasts import Forecasts
from gatedrnn.training.report import Hardest
from gatedrnn.training.result import Record, RunResult, Standing

SRC = Path(__file__).parents[1] / "src" / "gatedrnn"
FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
RECORDS: dict[str, type[Record] | type[BenchRecord]] = {
    "results": ComparisonResults, "curves": Curves, "confusion": Confusion, "trials": Trials,
    "probes": ProbeResults, "result": RunResult, "standing": Standing, "hardest": Hardest,
    "forecasts": Forecasts, "diagnosis": Diagnosis, "bench": BenchRecord,
}  # fmt: skip
"""The records by the name of the file, without its ending."""


@cache
def classes() -> dict[str, ast.ClassDef]:
    """The classes of the package by name."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))]
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def docstrings(name: str) -> dict[str, str]:
    """The docstrings below the fields of a class and of those that it inherits from.

    Pydantic would find them when a class is made, at each start of every command.
    """
    node = classes().get(name)
    if node is None:
        return {}
    found = {field: text for base in node.bases for field, text in docstrings(ast.unparse(base)).items()}
    for field, below in pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=held)), ast.Expr(value=ast.Constant(value=str(text))):
                found[held] = inspect.cleandoc(text)
    return found


def schema(name: str) -> str:
    """The schema of a record, as its file has it, with the docstrings of fields as descriptions."""
    whole = TypeAdapter(RECORDS[name]).json_schema()
    for part in (whole, *whole.get("$defs", {}).values()):
        for field, text in docstrings(part.get("title", "")).items():
            if field in part.get("properties", {}):
                part["properties"][field]["description"] = text
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in RECORDS:
        (FOLDER / f"{name}.json").write_text(schema(name), encoding="utf-8")
