"""Reading a record file: its records, and which of its lines are none, with the reason."""

from __future__ import annotations

import io
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from autoq.errors import RecordError
from autoq.records.line import LONGEST_LINE, NOT_JSON, TOO_LONG, BadLine
from autoq.records.record import Record


@dataclass(frozen=True)
class Rejected:
    """A line of a record file that is not a record, numbered from 1.

    kind is the reason in a few words, to count by; reason says more.
    """

    line: int
    kind: str
    reason: str


@dataclass(frozen=True)
class Lines:
    """What a record file holds.

    records in file order; rejected: lines that are none; torn: whether the last line lacks its
    newline and is no record, as after a kill.
    """

    path: str
    records: tuple[Record, ...]
    rejected: tuple[Rejected, ...] = ()
    torn: bool = False

    @property
    def skipped(self) -> Counter[str]:
        """How many lines are not used, by reason."""
        reasons = Counter(f"damaged ({bad.kind})" for bad in self.rejected)
        if self.torn:
            reasons["torn last line"] += 1
        return reasons


@dataclass(frozen=True)
class Line:
    """A line that is not blank: its number from 1, its bytes, and the record that it holds.

    data ends with the newline, where there is one; of a line that is too long it is the beginning.
    bad says why it holds no record.
    """

    number: int
    data: bytes
    record: Record | None
    bad: BadLine | None

    @property
    def torn(self) -> bool:
        """Whether it is the first part of a line whose writer was killed."""
        cut_short = self.bad is not None and self.bad.kind in (NOT_JSON, TOO_LONG)
        return cut_short and not self.data.endswith(b"\n")


def read_records(path: str | os.PathLike[str]) -> Lines:
    """All records of a file; an empty file has none.

    Raises RecordError when the file cannot be read, or holds lines but not one record.
    """
    try:
        with open_lines(path) as file:
            return collect(printable(path), scan(file))
    except OSError as error:
        raise _unreadable(path, error.strerror) from error


def parse_records(path: str, data: bytes) -> Lines:
    """`read_records` of bytes in hand; `path` names them in errors."""
    return collect(path, scan(io.BytesIO(data)))


def open_lines(path: str | os.PathLike[str]) -> BinaryIO:
    """A record file open for reading; raises RecordError when it cannot be."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISDIR(mode):
            return open(path, "rb")
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    except ValueError as error:
        raise _unreadable(path, error) from error
    raise RecordError(f"{printable(path)}: is no ordinary file; name a record file")


def _unreadable(path: str | os.PathLike[str], reason: object) -> RecordError:
    return RecordError(f"{printable(path)}: cannot read the record file: {reason}")


def scan(file: BinaryIO) -> Iterator[Line]:
    """The lines of a file that are not blank; no more than a line is held at a time."""
    number = 0
    while data := file.readline(LONGEST_LINE + 2):
        number += 1
        if not data.endswith(b"\n") and len(data) > LONGEST_LINE:
            data += _end_of_line(file)
        if not data.strip():
            continue
        try:
            yield Line(number, data, Record.from_line(data), None)
        except BadLine as bad:
            yield Line(number, data, None, bad)


def _end_of_line(file: BinaryIO) -> bytes:
    """Read to the end of a line that is too long; the newline, if there is one."""
    while rest := file.readline(LONGEST_LINE):
        if rest.endswith(b"\n"):
            return b"\n"
    return b""


def collect(path: str, lines: Iterable[Line]) -> Lines:
    """The records of lines; RecordError when there are lines but not one record among them."""
    records: list[Record] = []
    rejected: list[Rejected] = []
    torn = foreign = False
    for line in lines:
        if line.record is not None:
            records.append(line.record)
        elif line.torn:
            torn = True
            # A lone torn line is what a kill during the first append leaves.
            foreign = not line.data.lstrip().startswith(b'{"format":')
        elif line.bad is not None:
            rejected.append(Rejected(line.number, line.bad.kind, str(line.bad)))
    if not records and (rejected or foreign):
        first = rejected[0] if rejected else Rejected(1, NOT_JSON, NOT_JSON)
        raise RecordError(
            f"{path}: not a tuning-record file: line {first.line}: {first.reason}; "
            "give a file that `autoq tune` wrote"
        )
    return Lines(path, tuple(records), tuple(rejected), torn)


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that every terminal takes."""
    return os.fsencode(path).decode(errors="backslashreplace")
