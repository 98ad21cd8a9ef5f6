"""Small files that would take all memory: each is refused by what it says of itself, and honest ones beside it are
read."""

import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from text_files import refused

from gatedrnn import unpacking
from gatedrnn.errors import Damaged, DataError
from gatedrnn.tables.files import read_table, values_of
from gatedrnn.tasks.series.files import Reading, read_series
from gatedrnn.training.outcomes import read_outcomes

MAIN = "http://schemas.openxmlformats.org/"
SHEET = "xl/worksheets/sheet1.xml"
TABLE = [("date", "sales"), *((f"2010-{month:02}-01", month) for month in range(1, 13))]
EXPECTED = {"date": [row[0] for row in TABLE[1:]], "sales": [str(row[1]) for row in TABLE[1:]]}


def cell(place, value):
    inline = f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
    return inline if isinstance(value, str) else f'<c r="{place}"><v>{value}</v></c>'


ROWS = [
    f'<row r="{number}">{cell(f"A{number}", first)}{cell(f"B{number}", second)}</row>'
    for number, (first, second) in enumerate(TABLE, start=1)
]


def book(path, *sheets, shared=()):
    """An .xlsx with the rows of each sheet, and strings that cells name by number."""
    package = f"{MAIN}package/2006/relationships"
    office = f"{MAIN}officeDocument/2006/relationships"
    numbers = range(1, len(sheets) + 1)
    relations = "".join(
        f'<Relationship Id="r{n}" Type="{office}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    listed = "".join(f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>' for n in numbers)
    strings = "".join(f"<si><t>{text}</t></si>" for text in shared)
    main = f"{MAIN}spreadsheetml/2006/main"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{MAIN}package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}"><Relationship Id="r1" Type="{office}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}">{relations}</Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{strings}</sst>',
    } | {
        f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{main}"><sheetData>{"".join(rows)}</sheetData></worksheet>'
        for n, rows in zip(numbers, sheets, strict=True)
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def open_document(path, rows):
    """An .ods of one sheet."""
    urn = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(f'xmlns:{name}="{urn}:{name}:1.0"' for name in ("office", "table", "text"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="S">{rows}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
        archive.writestr(
            "META-INF/manifest.xml",
            f'<m:manifest xmlns:m="{urn}:manifest:1.0"><m:file-entry m:full-path="/" '
            'm:media-type="application/vnd.oasis.opendocument.spreadsheet"/></m:manifest>',
        )
    return path


def repeated(content, columns=1):
    """A cell of .ods, of which there may be several; one of a text, or empty."""
    times = f' table:number-columns-repeated="{columns}"'
    if not content:
        return f"<table:table-cell{times}/>"
    return f'<table:table-cell office:value-type="string"{times}><text:p>{content}</text:p></table:table-cell>'


def ods_row(*cells, rows=1):
    return f'<table:table-row table:number-rows-repeated="{rows}">{"".join(cells)}</table:table-row>'


ODS_TABLE = "".join(ods_row(*(repeated(str(field)) for field in row)) for row in TABLE)


def bounded_call(code, *arguments):
    """The output of a Python program that may take 3 GB: more is a crash, not a swapping machine."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
    done = subprocess.run(
        [sys.executable, "-c", limit + code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


READ = """
import json, sys
from pathlib import Path
from gatedrnn.tables.files import read_table
from gatedrnn.errors import DataError
for name in sys.argv[1:]:
    try:
        print(json.dumps(read_table(Path(name)).lists()))
    except DataError as error:
        print(json.dumps(str(error)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of memory")
def test_a_blank_in_a_far_cell_does_not_count_and_a_value_there_is_refused(tmp_path):
    blank, value = (f'<row r="1048576">{cell("XFD1048576", field)}</row>' for field in (" ", "x"))
    below = f'<row r="1048576">{cell("B1048576", " ")}</row>'
    named = '<row r="1048576"><c r="XFD1048576" t="s"><v>0</v></c></row>'
    last = ods_row(repeated("", 16383), rows=1048000) + ods_row(repeated("", 16383), repeated(" "))
    whole = [
        book(tmp_path / "far.xlsx", [*ROWS, blank]), book(tmp_path / "far.xlsm", [*ROWS, blank]),
        book(tmp_path / "below.xlsx", [*ROWS, below]), book(tmp_path / "named.xlsx", [*ROWS, named], shared=[" "]),
        book(tmp_path / "beside.xlsx", [ROWS[0], ROWS[1].replace("</row>", cell("ZZ2", " ") + "</row>"), *ROWS[2:]]),
        open_document(tmp_path / "far.ods", ODS_TABLE + last),
        open_document(tmp_path / "empty.ods", ODS_TABLE + ods_row(repeated("", 16384), rows=1048000)),
    ]  # fmt: skip
    corner = f'<row r="1">{cell("A1", 1)}</row>'
    far = [
        book(tmp_path / "value.xlsx", [*ROWS, value]), book(tmp_path / "second.xlsx", ROWS, [corner, value]),
        open_document(tmp_path / "rows.ods", ods_row(repeated("x", 16384), rows=1048576)),
        open_document(tmp_path / "columns.ods", ODS_TABLE + ods_row(repeated("", 16383), rows=9000)
                      + ods_row(repeated("", 16383), repeated("x"))),
    ]  # fmt: skip
    said = [json.loads(line) for line in bounded_call(READ, *whole, *far).splitlines()]
    assert said[: len(whole)] == [EXPECTED] * len(whole)
    for path, message in zip(far, said[len(whole) :], strict=True):
        assert message.startswith(f"{path}: a sheet reaches to row ") and "Delete what stands far" in message


def test_texts_that_cells_repeat_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    named = [f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(1, 401)]
    refused("the sheets take", read_table, book(tmp_path / "a.xlsx", named, shared=["y" * 30_000]))
    spaces = 'x<text:s text:c="4000000000"/>y'
    refused("the sheets take", read_table, open_document(tmp_path / "b.ods", ods_row(repeated(spaces))))
    assert len(read_table(book(tmp_path / "c.xlsx", named, shared=["y" * 30]))) == 399


def compound_file(records):
    """A compound file whose only stream, of an .xls, is in sectors of 512 bytes."""
    stream = records + bytes(4096)
    sectors = -(-len(stream) // 512)
    assert sectors < 120
    chain = [*range(1, sectors), 0xFFFFFFFE]
    table = np.full(128, 0xFFFFFFFF, "<u4")
    table[: sectors + 2] = [*chain, 0xFFFFFFFE, 0xFFFFFFFD]  # the stream, the folder, the table
    header = np.zeros(128, "<u4")
    header[[0, 1]] = 0xE011CFD0, 0xE11AB1A1
    header[[6, 7, 8]] = 0x0003003E, 0x0009FFFE, 6
    header[[11, 12, 14, 15, 17]] = 1, sectors, 4096, 0xFFFFFFFE, 0xFFFFFFFE
    header[19:] = 0xFFFFFFFF
    header[19] = sectors + 1

    def entry(name, kind, start, size, child=0xFFFFFFFF):
        text = (name + "\0").encode("utf-16-le")
        numbers = np.array([0xFFFFFFFF, 0xFFFFFFFF, child], "<u4").tobytes()
        head = text.ljust(64, b"\0") + bytes([len(text), 0, kind, 1]) + numbers
        return head.ljust(116, b"\0") + np.array([start, size, 0], "<u4").tobytes()

    folder = entry("Root Entry", 5, 0xFFFFFFFE, 0, 1) + entry("Workbook", 2, 0, len(stream))
    return header.tobytes() + stream.ljust(512 * sectors, b"\0") + folder.ljust(512, b"\0") + table.tobytes()


def test_a_workbook_of_excel_97_is_bounded_by_its_records(tmp_path):
    begin = b"\x09\x08\x10\x00\x00\x06\x10\x00" + bytes(12)
    corner = b"\x03\x02\x0e\x00\xff\xff\xff\x00\x00\x00" + bytes(8)
    first = b"\x03\x02\x0e\x00\x00\x00\x00\x00\x00\x00" + bytes(8)
    path = tmp_path / "far.xls"
    path.write_bytes(compound_file(begin + (begin + first + corner) * 3))
    refused("a sheet reaches to row 65,536 and column 256", read_table, path)
    for content in (b"\xd0\xcf\x11\xe0", compound_file(begin)[:700], b"no spreadsheet"):
        path.write_bytes(content)
        refused(rf"{path.name}: cannot be read as a spreadsheet", read_table, path)


def parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, compression="zstd", **options)
    return path


def test_a_parquet_file_holds_no_more_than_its_size_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    long, many = "x" * 100_000, np.zeros(500_000)
    refused_ones = {
        "rows": {"a": many, "b": pa.nulls(len(many))},
        "texts": {"text": [long] * 100, "label": ["a"] * 100}, "lists": {"tokens": [[long] * 100]},
        "records": {"held": [{"text": long}] * 100}, "bytes": {"held": [long.encode()] * 100},
        "numbers": {"v": pa.ListArray.from_arrays([0, len(many)], many)},
        "fixed": {"v": pa.array([bytes(100_000)] * 100, pa.binary(100_000))},
    }  # fmt: skip
    for name, columns in refused_ones.items():
        path = parquet(tmp_path / f"{name}.parquet", columns)
        refused(rf"{name}.parquet: takes [\d,]+ bytes or more, and a file of its size", read_table, path)
        refused("this looks like a bomb", list, values_of(path, "parquet", next(iter(columns))))
    path = parquet(
        tmp_path / "prefixes.parquet", {"text": [f"{long}{n}" for n in range(100)]}, use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY"},
    )  # fmt: skip
    refused("this looks like a bomb", read_table, path)


@pytest.mark.parametrize(
    "columns",
    [{"text": ["a", None], "y": [1.5, 2.0]}, pytest.param({"v": [[1.0, 2.0], [3.0]]}, marks=pytest.mark.slow)],
)
def test_a_parquet_file_whose_footer_is_damaged_is_read_or_refused(tmp_path, columns):
    """Arrow ends the process where some of these descriptions are asked for."""
    whole = parquet(tmp_path / "whole.parquet", columns).read_bytes()
    path, end = tmp_path / "damaged.parquet", len(whole) - 8
    outcomes = set()
    for place in range(end - int.from_bytes(whole[end : end + 4], "little"), end):
        path.write_bytes(whole[:place] + bytes([(whole[place] + 1) % 256]) + whole[place + 1 :])
        try:
            read_table(path)
            outcomes.add("read")
        except DataError as refusal:
            outcomes.add("refused")
            assert str(path) in str(refusal)
    assert outcomes == {"read", "refused"}


def test_parquet_of_any_encoding_and_type_is_read_as_it_was_written(tmp_path):
    columns = {
        "text": ["a b", None, "c"], "words": [["a", "b"], [], None], "record": [{"q": "a"}, {"q": None}, None],
        "raw": [b"1", None, b"\xff"], "float": [0.5, None, 2.0], "category": ["u", "v", None],
    }  # fmt: skip
    table = pa.table(columns).set_column(5, "category", pa.array(columns["category"]).dictionary_encode())
    for number, options in enumerate((
        {}, {"use_dictionary": False}, {"row_group_size": 1, "compression": "none"},
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY", "raw": "DELTA_LENGTH_BYTE_ARRAY"}},
    )):  # fmt: skip
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path, **options)
        assert read_table(path).lists() == columns
        assert list(values_of(path, "parquet", "text")) == columns["text"]
    several = {"words": [[f"word {n} of {part}" * 9 for n in range(9000)] for part in range(3)]}
    pq.write_table(pa.table(several), path)  # more than a dictionary's page holds
    assert read_table(path).lists() == several
    pq.write_table(table.slice(0, 0), path)
    assert read_table(path).lists() == {name: [] for name in columns}


def test_json_lines_whose_rows_lack_most_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({f"column{n}": 1}) + "\n" for n in range(1000)))
    refused("this looks like a bomb", read_table, path)


def test_an_array_that_promises_more_than_it_holds_is_damaged(tmp_path):
    path = tmp_path / "outcomes.npz"
    for shape, dtype in (((10**12,), "<f8"), ((10**9,), "|S0"), ((3,), "<f8")):
        with zipfile.ZipFile(path, "w") as archive, archive.open("accuracy/values.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
            file.write(bytes(8))
        with pytest.raises(Damaged, match=re.escape(f"{path}: is damaged")):
            read_outcomes(path)


def test_a_recording_that_promises_more_than_it_holds_is_refused_with_its_row(tmp_path):
    (tmp_path / "a.csv").write_text("file,label\na.wav,x\n")
    head = b"RIFF" + (0xFFFFFFF0).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    form = (1).to_bytes(2, "little") * 2 + (8000).to_bytes(4, "little") * 2 + (1).to_bytes(2, "little")
    size = (0xFFFFFF00).to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(head + form + (8).to_bytes(2, "little") + b"data" + size + bytes(64))
    refused(r"a.csv: row 1, column 'file': a.wav: cannot be read as WAV", read_series, tmp_path / "a.csv", Reading())
