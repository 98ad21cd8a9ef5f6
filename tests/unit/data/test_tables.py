"""Tables as people have them: dates, numbers and columns in the forms of spreadsheets, other countries and archives."""

import gzip
import json
import re
import zipfile

import numpy as np
import pytest
from commands import call
from pages import SHARED, needs_shared_data
from text_files import refused, written

from gatedrnn.data import data_settings, load_task
from gatedrnn.data.files import Wanted, read_file, with_names
from gatedrnn.errors import DataError
from gatedrnn.tables.files import read_table
from gatedrnn.tables.numbers import numbers_of
from gatedrnn.tables.options import DialectOptions, Fields
from gatedrnn.tables.times import read_times
from gatedrnn.tasks.claims import task_of_file
from gatedrnn.tasks.forecast.table import Columns, read_series_table
from gatedrnn.tasks.series.files import Reading, read_series
from gatedrnn.tasks.series.read import load_series_task
from gatedrnn.tasks.text.read import load_text_classification

FORMS = {
    "1/31/1981": ("M/DD/YYYY", "1981-01-31"), "01/31/1981": ("MM/DD/YYYY", "1981-01-31"),
    "31.01.1981": ("DD.MM.YYYY", "1981-01-31"), "31-Jan-81": ("DD-Mon-YY", "1981-01-31"),
    "1991 Jul": ("YYYY Mon", "1991-07-01"), "July 1991": ("Month YYYY", "1991-07-01"),
    "JUL-91": ("MON-YY", "1991-07-01"), "Jan 4, 1999": ("Mon D, YYYY", "1999-01-04"),
    "Mon 04 Jan 1999": ("Wkd DD Mon YYYY", "1999-01-04"), "1970 Q1": ("YYYY QQ", "1970-01-01"),
    "Q3-1970": ("QQ-YYYY", "1970-07-01"), "2Q1970": ("QQYYYY", "1970-04-01"), "2020-W05": ("YYYY-WWW", "2020-01-27"),
    "01/2020": ("MM/YYYY", "2020-01-01"), "1990 M02": ("YYYY MMM", "1990-02-01"), "3-12": ("Y-MM", "2003-12-01"),
    "2024년 1월 3일": ("YYYY년 M월 D일", "2024-01-03"), "2024. 1. 3.": ("YYYY. M. D.", "2024-01-03"),
    "1/31/1981 5:00 PM": ("M/DD/YYYY H:MM HALF", "1981-01-31T17:00"),
    "31/1/1981 17:05:09": ("DD/M/YYYY HH:MM:SS", "1981-01-31T17:05:09"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "form", "moment"), [(text, *found) for text, found in FORMS.items()])
def test_a_date_is_read_in_the_forms_of_people_and_written_as_it_was(text, form, moment):
    order = {"3-12": "year-month-day"}.get(text)
    found = read_times([text], str, order)
    assert str(found.form) == f"dates as {form}" and found.values[0] == np.datetime64(moment)
    assert found.form.written(found.values) == [text]


def test_day_and_month_are_told_apart_by_a_row_or_by_their_order_or_asked_for():
    assert read_times(["1/2/2024", "1/13/2024"], str).values[0] == np.datetime64("2024-01-02")
    assert read_times(["1/2/2024", "13/2/2024"], str).values[0] == np.datetime64("2024-02-01")
    days = [f"{day}/{month}/2024" for month in range(1, 13) for day in range(1, 13)]
    assert (np.diff(read_times(days, str).values) > np.timedelta64(0)).all()
    both = ["1/2/2024", "2/2/2024"]
    said = (
        "1/2/2024 may be 2024-01-02 or 2024-02-01, and no row tells; give --date-order month-day-year or --date-order"
    )
    refused(re.escape(said), read_times, both, lambda row: f"row {row + 1}")
    for order, moment in (("month-day-year", "2024-01-02"), ("day-month-year", "2024-02-01")):
        assert read_times(both, str, order).values[0] == np.datetime64(moment)


