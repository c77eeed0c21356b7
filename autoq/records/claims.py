"""Claims: which candidates the tuners of one record file measure right now.

A tuner writes its claims to a hidden file beside the record file and holds a lock on that file
while it lives. The kernel gives the lock back however the tuner ends, so that what a killed tuner
had claimed is free at once; its file is removed by the next tuner that looks.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_SUFFIX = ".claims"
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True)
class Claim:
    """A candidate that is being measured: digests of its workload and of its identity."""

    workload: str
    candidate: str

    @staticmethod
    def of(workload_key: str, identity: str) -> Claim:
        """The claim on what a record with this key and identity will hold."""
        return Claim(_digest(workload_key), _digest(identity))


class Claims:
    """The claims on candidates of one record file; use it only while that file is locked.

    Attributes:
        own: claims of this tuner.
        hidden: whether others cannot see them, since the folder cannot be written.
    """

    def __init__(self, records: Path) -> None:
        place = Path(os.path.realpath(records))
        self._folder = place.parent
        self._prefix = f".{place.name[:40]}.{_digest(place.name)[:8]}."
        self._file: BinaryIO | None = None
        self._name: Path | None = None
        self.own: set[Claim] = set()
        self.hidden = False

    def elsewhere(self) -> set[Claim]:
        """What other live tuners have claimed; files of dead ones are removed."""
        found: set[Claim] = set()
        for path in self._folder.iterdir():
            ours = path.name.startswith(self._prefix) and path.name.endswith(_SUFFIX)
            if ours and path != self._name:
                found |= _read(path)
        return found

    def add(self, claims: Iterable[Claim]) -> None:
        """Claim candidates; raises OSError when the disk refuses it."""
        self.own |= set(claims)
        self._write()

    def drop(self, claims: Iterable[Claim]) -> None:
        """Give claims back, held or not."""
        before = len(self.own)
        self.own -= set(claims)
        if len(self.own) < before:
            self._write()

    def close(self) -> None:
        """Give all claims back and remove the file."""
        if self._file is not None and self._name is not None:
            self._name.unlink(missing_ok=True)
            self._file.close()
        self._file = self._name = None
        self.own.clear()

    def _write(self) -> None:
        if self.hidden:
            return
        if self._file is None:
            try:
                descriptor, name = tempfile.mkstemp(_SUFFIX, self._prefix, self._folder)
            except OSError as error:
                if error.errno not in _NOT_WRITABLE:
                    raise
                self.hidden = True
                return
            self._file, self._name = os.fdopen(descriptor, "r+b", buffering=0), Path(name)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._file.seek(0)
        self._file.truncate()
        self._file.write("".join(f"{c.workload} {c.candidate}\n" for c in self.own).encode())


def _read(path: Path) -> set[Claim]:
    """The claims in a live tuner's file; a dead one's file is removed."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                words = (line.split() for line in file.read().decode(errors="replace").splitlines())
                return {Claim(*pair) for pair in words if len(pair) == 2}
            path.unlink(missing_ok=True)
    except OSError:
        # Another tuner removed it, or it is another user's: then it is nothing to wait for.
        return set()
    return set()


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:24]  # names of files may be no text
