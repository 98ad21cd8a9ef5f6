"""Data that a caller has in memory: types go in and come out, and what is missing or cannot be read is said."""

import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gatedrnn.data.frames import coded, frame_of, in_memory, label_array, new_data, table_of, texts_of, typed
from gatedrnn.data.labels import as_trained
from gatedrnn.errors import DataError
from gatedrnn.tables import files
from gatedrnn.tables.files import forget, read_table
from gatedrnn.tables.table import Table, type_kept, type_named
from gatedrnn.tasks.forecast.forecasts import read_forecast
from gatedrnn.tasks.forecast.table import Columns, read_series_table

MISSING = {
    "None": ["up", None, "down"], "NaN": pd.Series(["up", np.nan, "down"]), "NA": pd.array([1, pd.NA, 0], "Int64"),
    "NaT": [pd.Timestamp(0), pd.NaT], "float": np.array([1.0, np.nan]), "masked": np.ma.array([1, 2], mask=[0, 1]),
    "arrow": pa.array([True, None]), "mixed": ["up", None, 1],
}  # fmt: skip
LABELS = {
    "int8": np.array([1, 0], np.int8), "int64": [2**53 + 1, 0], "bool": [np.True_, np.False_], "double": [1.0, 0.0],
    "date32[day]": [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)],
}  # fmt: skip
NAMES = ["007", "NA", "1e5", "True", "0000000000000000001", "nan"]


@pytest.mark.parametrize("labels", MISSING.values(), ids=MISSING)
def test_a_label_that_is_missing_is_refused_by_its_row_in_every_form(labels):
    with pytest.raises(DataError, match=r"the data: row 2 has no label in column 'label'; remove the row or fill it"):
        label_array(labels)


def test_labels_have_one_dimension_or_one_column():
    assert (
        label_array(np.array([[1], [0]])).to_pylist() == label_array(pd.DataFrame({"y": [1, 0]})).to_pylist() == [1, 0]
    )
    for wrong in (np.eye(2), [["a"], ["b"]], pd.DataFrame({"a": [1], "b": [2]})):
        with pytest.raises(DataError, match=r"labels must be \(examples,\)"):
            label_array(wrong)


@pytest.mark.parametrize("kind, labels", LABELS.items())
def test_labels_come_back_in_the_type_they_came_in(kind, labels, tmp_path):
    texts = ["a", "b"]
    file = str(in_memory((texts, labels)).write(tmp_path)["train_file"])
    data, (_, names) = read_table(tmp_path / "train.parquet"), coded(label_array(labels))
    assert file.endswith("train.parquet") and data.class_names["label"] == tuple(names)
    assert type_kept(data.types["label"]) == kind and typed(names, type_named(kind)).to_pylist() == sorted(labels)
    framed = table_of(pd.DataFrame({"text": texts, "label": labels}))[0]
    assert type_kept(framed.schema.field("label").type) == kind


def test_types_are_named_and_found_by_their_names():
    for kind in (pa.timestamp("us", "Europe/Berlin"), pa.decimal128(5, 2), pa.duration("ns"), pa.uint8()):
        assert type_named(type_kept(kind)) == kind
    assert type_kept(pa.dictionary(pa.int32(), pa.int16())) == "int16" and type_kept(pa.large_string()) is None


def test_a_whole_number_with_a_point_is_the_label_without_one():
    assert as_trained(["1.0", "0.", "2"], ["0", "1"]) == ["1", "0", "2"]
    assert as_trained(["1", "1.0", "1.5"], ["0.0", "1.0"]) == ["1.0", "1.0", "1.5"]
    assert as_trained(["1.0", "1"], ["1", "1.0"]) == ["1.0", "1"]


def test_json_lines_say_the_types_of_their_labels(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"a": 1, "b": true, "c": "1", "d": [1, 2], "e": 1}\n{"a": 0, "b": null, "c": "0", "d": [], "e": 0.5}'
    )
    kinds = {name: type_kept(kind) for name, kind in read_table(file).types.items()}
    assert kinds == {"a": "int64", "b": "bool", "d": "int64"}


