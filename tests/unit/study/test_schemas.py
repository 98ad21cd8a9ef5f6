"""The published JSON schemas are those of the records, and kept files satisfy them."""

import importlib.util
import json
from pathlib import Path

import pytest
from test_kept_results import KEPT, RESULTS

ROOT = RESULTS.parent
SPEC = importlib.util.spec_from_file_location("write_schemas", ROOT / "tools" / "write_schemas.py")
schemas = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(schemas)


@pytest.mark.parametrize("name", schemas.RECORDS)
def test_the_published_schema_is_the_records_own(name):
    published = (schemas.FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert published == schemas.schema(name), "run tools/write_schemas.py"


def test_no_schema_is_left_of_a_record_that_is_gone():
    assert {path.name for path in schemas.FOLDER.iterdir()} == {f"{name}.json" for name in schemas.RECORDS}


@pytest.mark.parametrize(
    "path", [path for path in [*KEPT, *RESULTS.rglob("bench.json")] if path.suffix == ".json"],
    ids=lambda path: path.parent.name,
)  # fmt: skip
def test_a_kept_file_satisfies_its_schema(path: Path):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the docs extra")
    held = json.loads(path.read_text(encoding="utf-8"))
    published = json.loads((schemas.FOLDER / f"{path.stem}.json").read_text(encoding="utf-8"))
    jsonschema.validate(held, published)
    del held["measured"]
    with pytest.raises(jsonschema.ValidationError, match="'measured' is a required property"):
        jsonschema.validate(held, published)
