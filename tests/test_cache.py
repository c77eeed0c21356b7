"""The cache's files: genuine or passed over, private, and never in the way of work."""

import errno
import logging
import os
import re
import stat
import threading
from pathlib import Path

import pytest

from autoq import cache
from autoq.cache import read_entry, require_private, write_entry
from autoq.errors import InputError


@pytest.fixture
def entry(tmp_path):
    path = tmp_path / "made" / "cache" / "name.kernel"
    write_entry(path, "key", b"machine code" * 100)
    return path


def test_a_content_comes_back_under_its_key_alone(entry):
    assert read_entry(entry, "key") == b"machine code" * 100
    assert read_entry(entry, "another key") is None
    assert read_entry(entry.with_name("missing"), "key") is None


def test_folders_and_entries_are_the_users_alone(entry):
    for path in (entry.parent, entry.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


@pytest.mark.parametrize("umask", [0o000, 0o277])
def test_the_umask_makes_no_difference(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_entry(tmp_path / "cache" / "entry", "key", b"code")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert read_entry(tmp_path / "cache" / "entry", "key") == b"code"


def test_every_damage_is_noticed_and_made_good(entry):
    whole = entry.read_bytes()
    damaged = [whole[:size] for size in (0, 5, 40, 60, len(whole) - 1)]
    damaged += [whole + b"\0"]
    for at in (0, 25, 60, len(whole) - 1):
        damaged.append(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    for data in damaged:
        entry.write_bytes(data)
        assert read_entry(entry, "key") is None, data
    write_entry(entry, "key", b"machine code" * 100)
    assert entry.read_bytes() == whole


def test_what_others_could_have_written_is_not_read(entry, tmp_path):
    entry.chmod(0o620)
    assert read_entry(entry, "key") is None
    entry.chmod(0o600)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert read_entry(entry, "key") is None
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert read_entry(entry, "key") is None


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_refused(tmp_path, mode):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    for use in (
        lambda: require_private(folder),
        lambda: read_entry(folder / "x", "key"),
        lambda: write_entry(folder / "x", "key", b"code"),
    ):
        with pytest.raises(InputError, match=r"others may write.*chmod 0700.*AUTOQ_CACHE_DIR"):
            use()
    assert not list(folder.iterdir())
    folder.chmod(0o755)
    require_private(folder)


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    user = tmp_path.stat().st_uid + 1
    monkeypatch.setattr(cache.os, "geteuid", lambda: user)
    with pytest.raises(InputError, match=f"not to you .user {user}"):
        require_private(tmp_path)


def test_a_file_in_the_folders_place_is_said_once(tmp_path, caplog):
    (tmp_path / "cache").touch()
    with caplog.at_level(logging.WARNING, "autoq"):
        for name in ("x", "y"):
            require_private(tmp_path / "cache")
            write_entry(tmp_path / "cache" / name, "key", b"code")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/cache: the cache cannot be used (Not a directory); going on without it"
    ]
    assert read_entry(tmp_path / "cache" / "x", "key") is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_nothing_leaves_nothing_behind(tmp_path, monkeypatch, caplog, number):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cache.os, "fsync", refuse)
    with caplog.at_level(logging.WARNING, "autoq"):
        write_entry(tmp_path / "entry", "key", b"code")
    assert os.strerror(number) in caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_writers_at_once_leave_whole_entries(tmp_path):
    contents = [bytes([65 + i]) * 200_000 for i in range(8)]
    seen = set()

    def work(content):
        for _ in range(20):
            write_entry(tmp_path / "entry", "key", content)
            seen.add(read_entry(tmp_path / "entry", "key"))

    threads = [threading.Thread(target=work, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= set(contents)
    assert not list((tmp_path / ".parts").iterdir())


def test_parts_of_killed_writers_are_removed(tmp_path):
    (tmp_path / ".parts").mkdir()
    for name, age in (("old", 7200), ("new", 0)):
        path = tmp_path / ".parts" / name
        path.touch()
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    read_entry(tmp_path / "entry", "key")
    assert [path.name for path in (tmp_path / ".parts").iterdir()] == ["new"]


def test_pickles_stay_in_memory_and_in_pipes():
    root = Path(__file__).parent.parent
    sources = [
        path
        for folder in ("autoq", "search", "templates", "scripts")
        for path in (root / folder).rglob("*.py")
    ]
    sources.append(root / "tests" / "gpu_kernels.py")
    uses = {
        str(path.relative_to(root))
        for path in sources
        if re.search(r"\b(import|from) (c?pickle|dill|joblib|shelve)\b|allow_pickle=True",
                     path.read_text())
    }  # fmt: skip
    in_memory = "autoq/kernel/tvm_script.py"
    assert uses == {in_memory, "autoq/process/child.py", "autoq/process/serve.py"}
