"""`gatedrnn cache`: what is kept as tokens is shown with its state, and removed."""

import pytest
from train_helpers import small_text, text_run

from gatedrnn.cli.app import main
from gatedrnn.data import load_task
from gatedrnn.data.token_cache import cache_folder


@pytest.fixture
def entry(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    load_task.cache_clear()
    load_task(text_run(small_text(tmp_path / "a-text.txt")).data)
    (found,) = (path for path in cache_folder().iterdir() if path.is_dir())
    return found


def cache(*flags):
    with pytest.raises(SystemExit) as end:
        main(["cache", *flags])
    assert end.value.code == 0


def test_entries_are_shown_with_their_text_size_and_state(entry, capsys):
    cache()
    shown = capsys.readouterr().out
    assert "a-text.txt" in shown and "characters" in shown and "whole" in shown
    assert f"{sum(path.stat().st_size for path in entry.iterdir()):,}" in shown
    (entry / "train-00000.tokens").write_bytes(b"")
    cache()
    assert "train-00000.tokens has 0 bytes" in capsys.readouterr().out


def test_clearing_leaves_nothing_of_any_version(entry, capsys):
    (entry.parent / "of-a-version-before").mkdir()
    (entry.parent / "of-a-version-before" / "train.tokens").write_bytes(b"abc")
    (entry.parent / "making-half").mkdir()
    cache("--clear")
    assert "bytes removed" in capsys.readouterr().out and list(entry.parent.iterdir()) == []
    cache()
    assert "texts: 0, bytes: 0" in capsys.readouterr().out