@pytest.mark.parametrize(("fields", "numbers"), [
    (["1,234.5", "7"], [1234.5, 7]), (["1,234,567", "1"], [1234567, 1]), (["1.234,5", "7"], [1234.5, 7]),
    (["1,5", "12"], [1.5, 12]), (["$1,234.00", "(5)", "3 %"], [1234, -5, 3]), (["€ 3,50", "1 234,5"], [3.5, 1234.5]),
    (["1,234", "1.5"], [1234, 1.5]), (["₩12,000,000"], [12e6]),
])  # fmt: skip
def test_numbers_are_read_with_their_signs_and_separators(fields, numbers):
    assert numbers_of(fields, str).tolist() == numbers


def test_a_comma_that_may_mean_two_things_is_asked_about():
    refused(re.escape("1,234 may be 1234 or 1.234; give --decimal . or --decimal ,"), numbers_of, ["1,234", "5"], str)
    for decimal, expected in ((".", 1234), (",", 1.234)):
        assert numbers_of(["1,234", "5"], str, Fields(decimal=decimal)).tolist() == [expected, 5]
    refused("must be a number with . before decimals, as other rows, got '12,34,5'", numbers_of, ["12,34,5"], str)


ROWS = "".join(f"{2000 + n // 12}-{n % 12 + 1:02},{n}\n" for n in range(30))


def test_a_time_in_several_columns_and_words_that_are_no_series(tmp_path):
    rows = "".join(f"{n},2024,1,{1 + n // 24},{n % 24},{n % 7},NW\n" for n in range(60))
    table = read_series_table(written(tmp_path, "No,year,month,day,hour,pm2.5,wind\n" + rows), Columns())
    assert (table.columns.target, table.frequency.name, len(table.series[0].values)) == (("pm2.5",), "h", 60)
    assert "not used 'wind'" in table.said and "left out, as it only counts rows: 'No'" in table.said
    again = read_series_table(tmp_path / "table.csv", Columns(time="year,month,day,hour", target=("pm2.5",)))
    assert (again.series[0].times == table.series[0].times).all()
    refused(
        "column 'wind': must hold whole numbers", read_series_table, tmp_path / "table.csv", Columns(time="year,wind")
    )


@pytest.mark.parametrize("name", ["Year", "", "obs"])
def test_years_that_follow_each_other_are_the_time(name, tmp_path):
    rows = "".join(f"{1821 + n},{n * n % 50}\n" for n in range(20))
    table = read_series_table(written(tmp_path, f"{name},count\n{rows}"), Columns())
    assert table.columns.time == name and table.series[0].times[0] == 1821 and table.columns.target == ("count",)


def test_a_column_that_parts_rows_of_one_time_holds_the_series(tmp_path):
    rows = "".join(
        f"2024-01-{day:02},{shop},{city},{day * 3}\n" for day in range(1, 9) for shop, city in ("ax", "bx", "cy")
    )
    table = read_series_table(written(tmp_path, "date,shop,city,sales\n" + rows), Columns(target=("sales",)))
    assert table.columns.series == "shop" and [one.name for one in table.series] == ["a", "b", "c"]
    twice = "".join(f"2024-01-{day:02},{n},{m},{day}\n" for day in range(1, 9) for n, m in ("pq", "qp"))
    path = written(tmp_path, "date,from,to,sales\n" + twice)
    assert read_series_table(path, Columns(target=("sales",))).columns.series == "from"  # "to" parts them alike
    mixed = "".join(
        f"2024-01-{day:02},{n},{'xy'[(day + i) % 2]},{day}\n" for day in range(1, 9) for i, n in enumerate("pq")
    )
    path = written(tmp_path, "date,from,to,sales\n" + mixed)
    refused("which columns name the series\\? give --series-column from or --series-column to",
            read_series_table, path, Columns(target=("sales",)))  # fmt: skip


