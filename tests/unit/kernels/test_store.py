"""Compiled kernels are loaded only if nobody but this user and root could have written them."""

import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from gatedrnn.kernels.cpu import store

NAME, STAMP = "kinds.scan.loops.run-1.compiled", b"s" * store._DIGEST
NOBODY = 65534
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user's home, with no variable set."""
    for variable in (*store.VARIABLES, "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "_warned", set())
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def saved(payload=b"compiled"):
    """The file of what is saved now."""
    assert store.write(NAME, STAMP, payload) == []
    return store.saving_folder() / NAME


def loaded():
    return store.read(NAME, STAMP)


def test_kernels_are_saved_in_the_users_cache_which_others_cannot_read(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    file = saved()
    assert loaded() == b"compiled" and file.is_relative_to(home / ".cache" / "gatedrnn" / "kernels")
    made = {path: path.stat().st_mode & 0o777 for path in home.rglob("*")}
    assert {mode for path, mode in made.items() if path.is_dir()} == {0o700}
    assert made[file] == made[file.parents[1] / store._KEY] == 0o600
    for system, folder in {"darwin": home / "Library/Caches", "win32": home / "local"}.items():
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.setenv("LOCALAPPDATA", str(home / "local"))
        assert store.locations()[-1].folder.is_relative_to(folder / "gatedrnn")


def test_a_path_that_is_not_absolute_does_not_count(home, monkeypatch, caplog):
    for variable in (*store.VARIABLES, "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, "cache")
    assert {location.folder.is_relative_to(home) for location in store.locations()} == {True}
    assert caplog.messages == ["GATEDRNN_KERNEL_CACHE=cache is ignored: the path of compiled kernels must be absolute"]
    monkeypatch.setenv("HOME", "home")
    assert store.locations() == [] and loaded() is None
    (reason,) = store.write(NAME, STAMP, b"compiled")
    assert "no home folder" in reason


def flip(file, at):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [cut, lambda file: flip(file, -1), lambda file: file.write_bytes(b"")])
def test_a_damaged_file_is_not_loaded_and_not_worth_a_line(damage, caplog):
    damage(saved())
    assert loaded() is None and not caplog.messages


def test_a_file_of_an_earlier_layout_is_ignored(caplog):
    file = saved()
    file.write_bytes(file.read_bytes()[store._DIGEST :])
    assert loaded() is None and not caplog.messages


def signed_by_another(file):
    file.write_bytes(store.packed(NAME, STAMP, b"evil", b"another key"))


def under_another_name(file):
    assert store.write("other.compiled", STAMP, b"evil") == []
    file.write_bytes((file.parent / "other.compiled").read_bytes())


def with_another_key(file):
    key = file.parents[1] / store._KEY
    key.unlink()
    key.write_bytes(bytes(store._DIGEST))
    key.chmod(0o600)


def with_a_key_that_others_read(file):
    (file.parents[1] / store._KEY).chmod(0o644)


def without_a_key(file):
    (file.parents[1] / store._KEY).unlink()


def signed_with_nothing(file):
    without_a_key(file)
    file.write_bytes(store.packed(NAME, STAMP, b"evil"))


def group_may_write(file):
    file.chmod(0o620)


def a_link(file):
    file.rename(file.parent / "elsewhere")
    file.symlink_to("elsewhere")


def a_pipe(file):
    file.unlink()
    os.mkfifo(file)


def group_may_write_the_folder(file):
    file.parent.chmod(0o770)


def all_may_write_the_folder(file):
    file.parent.chmod(0o1777)


REFUSALS = {
    signed_by_another: "is not signed with the key of this user",
    with_another_key: "is not signed with the key of this user",
    with_a_key_that_others_read: "is not signed with the key of this user",
    without_a_key: "is not signed with the key of this user",
    signed_with_nothing: "is not signed with the key of this user",
    group_may_write: "is open to other users (mode 620)",
    a_link: "cannot be opened as a file",
    a_pipe: "is no file",
    group_may_write_the_folder: "other users can write",
    all_may_write_the_folder: "other users can write",
}


@pytest.mark.parametrize("change", REFUSALS, ids=lambda change: change.__name__)
def test_what_others_could_have_written_is_not_loaded_and_one_line_says_why(change, caplog):
    change(saved())
    assert loaded() is None and loaded() is None
    (line,) = caplog.messages
    assert REFUSALS[change] in line and "compiled anew" in line


def test_a_file_under_another_name_is_not_loaded():
    under_another_name(saved())
    assert loaded() is None


@as_root
@pytest.mark.parametrize("level", range(3), ids=["file", "folder", "folder above"])
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", None])
def test_what_belongs_to_another_user_is_not_loaded(variable, level, tmp_path, monkeypatch, caplog):
    if variable:
        (tmp_path / "named").mkdir()
        monkeypatch.setenv(variable, str(tmp_path / "named"))
    file = saved()
    os.chown([file, *file.parents][level], NOBODY, NOBODY)
    assert loaded() is None
    assert f"belongs to another user (id {NOBODY})" in caplog.messages[0]
    if level and not variable:  # the user has no other folder
        assert store.saving_folder() is None
    else:
        assert (saved() == file) == (level == 0) and loaded() == b"compiled"


@as_root
def test_the_home_of_another_user_is_not_used(home):
    os.chown(home, NOBODY, NOBODY)
    assert store.saving_folder() is None and store.write(NAME, STAMP, b"compiled") and not list(home.iterdir())


@pytest.mark.parametrize("variable", ["GATEDRNN_KERNEL_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_of_a_folder_that_a_group_shares_nothing_is_loaded_and_kernels_are_saved_in_the_users_own(
    variable, home, tmp_path, monkeypatch, caplog
):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv(variable, str(shared))
    assert saved().is_relative_to(shared) and not caplog.messages
    shared.chmod(0o770)  # who may write it may put another folder in the place of ours
    assert loaded() is None and "other users can write" in caplog.text
    assert saved().is_relative_to(home) and loaded() == b"compiled" and len(caplog.messages) == 1
    shared.chmod(0o1777)  # as /tmp: nobody else may rename what is ours
    assert saved().is_relative_to(shared)


def test_a_folder_that_a_variable_names_is_read_without_a_key_if_nobody_else_can_write_it(home, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "of-a-cluster"))
    file = saved()
    shutil.rmtree(home)
    home.mkdir()
    assert loaded() == b"compiled" and not list(home.iterdir())
    monkeypatch.setattr(store, "_HAS_OWNERS", False)  # on Windows the key is asked for everywhere
    assert loaded() is None
    assert saved(b"signed") == file and loaded() == b"signed"


def test_a_linked_folder_counts_as_what_it_leads_to(home, tmp_path, monkeypatch):
    for name in ("good", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / f"to-{name}").symlink_to(name)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "to-good"))
    assert saved().is_relative_to(tmp_path / "to-good") and loaded() == b"compiled"
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "to-open"))
    assert saved().is_relative_to(home)