def test_periods_are_the_dates_at_which_they_begin_in_frames_indexes_and_files(tmp_path):
    values = np.arange(24.0)
    for frequency, first in (("M", "2015-01-01"), ("Q", "2015-01-01"), ("W", "2014-12-29"), ("h", "2015-01-01")):
        frame = pd.DataFrame({"ds": pd.period_range("2015-01-01", periods=24, freq=frequency), "y": values})
        frame.to_parquet(tmp_path / "periods.parquet")
        for data in (frame, frame.set_index("ds"), tmp_path / "periods.parquet"):
            table = read_series_table(new_data(data).source, Columns())
            assert str(table.series[0].times[0])[:10] == first and pa.types.is_timestamp(table.types["ds"]), frequency


def test_durations_are_times_as_a_column_and_as_an_index(tmp_path):
    steps = pd.timedelta_range("0h", periods=30, freq="h")
    for data in (
        pd.DataFrame({"time": steps, "y": np.arange(30.0)}),
        pd.DataFrame({"y": np.arange(30.0)}, index=steps),
    ):
        table = read_series_table(new_data(data).source, Columns())
        assert table.frequency.name == "h" and table.series[0].form.written(table.series[0].times[-1:]) == ["29:00"]
        assert typed(["29:00", "30:15:30"], table.types["time"]).to_pylist()[1] == pd.Timedelta("30:15:30")


def test_a_name_that_is_missing_is_refused_by_its_row(tmp_path):
    days = pd.date_range("2024-01-01", periods=4)
    for names in (["a", None], [1, np.nan], pd.array([1, pd.NA], "Int64")):
        frame = pd.DataFrame({"unique_id": np.repeat(names, 4), "ds": [*days, *days], "y": np.arange(8.0)})
        with pytest.raises(DataError, match="the data: row 5 has no name in column 'unique_id'"):
            read_series_table(new_data(frame).source, Columns())


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_a_forecast_is_read_with_the_names_and_times_of_its_table(backend, tmp_path):
    file = tmp_path / "forecast.csv"
    file.write_text("id,ds,y\n" + "".join(f"{name},2024-10-27 0{row}:00:00+0{2 - row // 3}:00,{row}\n"
                                          for row, name in enumerate(NAMES)))  # fmt: skip
    how = {"time": "ds", "series": "id", "time_type": "timestamp[ns, tz=Europe/Berlin]", "series_type": "string"}
    found = read_forecast(file, SimpleNamespace(table=how), backend)
    table = pa.Table.from_pandas(found) if backend == "pandas" else found
    assert table["id"].to_pylist() == NAMES and table["y"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert [str(time)[-6:] for time in table["ds"].to_pylist()] == ["+02:00"] * 3 + ["+01:00"] * 3
    untyped = read_forecast(file, SimpleNamespace(table={"time": "ds", "series": "id"}), "pyarrow")
    assert untyped["id"].to_pylist() == NAMES, "of a table without types a name is a number where it reads the same"
    file.write_text("id,t,y\n1,1.5,0\n20,2.5,0\n")
    untyped = read_forecast(file, SimpleNamespace(table={"time": "t", "series": "id"}), "pyarrow")
    assert untyped["id"].to_pylist() == [1, 20] and untyped["t"].to_pylist() == [1.5, 2.5]


def test_lists_of_a_frame_stay_lists_and_their_labels_have_a_type():
    frame = frame_of({"prediction": [["1", "0"], ["0"]]}, {"prediction": pa.int64()}, "pyarrow")
    assert frame["prediction"].to_pylist() == [[1, 0], [0]]
    assert frame_of({"words": [["a"], []]}, {}, "pandas").words.tolist() == [["a"], []]


def test_texts_are_lists_arrays_and_columns_with_nothing_where_one_is_missing():
    for texts in (["a", np.nan], [None, "a"], np.array(["a", None]), pd.Series(["a", pd.NA]), ("a", "b")):
        assert sorted(texts_of(texts)) in (["", "a"], ["a", "b"])
    for other in ([1.0, 2.0], np.eye(2), [None], "a", [["a"]], pd.DataFrame({"a": ["b"]})):
        assert texts_of(other) is None


@pytest.mark.parametrize("ds, said", [
    ([pd.Timestamp("2024-01-01"), "2024-01-02"], "column 'ds' cannot be read"),
    (pd.arrays.SparseArray([1.0, 0.0]), "column 'ds' cannot be read"),
])  # fmt: skip
def test_a_column_that_cannot_be_read_is_named(ds, said):
    for data in (pd.DataFrame({"y": [1.0, 2.0], "ds": ds}), {"y": [1.0, 2.0], "ds": [1, "a"]}):
        with pytest.raises(DataError, match=said):
            table_of(data)


def test_an_index_that_is_a_column_too_is_read_once():
    frame = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=3), "y": [1.0, 2.0, 3.0]})
    assert table_of(frame.set_index("ds", drop=False))[0].column_names == ["ds", "y"]
    with pytest.raises(DataError, match="'ds' is a column and the name of the index, which differ"):
        table_of(frame.set_index(frame.ds[::-1].rename("ds")))


