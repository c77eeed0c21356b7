"""Named blocks of bytes in one tar file, in one order, each with its digest.

The file is what `tar` lists and unpacks, but only as `write_members` lays it out: every header is
compared with the one that is written for its name and size. A link, a device, a sparse or a hidden
member, or one that claims more than is there, is refused before anything is read or allocated.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from autoq.replace_file import replace_file
from autoq.runtime.strict_json import decode, parse

_INDEX, _INDEX_BYTES = "digests.json", 16 << 20
_END_BYTES = 2 * tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Member:
    """A block's name, size and SHA-256 in hexadecimal."""

    name: str
    bytes: int
    sha256: str


class MembersError(ValueError):
    """A file that `write_members` did not write, or that was changed since."""


def write_members(path: Path, blocks: Mapping[str, bytes | memoryview]) -> None:
    """Write blocks in their order; a reader sees all of them or the file that was there before.

    Raises InputError when the path cannot be written.
    """
    members = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in blocks.items()
    ]
    with replace_file(path) as file:
        _write_block(file, _INDEX, json.dumps(members, indent=1).encode())
        for name, data in blocks.items():
            _write_block(file, name, data)
        file.write(bytes(_END_BYTES))
        file.write(bytes(-file.tell() % tarfile.RECORDSIZE))


@contextmanager
def open_members(path: Path) -> Iterator[MembersReader]:
    """A reader of what `write_members` wrote.

    Raises MembersError for any other file, OSError for one that cannot be read.
    """
    # Without O_NONBLOCK the opening of a pipe would wait for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise MembersError("is no ordinary file")
        yield MembersReader(file, status.st_size)


class MembersReader:
    """Reads blocks in their order; `members` are all of them, `first` the name in the file.

    Raises MembersError when the file is not laid out as its index says.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        header = file.read(tarfile.BLOCKSIZE)
        try:
            first = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise MembersError(f"not a tar file ({error})") from error
        self.first = first.name
        self.members: tuple[Member, ...] = ()
        self._position = 0
        if first.name == _INDEX:
            self.members = self._read_index(header, first.size, size)

    def _read_index(self, header: bytes, index_bytes: int, size: int) -> tuple[Member, ...]:
        if header != _header(_INDEX, index_bytes) or not 0 < index_bytes <= _INDEX_BYTES:
            raise MembersError("its index is damaged")
        try:
            value = parse(self._read(index_bytes))
            members = decode(tuple[Member, ...], value, "index")
        except ValueError as error:
            raise MembersError(f"its index is damaged ({error})") from error
        if min((member.bytes for member in members), default=0) < 0:
            raise MembersError("its index is damaged (a size below zero)")
        end = _END_BYTES + sum(map(_padded, (index_bytes, *(item.bytes for item in members))))
        expected = end + -end % tarfile.RECORDSIZE
        if size != expected:
            raise MembersError(f"has {size} bytes instead of {expected}")
        return members

    def read(self, name: str, limit: int) -> bytes:
        """The next block, which must be `name` and have at most `limit` bytes."""
        if self._position == len(self.members) or self.members[self._position].name != name:
            raise MembersError(f"{name} is missing")
        member = self.members[self._position]
        self._position += 1
        if member.bytes > limit:
            raise MembersError(f"{name} has {member.bytes} bytes; {limit} are allowed")
        if self._file.read(tarfile.BLOCKSIZE) != _header(name, member.bytes):
            raise MembersError(f"{name} is damaged")
        data = self._read(member.bytes)
        if hashlib.sha256(data).hexdigest() != member.sha256:
            raise MembersError(f"{name} is damaged: its digest differs")
        return data

    def finish(self) -> None:
        """Raise MembersError when anything is left."""
        if self._position < len(self.members):
            raise MembersError(f"{self.members[self._position].name} is unknown")
        if any(self._file.read()):
            raise MembersError("holds more than its members")

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size or any(self._file.read(-size % tarfile.BLOCKSIZE)):
            raise MembersError("is cut off")
        return data


def _write_block(file: BinaryIO, name: str, data: bytes | memoryview) -> None:
    file.write(_header(name, len(data)))
    file.write(data)
    file.write(bytes(-len(data) % tarfile.BLOCKSIZE))


def _header(name: str, size: int) -> bytes:
    """The only header that a block of this name and size may have."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT)


def _padded(size: int) -> int:
    """Bytes of a block with its header, in whole tar blocks."""
    return tarfile.BLOCKSIZE + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
