"""The published JSON schemas are those of the records, and kept files satisfy them."""

import importlib.util
import json

import pytest
from test_kept_results import KEPT, RESULTS

ROOT = RESULTS.parent
SPEC = importlib.util.spec_from_file_location("write_schemas", ROOT / "tools" / "write_schemas.py")
schemas = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(schemas)


def published(name: str) -> str:
    return (schemas.FOLDER / f"{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", schemas.RECORDS)
def test_the_published_schema_is_the_records_own(name):
    assert published(name) == schemas.schema(name), "run tools/write_schemas.py"


def test_no_schema_is_left_of_a_record_that_is_gone():
    assert {path.name for path in schemas.FOLDER.iterdir()} == {f"{name}.json" for name in schemas.RECORDS}


def test_kept_files_satisfy_their_schemas():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the docs extra")
    kinds, faults, last = {}, [], {}
    for name in schemas.RECORDS:
        schema = json.loads(published(name))
        kinds[name] = jsonschema.validators.validator_for(schema)(schema)
        kinds[name].check_schema(schema)
    for path in (path for path in [*KEPT, *RESULTS.rglob("bench.json")] if path.suffix == ".json"):
        last[path.stem] = held = json.loads(path.read_text(encoding="utf-8"))
        faults += [f"{path}: {error.message}" for error in kinds[path.stem].iter_errors(held)]
    assert faults == []
    for name, held in last.items():
        del held["measured"]
        assert "'measured' is a required property" in [error.message for error in kinds[name].iter_errors(held)]