def test_rows_in_any_order_are_put_in_that_of_time_and_it_is_said(tmp_path):
    lines = ROWS.splitlines()
    expected = read_series_table(written(tmp_path, "Month,y\n" + ROWS), Columns())
    for order in (lines[::-1], lines[10:] + lines[:10]):
        found = read_series_table(written(tmp_path, "\n".join(["Month,y", *order]) + "\n"), Columns())
        assert (found.series[0].values == expected.series[0].values).all()
        assert found.said.endswith(" Rows are put in the order of time.") and not expected.said.endswith("time.")


def test_a_table_without_names_is_read_where_dates_tell_and_what_stands_below_it_is_left_out(tmp_path, caplog):
    found = read_series_table(written(tmp_path, ROWS), Columns())
    assert (found.columns.time, found.columns.target, len(found.series[0].values)) == ("column 1", ("column 2",), 30)
    refused("the first line holds values, '1', '2.5'; write a line of names", read_series_table,
            written(tmp_path, "1,2.5\n2,3.5\n3,4.5\n"), Columns())  # fmt: skip
    below = "Month,y\n" + ROWS + "\nMonthly totals in thousands\n"
    assert len(read_series_table(written(tmp_path, below), Columns()).series[0].values) == 30
    assert "1 row below the table left out: Monthly totals in thousands" in caplog.text


OFFICE = "officeDocument/2006/relationships"


def spreadsheet(path, rows):
    """The least that is an .xlsx: one sheet, fields as text but numbers."""
    cells = "".join(
        "<row>" + "".join(
            f"<c><v>{field}</v></c>" if isinstance(field, int) else f'<c t="inlineStr"><is><t>{field}</t></is></c>'
            for field in row
        ) + "</row>" for row in rows
    )  # fmt: skip
    main, office = (f"http://schemas.openxmlformats.org/{end}" for end in ("spreadsheetml/2006/main", OFFICE))
    package, kinds = "http://schemas.openxmlformats.org/package/2006", "application/vnd.openxmlformats-"
    parts = {"/xl/workbook.xml": "sheet.main", "/xl/worksheets/sheet1.xml": "worksheet"}
    overrides = "".join(
        f'<Override PartName="{part}" ContentType="{kinds}officedocument.spreadsheetml.{kind}+xml"/>'
        for part, kind in parts.items()
    )

    def relation(kind, target):
        one = f'<Relationship Id="r1" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="{package}/relationships">{one}</Relationships>'

    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        f'ContentType="{kinds}package.relationships+xml"/>{overrides}</Types>',
        "_rels/.rels": relation("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="Sales" sheetId="1" '
        'r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_a_first_line_of_values_after_a_class_is_a_series_and_after_a_word_of_years_a_header(tmp_path):
    rows = "".join(f"{'up down'.split()[n % 2]},{n / 4 + 0.1},{n},2\n" for n in range(8))
    found = read_series(written(tmp_path, rows), Reading())
    assert (len(found.values), found.labels[:2], found.values[1].ravel().tolist()) == (8, ["up", "down"], [0.35, 1, 2])
    refused("which column is the series", read_series, written(tmp_path, "country,2010,2011\nx,1,2.5\n"), Reading())


def test_spreadsheets_and_packed_tables_are_read_as_a_csv_is(tmp_path):
    expected = read_table(written(tmp_path, "Month,y\n" + ROWS))
    spreadsheet(
        tmp_path / "a.xlsx", [("Month", "y"), *((line.split(",")[0], int(line.split(",")[1])) for line in ROWS.split())]
    )
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(("Month,y\n" + ROWS).encode()))
    for name in ("a.xlsx", "a.csv.gz"):
        assert read_table(tmp_path / name).columns == expected.columns, name
    for name, content in (("b.xlsx", b"PK\x03\x04 no"), ("c.ods", b""), ("d.csv.gz", b"no")):
        (tmp_path / name).write_bytes(content)
        refused(name, read_table, tmp_path / name)


