"""No kernel runs that was compiled from older sources."""

import os

from gatedrnn.kernels.cpu.stale import forget_stale


def test_what_is_older_than_any_source_is_removed_and_nothing_else(tmp_path):
    kept = tmp_path / "__pycache__"
    kept.mkdir()
    for file, written in (
        (tmp_path / "gates.py", 200), (tmp_path / "loops.py", 100), (kept / "loops.walk.nbi", 150),
        (kept / "gates.block.nbi", 250), (kept / "loops.cpython-311.pyc", 50),
    ):  # fmt: skip
        file.write_text("")
        os.utime(file, (written, written))
    forget_stale(tmp_path)
    assert sorted(file.name for file in kept.iterdir()) == ["gates.block.nbi", "loops.cpython-311.pyc"]


def test_a_folder_without_anything_kept_is_left_in_peace(tmp_path):
    (tmp_path / "gates.py").write_text("")
    forget_stale(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["gates.py"]