def test_a_frame_with_a_row_a_series_is_an_array_of_series():
    values = np.arange(12.0).reshape(3, 4)
    labelled, bare = new_data((pd.DataFrame(values), [0, 1, 0])), new_data(pd.DataFrame(values))
    assert np.array_equal(np.stack(labelled.series)[..., 0], values) and labelled.labels == ["0", "1", "0"]
    assert np.array_equal(np.stack(bare.series)[..., 0], values)
    with pytest.raises(DataError, match="column 'b' holds"):
        in_memory((pd.DataFrame({"a": [1.0], "b": ["x"]}), [1]))


def test_one_text_that_is_no_file_is_said_to_belong_into_a_list():
    with pytest.raises(DataError, match="'a good film': no such file; a text is given in a list"):
        new_data("a good film")


def test_a_frame_is_read_as_the_parquet_file_that_records_it_and_that_file_is_not_parsed(tmp_path, monkeypatch):
    days = pd.date_range("2024-01-01", periods=3, unit="s", tz="Europe/Berlin")
    frame = pd.DataFrame({
        " ds ": days, "y": np.float32([0.1, np.nan, 2]), "kind": pd.Categorical(["a", None, "b"]),
        "gap": pd.to_timedelta([1, 2, 90], "s"), "month": pd.period_range("2024-01", periods=3, freq="M"),
        "words": [["a"], [], ["b", "c"]],
    })  # fmt: skip
    file = Path(in_memory(frame).write(tmp_path)["train_file"])
    remembered = read_table(file)
    forget()
    parsed = read_table(file)
    assert remembered.lists() == parsed.lists() == Table.of_arrow(in_memory(frame).tables["train"]).lists()
    assert (remembered.types, remembered.sha256, remembered.name) == (parsed.types, parsed.sha256, "train.parquet")
    in_memory(frame).write(tmp_path)
    monkeypatch.setattr(files, "parquet_batches", None)
    assert read_table(file).column_names == ["ds", "y", "kind", "gap", "month", "words"]


def test_a_parquet_file_has_predictions_in_the_type_of_the_labels(tmp_path):
    from gatedrnn.data.frames import write_predictions
    from gatedrnn.tables.table import Table

    write_predictions(tmp_path / "out.parquet", Table({"id": [1]}), {"prediction": [True]}, "", {"id": pa.int8()})
    assert [field.type for field in pq.read_schema(tmp_path / "out.parquet")] == [pa.int8(), pa.bool_()]