EXPECTED = {
    "ae_Airline": ("Date", "MS", (12,)), "ae_Longley": ("YEAR", "numbers", (1,)), "ae_Lynx": ("", "numbers", (1,)),
    "ae_PBS_dataset": ("Month", "MS", (12,)), "ae_ShampooSales": ("Time", "MS", (12,)),
    "ae_Uschange": ("Quarter", "QS-JAN", (4,)), "ae_solar": ("datetime_gmt", "30min", (48, 336)),
    **dict.fromkeys(("jb_airline-passengers", "jb_shampoo", "jb_monthly-writing-paper-sales"), ("Month", "MS", (12,))),
    **dict.fromkeys(("jb_daily-max-temperatures", "jb_daily-total-female-births"), ("Date", "D", (7,))),
    "jb_pollution": ("year, month, day, hour", "h", (24, 168)), "jb_yearly-water-usage": ("Year", "numbers", (1,)),
}  # fmt: skip


@needs_shared_data
@pytest.mark.parametrize("name", EXPECTED)
def test_published_tables_are_read_without_a_flag(name):
    table = read_series_table(SHARED / "tables" / f"{name}.csv", Columns())
    assert (table.columns.time, table.frequency.name, table.frequency.seasons) == EXPECTED[name]


@needs_shared_data
def test_published_series_are_read_without_a_flag_and_a_table_without_names_is_asked_about():
    folder = SHARED / "tables"
    assert len(set(read_series(folder / "ae_ArrowHead_TRAIN.tsv", Reading()).labels)) == 3
    refused("write a line of names of columns above it", read_series_table, folder / "jb_longley.csv", Columns())