def test_what_is_above_the_home_and_its_cache_does_not_count(home):
    """Who can write there runs code as this user anyway; on some systems a group can."""
    (home / ".cache").mkdir()
    for folder in (home, home / ".cache"):
        folder.chmod(0o2775)
    assert saved().is_relative_to(home) and loaded() == b"compiled"


def test_of_threads_that_make_a_key_at_once_all_have_the_same():
    keys, begin = [], threading.Barrier(8)

    def make():
        begin.wait()
        keys.append(store._key(create=True))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8 and len(set(keys)) == 1 and len(keys[0]) == store._DIGEST


def as_nobody(action):
    """Run an action in a process of another user, and return its result as it is printed."""
    told, tell = os.pipe()
    if not (child := os.fork()):
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            os.write(tell, repr(action()).encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with open(told) as answer:
        return answer.read()


@as_root
def test_two_users_of_one_folder_load_nothing_of_each_other_and_both_load_what_is_roots(monkeypatch, caplog):
    """Root and another user, in a process of its own."""
    shared = Path("/tmp") / f"gatedrnn-{os.getpid()}"  # another user may not pass through pytest's folders
    named, homes = shared / "named", shared / "home-of-nobody"
    try:
        shared.mkdir()
        shared.chmod(0o755)
        homes.mkdir()
        os.chown(homes, NOBODY, NOBODY)
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
        named.mkdir()
        named.chmod(0o1777)
        with monkeypatch.context() as of_nobody:
            of_nobody.setenv("HOME", str(homes))
            assert as_nobody(lambda: (store.write(NAME, STAMP, b"evil"), loaded())) == repr(([], b"evil"))
        assert {path.stat().st_uid for path in named.rglob("*")} == {NOBODY}
        assert loaded() is None and f"belongs to another user (id {NOBODY})" in caplog.messages[0]
        assert not saved().is_relative_to(named) and loaded() == b"compiled"
        shutil.rmtree(named)
        assert saved(b"of root").is_relative_to(named)
        with monkeypatch.context() as of_nobody:
            of_nobody.setenv("HOME", str(homes))
            assert as_nobody(loaded) == repr(b"of root")
            assert as_nobody(lambda: store.write("new", STAMP, b"own") or store.read("new", STAMP)) == repr(b"own")
        assert {path.stat().st_uid for path in named.rglob("*")} == {0} and list(homes.rglob("new"))
    finally:
        shutil.rmtree(shared, ignore_errors=True)
