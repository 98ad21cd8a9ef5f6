"""`gatedrnn cache`: what is kept as tokens is shown with its state, and removed."""

from commands import printed
from train_helpers import small_text, text_settings

from gatedrnn.data import load_task
from gatedrnn.data.token_cache import cache_folder


def test_entries_are_shown_with_their_text_size_and_state_and_clearing_leaves_nothing_of_any_version(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    load_task.cache_clear()
    load_task(text_settings(small_text(tmp_path / "a-text.txt")).data)
    (entry,) = (path for path in cache_folder().iterdir() if path.is_dir())
    shown = printed(capsys, "cache")
    assert "a-text.txt" in shown and "characters" in shown and "whole" in shown
    assert f"{sum(path.stat().st_size for path in entry.iterdir()):,}" in shown
    (entry / "train-00000.tokens").write_bytes(b"")
    assert "train-00000.tokens has 0 bytes" in printed(capsys, "cache")
    (entry.parent / "of-a-version-before").mkdir()
    (entry.parent / "of-a-version-before" / "train.tokens").write_bytes(b"abc")
    (entry.parent / "making-half").mkdir()
    assert "bytes removed" in printed(capsys, "cache", "--clear") and list(entry.parent.iterdir()) == []
    assert "texts: 0, bytes: 0" in printed(capsys, "cache")
