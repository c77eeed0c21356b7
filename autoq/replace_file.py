"""Writing a file beside the one it replaces, so that a reader sees the old one or the new one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autoq.errors import InputError
from autoq.paths import require_writable


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the name `path` when the block ends without an exception.

    Until then it stands beside `path` under a name of its own; it is synced to the disk before it
    is renamed, and removed when anything goes wrong. A link is followed, and an old file keeps its
    permissions.

    Raises InputError, in one line, when the file cannot be written, as on a full disk.
    """
    require_writable(path)
    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name[:40]}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            if place.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(place.stat().st_mode))
            os.fsync(file.fileno())
        part.replace(place)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
