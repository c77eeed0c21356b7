"""Checks on paths that a user gives, before any work is done."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from autoq.errors import InputError


def as_path(given: str | os.PathLike[str]) -> Path:
    """A path that a user gives, as text or as any os.PathLike; nothing need be there.

    Raises InputError for what is no path, or a name that no file can have.
    """
    try:
        path = Path(given)
        path.lstat()
    except (TypeError, ValueError) as error:
        raise InputError(f"{given!r:.80}: no path of a file or folder ({error})") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{given!s:.80}...: the name is too long for a file") from error
    return path


def content_of(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file or a pipe; raises OSError for a device as well, which may never end."""
    mode = os.stat(path).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "is no ordinary file")
    return Path(path).read_bytes()


def require_writable(path: Path) -> None:
    """Raise InputError unless a file can be written or made at `path`; makes nothing."""
    as_path(path)
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no ordinary file; name another")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written; check its permissions")
    if not path.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {folder} cannot be written; choose another output")


def require_other(output: Path, *read: object) -> None:
    """Raise InputError where an output would take the place of a file that is read.

    What is no path, such as arrays in the place of an archive, is passed over.
    """
    for path in read:
        given = isinstance(path, str | os.PathLike)
        if given and output.exists() and os.path.exists(path) and output.samefile(path):
            raise InputError(f"{output}: is {path}, which is read; name another output")
