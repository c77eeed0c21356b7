"""A locked record file, and how lines are added to its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from autoq.records.line import LONGEST_LINE, NOT_JSON, TOO_LONG, BadLine
from autoq.records.record import Record


@contextmanager
def locked(path: Path) -> Iterator[IO[bytes]]:
    """The file that has the name `path`, made if there is none, under a lock of its own.

    A file that was replaced or deleted while the lock was waited for is not the one that is given.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_at(file, path):
                yield file
                return


def is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file still has the name `path`."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def append(file: IO[bytes], data: bytes) -> int:
    """Add whole lines to the end of an unbuffered file; returns where they end, on the disk.

    When the disk refuses a part, the lines that are whole stay, and OSError is raised.
    """
    start = file.seek(0, os.SEEK_END)
    written = 0
    try:
        while written < len(data):
            written += file.write(data[written:])
        os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(start + data.rfind(b"\n", 0, written) + 1)
        raise
    return start + written


def repair_end(file: IO[bytes]) -> None:
    """Cut a torn last line off; a last line that only lacks its newline gets it."""
    size = file.seek(0, os.SEEK_END)
    start = last_line_start(file, size)
    if start == size:
        return
    file.seek(start)
    try:
        Record.from_line(file.read(LONGEST_LINE + 1))
    except BadLine as bad:
        if bad.kind in (NOT_JSON, TOO_LONG):
            file.truncate(start)
            return
    append(file, b"\n")


def last_line_start(file: IO[bytes], size: int, chunk: int = 1 << 16) -> int:
    """Where the last line of the first `size` bytes begins; `size` when a newline ends them."""
    end = size
    while end > 0:
        begin = max(0, end - chunk)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0
