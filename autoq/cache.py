"""Files of a cache: whole, genuine and private, or passed over.

An entry begins with a digest of its key and its content, so that a damaged one, or one that
belongs elsewhere, is never used. A cache is best effort: where it cannot be read or written, work
goes on without it, which is said once. What others could have written is never read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoq.errors import InputError

_MAGIC = b"autoq cache entry 1\n"
_DIGEST_BYTES = 32
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Below the cache's folder; what a killed writer leaves here is removed after this long.
_PARTS, _PART_SECONDS = ".parts", 3600.0

_log = logging.getLogger(__name__)


def require_private(folder: Path) -> None:
    """Raise InputError when others could write to a cache's folder; it need not exist."""
    try:
        found = folder.stat()
    except OSError:  # nothing there, or nothing usable, which is said when it is used
        return
    if not stat.S_ISDIR(found.st_mode):
        return
    instead = "or name another cache folder with AUTOQ_CACHE_DIR"
    if found.st_uid != os.geteuid():
        raise InputError(
            f"{folder}: the cache folder belongs to user {found.st_uid}, not to you (user "
            f"{os.geteuid()}), so its machine code cannot be trusted; remove it, {instead}"
        )
    if found.st_mode & _OTHERS_WRITE:
        raise InputError(
            f"{folder}: others may write to the cache folder (mode {found.st_mode & 0o777:04o}), "
            f"so its machine code cannot be trusted; run chmod 0700 on it, {instead}"
        )


def read_entry(path: Path, key: str) -> bytes | None:
    """The content that was written for `key`; None when it is not there whole.

    Raises InputError when others could write to the folder.
    """
    _check_once(path.parent)
    try:
        data = _read_own(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        _say_once(path.parent, error)
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    if data is None or data[:start] != _MAGIC + _digest(key, data[start:]):
        _log.debug("%s: damaged or not genuine, so it is made again", path)
        return None
    return data[start:]


def write_entry(path: Path, key: str, content: bytes | memoryview) -> None:
    """Keep a content for later; a reader sees all of it or nothing, also after a crash.

    The folder is made, with mode 0700. Raises InputError when others could write to it.
    """
    folder = path.parent
    _check_once(folder)
    part: str | None = None
    try:
        _make_private(folder / _PARTS)
        descriptor, part = tempfile.mkstemp(prefix=path.name, dir=folder / _PARTS)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + _digest(key, content))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        if part is not None:
            with contextlib.suppress(OSError):
                os.unlink(part)
        _say_once(folder, error)


def pack(fields: Mapping[str, Any], data: bytes) -> bytes:
    """JSON values in one line, then data."""
    return json.dumps(fields).encode() + b"\n" + data


def unpack(content: bytes) -> tuple[dict[str, Any], bytes]:
    """What `pack` was given."""
    line, _, data = content.partition(b"\n")
    return json.loads(line), data


def _digest(key: str, content: bytes | memoryview) -> bytes:
    name = key.encode()
    digest = hashlib.sha256(len(name).to_bytes(8, "little") + name)
    digest.update(content)
    return digest.digest()


def _read_own(path: Path) -> bytes | None:
    """The bytes of a file that nobody else can have written; None for any other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        own = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE
        return file.read() if own and stat.S_ISREG(found.st_mode) else None


@functools.cache
def _check_once(folder: Path) -> None:
    require_private(folder)
    _sweep_parts(folder / _PARTS)


def _make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone."""
    missing = [folder, *folder.parents]
    for one in reversed([one for one in missing if not one.is_dir()]):
        with contextlib.suppress(FileExistsError):
            one.mkdir(0o700)
            one.chmod(0o700)  # whatever the umask has taken away


def _sweep_parts(folder: Path) -> None:
    """Remove what killed writers left long ago."""
    with contextlib.suppress(OSError):
        for part in folder.iterdir():
            if time.time() - part.stat().st_mtime > _PART_SECONDS:
                part.unlink(missing_ok=True)


def _say_once(folder: Path, error: OSError) -> None:
    _warn_once(f"{folder}: the cache cannot be used ({error.strerror}); going on without it")


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning(text)
