"""Text that others wrote is shown in a terminal and not obeyed."""

import io
import re
import sys
from pathlib import Path

import hypothesis.strategies as st
import pytest
from commands import exit_code
from hypothesis import given
from properties import few
from rich.table import Table

import gatedrnn
from gatedrnn.terminal import Console, plain, show_all

OBEYED = "\x1b\x9b\x07\r\x00\x08\x7f\u202e\u2066\u200f\u2028\ud800"
ANY_TEXT = st.lists(st.integers(0, 0x10FFFF).map(chr)).map("".join)  # st.text() would first read all of Unicode


@few()
@given(ANY_TEXT | st.text(st.sampled_from(OBEYED + "a[]\n\t가👍")))
def test_plain_text_holds_nothing_that_a_terminal_obeys_and_stays_so(text):
    shown = plain(text)
    assert not set(shown) & set(OBEYED) and plain(shown) == shown
    shown.encode()
    assert shown.count("\n") == text.count("\n")


def test_strings_in_tables_and_titles_are_escaped_brackets_are_brackets_and_all_else_is_left_as_it_is():
    for text in ("a 가 👍🏽 👨‍👩‍👧 é\n\tb", "[red]", "\\x1b"):
        assert plain(text) == text
    table = Table("[bold]column\x1b[2J", title="[red]title\x9b\u202e")
    table.add_row("label\x07\r[/red]")
    file = io.StringIO()
    Console(file=file, width=200, force_terminal=True, color_system=None).print(table, "[link=file:///x]name\x00")
    shown = file.getvalue()
    for piece in (r"[bold]column\x1b[2J", r"[red]title\x9b\u202e", r"label\x07\r[/red]", r"[link=file:///x]name\x00"):
        assert piece in shown
    assert "\x1b" not in shown.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[3m", "")


def test_no_other_console_is_printed_to_and_no_markup_is_written_for_it():
    """Another console would swallow text in brackets; this one prints the tags of styles as they are."""
    for path in Path(gatedrnn.__file__).parent.rglob("*.py"):
        if path.name != "terminal.py":
            text = path.read_text()
            assert not re.search(r"^from rich\.console import .*\bConsole\b", text, re.M), path
            assert not re.search(r"\[/?(bold|dim|italic|red|green|yellow|blue)( \w+)?\]", text), path


@pytest.mark.parametrize(("encoding", "shown"), [
    ("ascii", r"\uc11c\uc6b8 \xe9"), ("cp1252", r"\uc11c\uc6b8 é"), ("cp949", r"서울 \xe9"), ("utf-8", "서울 é"),
])  # fmt: skip
def test_what_an_encoding_lacks_is_shown_as_python_writes_it(encoding, shown):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding, write_through=True)
    table = Table("서울 é")
    table.add_row("1")
    Console(file=file, width=60).print(table)
    assert shown in raw.getvalue().decode(encoding)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_commands_show_what_an_encoding_lacks_on_both_streams(monkeypatch, stream, errors):
    """Python escapes surrogates on its streams in the C locale."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, stream, io.TextIOWrapper(raw, "ascii", errors, write_through=True))
    assert exit_code("describe", "서울") == 2
    getattr(sys, stream).write("서울")
    assert rb"\uc11c\uc6b8" in raw.getvalue()


def test_a_stream_that_replaces_already_keeps_its_way():
    file = io.TextIOWrapper(io.BytesIO(), "ascii", errors="replace")
    show_all(file)
    show_all(io.StringIO())
    assert file.errors == "replace"
