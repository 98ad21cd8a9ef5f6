"""Write the JSON schema of every record into docs/schemas/.

PYTHONPATH=. python tools/write_schemas.py
"""

import json
from pathlib import Path

from field_docstrings import docstrings
from pydantic import TypeAdapter

from benchmarks.record import BenchRecord
from gatedrnn.inspect.diagnose import Diagnosis
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, ProbeResults, Trials
from gatedrnn.tasks.forecast.forecasts import Forecasts
from gatedrnn.training.report import Hardest
from gatedrnn.training.result import Record, RunResult, Standing

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
RECORDS: dict[str, type[Record] | type[BenchRecord]] = {
    "results": ComparisonResults, "curves": Curves, "confusion": Confusion, "trials": Trials,
    "probes": ProbeResults, "result": RunResult, "standing": Standing, "hardest": Hardest,
    "forecasts": Forecasts, "diagnosis": Diagnosis, "bench": BenchRecord,
}  # fmt: skip
"""The records by the name of the file, without its ending."""


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
