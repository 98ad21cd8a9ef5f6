"""Fields that a spreadsheet would run: the file is faithful, and one line says so."""

import csv

import pytest

from gatedrnn.data.frames import write_predictions
from gatedrnn.tables.files import read_table
from gatedrnn.tables.table import Table

LABELS = ['=HYPERLINK("http://evil","x")', "+cmd|' /c calc'!A0", "-1.5", "@SUM(A1)", "\tx", "fine", "-", "+3", "-a b"]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_a_label_is_written_as_it_is_and_those_that_are_formulas_are_said(tmp_path, caplog, ending):
    labels = LABELS if ending == ".csv" else [label for label in LABELS if "\t" not in label]
    path = tmp_path / f"predictions{ending}"
    write_predictions(path, Table({"=1+1": ["a"] * len(labels)}), {"prediction": labels}, "data", {})
    with path.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if ending == ".tsv" else ","))
    if ending == ".csv":
        assert [row[1] for row in rows[1:]] == labels and read_table(path)["prediction"] == labels
    formulas = len(labels) - 4 + 1  # and the name of a column; -1.5, +3, - and a word are none
    (record,) = caplog.records
    assert f"{formulas} of them, the first '=1+1'" in record.getMessage() and path.name in record.getMessage()


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_numbers_are_no_formulas_and_other_files_have_none(tmp_path, caplog, ending):
    labels = ["-1.5", "+3", "-1e5", "a"] if ending == ".csv" else LABELS
    data = Table({"x": [-1.0] * len(labels)})
    write_predictions(tmp_path / f"p{ending}", data, {"prediction": labels}, "data", {})
    assert caplog.text == ""
