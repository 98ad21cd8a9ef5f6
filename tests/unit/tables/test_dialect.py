"""One table, however its file is written: encoding, separator, lines around it, quotation marks."""

import pytest

from gatedrnn.errors import DataError
from gatedrnn.tables.files import forget, read_table
from gatedrnn.tables.options import DialectOptions

ROWS = [[f"2024-01-{day:02}", f"{1000 + day},5", f"größe {day}"] for day in range(1, 31)]
NAMES = ["Datum", "Last, MW", "Größe"]


def separated(separator=";", rows=ROWS, names=NAMES):
    quoted = [
        [f'"{field}"' if separator in field or "," in field else field for field in row] for row in [names, *rows]
    ]
    return "".join(separator.join(row) + "\n" for row in quoted)


def table_of(tmp_path, content, name="table.csv", options=None):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, *([] if options is None else [options]))


def assert_is_the_table(table):
    assert table.column_names == NAMES
    assert [list(row) for row in zip(*(table[name] for name in NAMES), strict=True)] == ROWS


FORMS = {
    **{f"{separator!r} between fields": (separated(separator), []) for separator in ",;\t|"},
    "Excel names the separator": ("sep=|\n" + separated("|"), []),
    "with a byte order mark": ("\ufeff" + separated(), []),
    "UTF-16 of Windows": (separated().encode("utf-16"), []),
    "cp1252 of a German Excel": (separated().encode("cp1252"), ["not UTF-8, read as cp1252"]),
    "lines that end in CR LF": (separated().replace("\n", "\r\n"), []),
    "lines that end in CR": (separated().replace("\n", "\r"), []),
    "a title and a source": ("Last\nQuelle: Netz\n\n" + separated(), ["2 rows above the table left out: Last"]),
    "a title in a row as wide": ("Last des Nordens;;\n;;\n" + separated(), ["2 rows above the table"]),
    "comments": ("# station 7\n# made 2024; twice; so\n" + separated(), ["2 rows above the table"]),
    "a comment that is the header": ("#" + separated(), []),
    "units below the names": (separated(rows=[["[day]", "[MW]", "[m]"], *ROWS]), ["1 row above the table"]),
    "a second line of names": (separated(rows=[["", "Nord", "Nord"], *ROWS]), ["1 row above the table"]),
    "a note below": (separated() + "\nQuelle: Netz\n", ["1 row below the table left out: Quelle: Netz"]),
    "a note in a row as wide": (separated() + "Quelle: Netz;;\n", ["below the table"]),
    "a row of totals": (separated() + 'Gesamt;"30465,5";\n', ["1 row below the table left out: Gesamt"]),
    "blank rows": (separated().replace("2024-01-07", ";;\n  ;;\n2024-01-07") + ";;\n;;\n", []),
    "blank columns": (separated().replace("\n", ";;\n"), []),
    "a mark behind each row": (separated().replace("\n", ";\n").replace("Größe;\n", "Größe\n"), []),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_the_same_in_every_form_and_what_is_left_out_is_said(form, tmp_path, caplog):
    content, said = FORMS[form]
    assert_is_the_table(table_of(tmp_path, content))
    assert len(caplog.messages) == len(said) and all(map(str.__contains__, caplog.messages, said))


LETTERS = {"cp949": "서울의 수요", "cp932": "とうきょうのデータ", "gb18030": "北京市用电量"}


@pytest.mark.parametrize("encoding", LETTERS)
def test_an_encoding_of_two_bytes_is_told_by_its_letters(encoding, tmp_path, caplog):
    table = table_of(tmp_path, f"날짜,{LETTERS[encoding]}\n".replace("날짜", "ds").encode(encoding) + b"1,2\n2,3\n")
    assert table.column_names == ["ds", LETTERS[encoding]] and f"read as {encoding}" in caplog.text
    other = table_of(tmp_path, "ds,é\n1,2\n".encode("cp1252"), "other.csv", DialectOptions(encoding="latin-1"))
    assert other.column_names == ["ds", "é"]


def test_a_header_one_name_short_stands_above_row_names_as_r_writes_them_and_above_nothing_else(tmp_path):
    table = table_of(tmp_path, "speed,dist\n" + "".join(f"{n},{n + 3},{n * 2}\n" for n in range(1, 9)))
    assert table.column_names == ["", "speed", "dist"] and table["speed"][0] == "4"
    with pytest.raises(DataError, match="line 2: must have 2 fields as the first line, got 3"):
        table_of(tmp_path, "text,label\na,b,1\nc,d,0\n", "texts.csv")


REFUSED = {
    "a,b\n1,2\n3\n4,5\n": "line 3: must have 2 fields as the first line, got 1",
    "a,b\n1,2\n3,4,5\n6,7\n": "line 3: must have 2 fields as the first line, got 3",
    "a,b,c\n1,2\n3,4\n": "line 2: must have 3 fields as the first line, got 2.*--skip-lines",
    'a,b\n1,"2\n3,4\n': "row that begins in line 2: a quotation mark is not closed",
    'a,b\n1,2\n"x" y,4\n': "row that begins in line 3: a quotation mark is not closed, or text follows it",
    b"a,b\n1,\0\n": "line 2 holds a zero byte",
    b"a,b\n1,\x81\n": "line 2 is not UTF-8; name its encoding with --encoding",
}


@pytest.mark.parametrize("content", REFUSED)
def test_what_is_no_table_is_refused_with_its_line(content, tmp_path):
    with pytest.raises(DataError, match=REFUSED[content]):
        table_of(tmp_path, content)


def test_what_the_caller_says_of_a_file_counts(tmp_path):
    content = "about;this\nand;that\nds;y\n1;2\n"
    assert table_of(tmp_path, content, options=DialectOptions(skip_lines=2)).column_names == ["ds", "y"]
    assert table_of(tmp_path, "a;b,c\n1;2,3\n", options=DialectOptions(separator=",")).column_names == ["a;b", "c"]
    with pytest.raises(DataError, match="--skip-lines 9 leaves no line"):
        table_of(tmp_path, content, options=DialectOptions(skip_lines=9))
    with pytest.raises(DataError, match="cannot be read as nothing"):
        table_of(tmp_path, content, options=DialectOptions(encoding="nothing"))


def test_a_file_is_parsed_once_until_it_changes(tmp_path, monkeypatch):
    first = table_of(tmp_path, separated())
    assert read_table(tmp_path / "table.csv") is first
    assert_is_the_table(first)
    again = table_of(tmp_path, separated(rows=ROWS[:9]))
    assert again is not first and len(again) == 9
    forget()
    assert read_table(tmp_path / "table.csv") is not again
