"""A record file: JSON lines appended under a file lock and synced to the disk.

The way of appending follows Optuna's JournalFileBackend: a writer that is killed leaves at most a
torn last line, which readers pass over and the next writer repairs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from autoq.errors import InputError, RecordError
from autoq.paths import require_writable
from autoq.records.record import Record


@dataclass(frozen=True)
class Rejected:
    """A line of a record file that is not a record, numbered from 1."""

    line: int
    reason: str


@dataclass(frozen=True)
class Lines:
    """What a record file holds.

    records in file order; rejected: lines that are none; torn: whether the last line lacks its
    newline and is no record, as after a kill.
    """

    path: str
    records: tuple[Record, ...]
    rejected: tuple[Rejected, ...]
    torn: bool


def read_records(path: str | os.PathLike[str]) -> Lines:
    """All records of a file; an empty file has none.

    Raises RecordError when the file cannot be read, or holds lines but not one record.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot read the record file: {error.strerror}") from error
    return parse_records(str(path), data)


def parse_records(path: str, data: bytes) -> Lines:
    """`read_records` of bytes in hand; `path` names them in errors."""
    *lines, last = data.split(b"\n")
    records: list[Record] = []
    rejected: list[Rejected] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            _take(line, number, records, rejected)
    torn = False
    if last.strip():
        before = len(rejected)
        _take(last, len(lines) + 1, records, rejected)
        torn = len(rejected) > before
        del rejected[before:]
    # A lone torn line is what a kill during the first append leaves.
    lone_torn = torn and not rejected and last.lstrip().startswith(b'{"format":')
    if not records and (rejected or (torn and not lone_torn)):
        first = rejected[0] if rejected else Rejected(1, "not a tuning record")
        raise RecordError(
            f"{path}: not a tuning-record file: line {first.line} is {first.reason}; "
            "give a file that `autoq tune` wrote"
        )
    return Lines(path, tuple(records), tuple(rejected), torn)


def _take(line: bytes, number: int, records: list[Record], rejected: list[Rejected]) -> None:
    try:
        records.append(Record.from_line(line))
    except RecordError as error:
        rejected.append(Rejected(number, str(error)))


class Journal:
    """A record file open for appending, by any number of processes at once.

    Opening checks that the file is, or can become, a record file; it is created by the first
    append.

    Raises:
        RecordError: when the path cannot be written or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        check_writable(self.path)
        self.existing = (
            read_records(self.path) if self.path.exists() else Lines(str(path), (), (), False)
        )

    def append(self, records: Sequence[Record]) -> None:
        """Add records after the last whole line; on return they are on the disk."""
        if not records:
            return
        data = "".join(record.to_line() + "\n" for record in records).encode()
        try:
            with self._locked() as file:
                _repair(file)
                file.seek(0, os.SEEK_END)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RecordError(f"{self.path}: cannot append records: {error.strerror}") from error

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def check_writable(path: Path) -> None:
    """Raise RecordError unless `path` can be read and written, or created; touches nothing."""
    try:
        require_writable(path)
    except InputError as error:
        raise RecordError(str(error)) from error
    if path.exists() and not os.access(path, os.R_OK):
        raise RecordError(f"{path}: cannot be read; check its permissions")


def _repair(file: BinaryIO) -> None:
    """Cut a torn last line off; a whole record that only lacks its newline gets it."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    start = _last_line_start(file, size)
    file.seek(start)
    try:
        Record.from_line(file.read())
    except RecordError:
        file.truncate(start)
    else:
        file.write(b"\n")


def _last_line_start(file: BinaryIO, size: int, chunk: int = 1 << 16) -> int:
    end = size
    while end > 0:
        begin = max(0, end - chunk)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0