TASKS = {
    "a.csv": ("Phrase,Score\n" + "".join(f"the film number {n} was fine,{n % 2}\n" for n in range(12)),
              "text-classification"),
    "b.csv": ("review,sentiment\n" + "".join(f"film {n},{n % 2}\n" for n in range(12)), "text-classification"),
    "c.csv": ("Month,y\n" + ROWS, "forecast"), "d.txt": ("Once upon a time.\n", "language-model"),
    "e.csv": ("id,time,x,label\n" + "".join(f"{n // 3},{n % 3},{n},{'ab'[n // 6 % 2]}\n" for n in range(36)),
              "series-classification"),
    "f.csv": ("id,time,x,target\n" + "".join(f"{n // 3},{n % 3},{n},{n // 3 * 1.7}\n" for n in range(36)),
              "series-regression"),
    "g.ts": ("@problemName g\n@targetlabel true\n@data\n1,2:3.5\n", "series-regression"),
    "h.tsv": ("".join(f"{n % 2}\t{n}\t{n + 1}\t{n + 2}\n" for n in range(8)), "series-classification"),
    "i.csv": ("day,shop,sales\n" + "".join(f"2024-01-{d:02},{s},{d}\n" for d in range(1, 9) for s in "ab"), "forecast"),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_the_task_of_a_file_is_told_by_what_it_holds(name, tmp_path, caplog):
    content, task = TASKS[name]
    caplog.set_level("INFO")
    assert task_of_file(written(tmp_path, content, name)) == task and f"--task {task}: {name} " in caplog.text


def test_the_task_of_a_file_is_told_by_the_table_that_flags_describe(tmp_path, monkeypatch, capsys):
    rows = "".join(f"2024-01-{day:02}^{day * day}^{day % 4}\n" for day in range(1, 31))
    path = written(tmp_path, f"Bericht\nds^y^z\n{rows}", "table.csv")
    assert task_of_file(path, DialectOptions(separator="^", skip_lines=1)) == "forecast"
    flags = f"--separator ^ --skip-lines 1 --total-steps 1 --no-refit --output {tmp_path / 'run'}"
    call("train", "--train-file", path, *flags.split())
    assert "--task forecast: table.csv holds numbers over time" in capsys.readouterr().err


def test_a_file_for_no_task_is_a_question(tmp_path):
    path = written(tmp_path, "a,b,c\n" + "".join(f"{n * n},{n % 5 * 1.5},{7 - n}\n" for n in range(9)))
    refused("which task is it for\\? give --task forecast", task_of_file, path)


@pytest.mark.parametrize("zone", ["", "Z", "+09:00"])
def test_what_looks_like_a_date_is_read_from_json_as_the_text_that_it_is(zone, tmp_path):
    times = [f"2024-01-0{day}T12:00:00{zone}" for day in range(1, 8)]
    rows = [{"text": time, "label": f"2024-0{n % 2 + 1}-01", "y": n} for n, time in enumerate(times)]
    lines = "\n".join(map(json.dumps, rows))
    for name, content in (("a.jsonl", lines), ("a.json", json.dumps(rows, indent=2)), ("b.json", lines)):
        path = written(tmp_path, content, name)
        data = read_table(path)
        assert (data["text"], data["label"]) == (times, [row["label"] for row in rows])
        table = read_series_table(path, Columns(time="text", target=("y",)))
        assert table.series[0].form.written(table.series[0].times) == times


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_numbers_since_1970_are_dates_and_are_written_as_they_were(unit, tmp_path):
    times = np.arange("2024-01-01", "2024-01-03", dtype="datetime64[h]").astype(f"datetime64[{unit}]").astype(int)
    rows = "".join(f"{time},{n % 5}\n" for n, time in enumerate(times))
    table = read_series_table(written(tmp_path, "timestamp,y\n" + rows), Columns())
    one = table.series[0]
    assert table.frequency.name == "h" and one.form.written(one.times) == times.tolist()
    assert one.times[0] == np.datetime64("2024-01-01") and " since 1970) 'timestamp'" in table.said


def test_tables_of_a_folder_are_one_series_by_their_times_or_one_each_or_classes(tmp_path):
    def folder(name, tables):
        (tmp_path / name).mkdir()
        for file, content in tables.items():
            written(tmp_path / name, content, file)
        return tmp_path / name

    def days(month, column="sales"):
        return f"ds,{column}\n" + "".join(f"2024-{month:02}-{day:02},{day}\n" for day in range(1, 30))

    months = read_series_table(
        folder("months", {"b.csv": days(2), "a.csv": days(1).replace("ds,sales\n", "ds,sales\n")}), Columns()
    )
    assert [(one.name, one.times[0]) for one in months.series] == [("sales", np.datetime64("2024-01-01"))]
    shops = read_series_table(folder("shops", {"seoul.csv": days(1), "berlin.csv": days(1)}), Columns())
    assert [one.name for one in shops.series] == ["berlin", "seoul"] and shops.columns.target == ("sales",)
    for asked in (tmp_path / "shops" / "*.csv", tmp_path / "shops"):
        assert (
            task_of_file(asked) == "forecast"
            and read_series_table(asked, Columns()).source["sha256"] == shops.source["sha256"]
        )
    refused("column 'cost' is in one of it and a.csv alone", read_series_table,
            folder("unlike", {"a.csv": days(1), "b.csv": days(2, "cost")}), Columns())  # fmt: skip
    films = {
        f"{name}.csv": "text\n" + "".join(f"film {n} is {name} indeed\n" for n in range(9)) for name in ("poor", "good")
    }
    found = read_file(folder("films", films))
    assert found.labels == ["good"] * 9 + ["poor"] * 9 and task_of_file(tmp_path / "films") == "text-classification"
    refused(
        "which column is the target",
        read_series_table,
        written(tmp_path, "id,ds,heat,rain\na,1,2,3\na,2,3,4\na,3,4,5\n"),
        Columns(),
    )


def test_groups_are_on_one_side_times_are_in_order_and_repeats_are_said(tmp_path):
    rows = "".join(
        f"a fine text of {n % 40},{'ab'[n % 2]},2024-01-{n % 28 + 1:02},writer {n % 10}\n" for n in range(80)
    )
    path = written(tmp_path, "text,label,day,writer\n" + rows)

    def splits(**given):
        data = load_text_classification(data_settings("text-classification", train_file=path, **given))
        return data, {name: {*texts.texts} for name, texts in data.texts.items()}

    data, drawn = splits()
    repeats = sum(text in drawn["train"] for text in data.texts["test"].texts)
    assert repeats and any(note.startswith(f"{repeats} of 16 texts of test are in the training") for note in data.notes)
    data, by_writer = splits(group="writer")
    assert not by_writer["train"] & by_writer["test"] and not any("are in the training data" in n for n in data.notes)
    path = written(
        tmp_path, "text,label,day\n" + "".join(f"the text {n},{'ab'[n % 2]},{2024 + n % 7}-01-01\n" for n in range(70))
    )
    table, (data, in_time) = read_file(path, Wanted(time="day", timed=True)), splits(split="time")
    years = dict(zip(table.texts, table.times.astype("datetime64[Y]").astype(int), strict=True))
    assert {years[text] for text in in_time["test"]} == {59, 60} and "the last in time" in " ".join(data.notes)
    assert {years[text] for text in in_time["validation"]} == {58} and len(in_time["train"]) == 40
    refused("no column 'author'", splits, group="author")
    long = "".join(f"s{n},{t},{n * t},{'ab'[n % 2]},p{n % 6}\n" for n in range(40) for t in range(n, n + 4))
    series = written(tmp_path, "id,time,x,label,patient\n" + long, "long.csv")
    found = load_series_task(data_settings("series-classification", train_file=series, group="patient"))
    assert "group 'patient'" in found.notes[0] and found.model_inputs["series"]["channels"] == ["x"]
    last = load_series_task(data_settings("series-classification", train_file=series, split="time", group="patient"))
    assert min(x[0, 0] for x in last.evaluation["test"].inputs) == 32 * 32
    wrong = written(tmp_path, "id,time,x,label,patient\n" + long.replace("s3,4,12,b,p3", "s3,4,12,b,p4"), "wrong.csv")
    refused("series s3 has the groups p3 and p4", load_series_task,
            data_settings("series-classification", train_file=wrong, group="patient"))  # fmt: skip


def forecast_notes(tmp_path, lines, **given):
    file = tmp_path / "table.csv"
    file.write_text("\n".join(lines) + "\n")
    return " ".join(load_task(data_settings("forecast", train_file=file, **dict(given))).notes)


@pytest.mark.parametrize(
    ("header", "time", "step", "season"),
    [
        ("week,y", lambda n: f"{day(n)}/{day(n, 6)}", "W-MON", 52),
        ("week,y", lambda n: f"{day(n)} - {day(n, 6)}", "W-MON", 52),
        ("period,y", lambda n: f"FY{1980 + n // 4} Q{1 + n % 4}", "QS-JAN", 4),
        ("period,y", lambda n: f"{1900 + n // 2}H{1 + n % 2}", "2QS-JAN", 2),
        ("year,week,y", lambda n: f"{2015 + n // 52},{1 + n % 52}", "W-MON", 52),
        ("year,quarter,y", lambda n: f"{1980 + n // 4},{1 + n % 4}", "QS-JAN", 4),
        ("time,y", lambda n: f"{1949 + n / 12}", "every 0.0833333333333", 12),
        ("time,y", lambda n: f"{1949 + n / 4}", "every 0.25", 4),
        ("time,y", lambda n: f"{1949 + n / 12:.2f}", "every 0.0833333333333", 12),
    ],
)  # fmt: skip
def test_periods_of_any_kind_have_the_season_of_a_year(header, time, step, season, tmp_path):
    values = np.random.default_rng(0).random(208)
    said = forecast_notes(tmp_path, [header, *(f"{time(n)},{value:.3f}" for n, value in enumerate(values))])
    assert f"Season of {season} steps ({step})" in said


def day(week, more=0):
    return np.datetime64("2015-01-05") + 7 * week + more


def test_a_text_above_texts_and_a_label_above_labels_are_a_row(tmp_path, caplog):
    rows = [f"one of {number} fine words,{'good' if number % 2 else 'bad'}" for number in range(60)]
    file = tmp_path / "reviews.csv"
    file.write_text("\n".join(rows) + "\n")
    data = load_task(data_settings(task_of_file(file), train_file=file))
    assert "the first line is a row" in caplog.text and data.label_names == ("bad", "good")
    assert sum(len(own.texts) for own in data.texts.values()) == 60
    file.write_text("\n".join(["what was written here,good or bad", *rows]) + "\n")
    caplog.clear()
    assert (
        sum(len(own.texts) for own in load_task(data_settings(task_of_file(file), train_file=file)).texts.values())
        == 60
    )
    assert "the first line" not in caplog.text


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("the same words", "a"), ("the same words", "b")] * 30,
            "every training text, in column 'text', is 'the same",
        ),
        ([("", "a"), ("", "b")] * 30, "every training text, in column 'text', is empty"),
        ([(f"text of {n}", "a") for n in range(30)], "every training row has the label 'a'; at least two are needed"),
    ],
)
def test_texts_of_which_nothing_can_be_learned_are_refused(rows, said, tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    with pytest.raises(DataError, match=said):
        load_task(data_settings("text-classification", train_file=file))


def test_classes_with_one_row_and_labels_of_several_kinds_are_said(tmp_path):
    file = tmp_path / "texts.csv"
    labels = [*["1", "good"] * 30, "odd"]
    file.write_text("text,label\n" + "".join(f"text of {n} words,{label}\n" for n, label in enumerate(labels)))
    notes = " ".join(load_task(data_settings("text-classification", train_file=file, split_seed=1)).notes)
    assert "Labels with a single row: 'odd'" in notes and "Labels are numbers, such as '1', and words" in notes


def test_periods_are_read_by_name_and_below_no_header_and_a_week_beside_a_year_may_be_a_covariate(tmp_path):
    rows = [f"{day(n)}/{day(n, 6)},{n % 7}.5" for n in range(60)]
    file = tmp_path / "a.csv"
    file.write_text("week,y\n" + "\n".join(rows) + "\n")
    guessed = read_series_table(file, Columns())
    again = read_series_table(file, guessed.columns)
    assert (again.series[0].times == guessed.series[0].times).all() and guessed.columns.time == "week"
    file.write_text("\n".join(rows) + "\n")
    assert len(read_series_table(file, Columns()).series[0].values) == 60
    for header, row, time in (
        ("year,quarter,y", lambda n: f"{1950 + n},{1 + n % 4},{n % 5}.5", "year"),
        ("t,year,week,y", lambda n: f"{n},{2015 + n // 365},{1 + n // 7 % 52},{n % 5}.5", "t"),
    ):
        file.write_text(f"{header}\n" + "\n".join(map(row, range(60))) + "\n")
        assert read_series_table(file, Columns(target=("y",))).columns.time == time


def test_a_header_of_usual_words_stays_one_though_its_label_comes_again(tmp_path):
    file = tmp_path / "mails.csv"
    rows = "".join(f"this is mail number {n},{'spam' if n % 2 else 'ham'}\n" for n in range(90))
    file.write_text("Text of the mail,spam\n" + rows)
    assert read_file(file, Wanted("Text of the mail", "spam")).columns == ("Text of the mail", "spam")
    assert len(read_file(file).texts) == 90


def test_files_beside_a_table_without_names_have_none_either(tmp_path):
    """Though their rows, few or of one class, do not show it."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("".join(f"one of {n} fine words,{'good' if n % 2 else 'bad'}\n" for n in range(60)))
    test.write_text("a fine word,good\nanother of them,good\n")
    data = load_task(data_settings("text-classification", train_file=train, test_file=test))
    assert data.texts["test"].texts == ["a fine word", "another of them"]
    few = read_table(test)
    assert with_names(few, str(test), "column 1").column_names == ["column 1", "column 2"]
    assert with_names(few, str(test), "text") is few


def test_parts_of_a_time_may_be_given_in_any_order(tmp_path):
    rows = [f"{1 + n % 52},{2015 + n // 52},{n % 7}" for n in range(120)]
    assert "(W-MON)" in forecast_notes(tmp_path, ["week,year,y", *rows], time_column="week,year")
