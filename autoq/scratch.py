"""Scratch folders in the temporary directory, which are gone afterwards, whatever happens.

Each holds a file that its process keeps locked. The kernel drops the lock when the process dies,
of SIGKILL too and seen from any container, and the next run's sweep removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoq.errors import EnvironmentFault

_PREFIX, _LOCK = "autoq-scratch-", ".lock"
_NAME = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")
# A folder without its lock is one whose process died between the two, or is about to make it.
_UNLOCKED_SECONDS = 60.0


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new empty folder that only this user may enter, removed at the end.

    Raises EnvironmentFault when the temporary directory cannot be written.
    """
    folder, lock = _make()
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


@contextmanager
def scratch_as_temporary_directory() -> Iterator[None]:
    """Have libraries put their temporary files into a scratch folder, in all threads."""
    with scratch_folder() as folder:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def sweep() -> None:
    """Remove scratch folders of this user whose processes ended without doing so."""
    parent = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if _NAME.fullmatch(name):
                with contextlib.suppress(OSError):
                    _sweep(parent / name)


def _make() -> tuple[Path, int]:
    """A folder and the descriptor of its locked file."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            path = folder / _LOCK
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvironmentFault(
                f"the temporary directory cannot be written ({error.strerror or error}); free "
                "space there, or name another with TMPDIR"
            ) from error
        # A sweep may find the file before it is locked, and take the folder for a dead one's.
        if _lock(descriptor) and path.exists():
            return folder, descriptor
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - found.st_mtime > _UNLOCKED_SECONDS:
            folder.rmdir()  # refused unless it is empty
        return
    try:
        if _lock(descriptor):
            _remove(folder)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: what is left of it half-way is still found by a sweep."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
        (folder / _LOCK).unlink(missing_ok=True)
        folder.rmdir()


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
