"""A record file that tuners append to: JSON lines under a file lock, synced to the disk.

The way of appending follows Optuna's JournalFileBackend: a writer that is killed leaves at most a
torn last line, which readers pass over and the next writer repairs.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autoq.errors import InputError, RecordError
from autoq.paths import as_path, require_writable
from autoq.records.appending import append, is_at, last_line_start, locked, repair_end
from autoq.records.claims import Claim, Claims
from autoq.records.lines import Lines, collect, open_lines, printable, scan
from autoq.records.record import Record


@dataclass(frozen=True)
class Turn:
    """A moment in which a tuner alone has the record file.

    news: records that others appended since the last turn.
    """

    news: tuple[Record, ...]
    _claims: Claims

    def claimed_elsewhere(self) -> set[Claim]:
        """What other tuners of the file measure now."""
        return self._claims.elsewhere()

    def claim(self, claims: Iterable[Claim]) -> None:
        """Say that this tuner measures these candidates from now on."""
        self._claims.add(claims)

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Say that this tuner measures these candidates no longer."""
        self._claims.drop(claims)

    def claimed(self) -> frozenset[Claim]:
        """What this tuner has claimed and not recorded yet."""
        return frozenset(self._claims.own)


class Journal:
    """A record file open for appending, by any number of processes at once.

    Opening checks that the file is, or can become, a record file; it is created by the first
    append or turn. A file that is deleted while the journal is open is written again with all that
    it held, and one that was replaced is gone on with; `notify` is told of either in one line.

    Attributes:
        existing: what the file held when it was opened.

    Raises:
        InputError: for what is no path.
        RecordError: when the path cannot be written or holds something else.
    """

    def __init__(
        self, path: str | os.PathLike[str], notify: Callable[[str], None] = lambda text: None
    ) -> None:
        self.path = as_path(path)
        self._notify = notify
        self._claims = Claims(self.path)
        self._news: list[Record] = []
        # Held open so that what a deleted file held can still be read.
        self._file: IO[bytes] | None = None
        self._seen = 0
        check_writable(self.path)
        self.existing = Lines(printable(path), ())
        self._is_new = not self.path.exists()
        if not self._is_new:
            self._file = open_lines(self.path)
            try:
                self.existing = collect(printable(path), scan(self._file))
            except RecordError:
                self.close()
                raise
            end = self._file.tell()
            self._seen = last_line_start(self._file, end) if self.existing.torn else end

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def append(self, records: Sequence[Record]) -> None:
        """Add records after the last whole line; on return they are on the disk.

        Claims on what they measured are given back. Raises RecordError when the disk refuses.
        """
        if not records:
            return
        data = "".join(record.to_line() + "\n" for record in records).encode()
        with self._locked() as file:
            self._seen = append(file, data)
            self._claims.drop(Claim.of(r.workload_key, r.identity) for r in records)

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Have the file alone: see what others appended, and claim what they shall leave alone.

        Raises RecordError when the file cannot be written.
        """
        with self._locked():
            news, self._news = self._news, []
            was_hidden = self._claims.hidden
            yield Turn(tuple(news), self._claims)
        if self._claims.hidden and not was_hidden:
            self._notify(f"{self.path}: its folder cannot be written, so that other tuners of the "
                         "file may measure the same candidates")  # fmt: skip

    def close(self) -> None:
        """Give claims back; a file that was made here and got no record is removed."""
        file, self._file = self._file, None
        if file is None:
            return
        with file, contextlib.suppress(OSError):
            if not self._is_new or not is_at(file, self.path):
                self._claims.close()
                return
            with locked(self.path) as again:
                others = self._claims.elsewhere()
                self._claims.close()
                if not others and not os.fstat(again.fileno()).st_size:
                    self.path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """The file, its end repaired, and what others appended taken in."""
        try:
            with locked(self.path) as file:
                self._find_changes(file)
                repair_end(file)
                self._take_in(file)
                yield file
        except OSError as error:
            reason = error.strerror or error
            raise RecordError(f"{self.path}: cannot append records: {reason}") from error

    def _find_changes(self, file: IO[bytes]) -> None:
        """Notice a file that was deleted, replaced or cut since the last look."""
        size = os.fstat(file.fileno()).st_size
        if self._file is None:
            self._file = open_lines(self.path)
        elif not os.path.samestat(os.fstat(self._file.fileno()), os.fstat(file.fileno())):
            self._go_on_in(file, size)
        elif size < self._seen:
            self._notify(f"{self.path}: was cut short; records of before are missing")
        self._seen = min(self._seen, os.fstat(file.fileno()).st_size)

    def _go_on_in(self, file: IO[bytes], size: int) -> None:
        """Take another file for the one that had the name before; an empty one gets its lines."""
        old, self._file = self._file, open_lines(self.path)
        if old is None:
            return
        with old:
            if not size:
                old.seek(0)
                data = old.read()
                append(file, data)
                if data:
                    lines = data.count(b"\n")
                    self._notify(f"{self.path}: was deleted; its {lines} lines are written again")
                return
        collect(printable(self.path), scan(self._file))
        self._seen = size
        self._notify(f"{self.path}: was replaced by another file, which is gone on with")

    def _take_in(self, file: IO[bytes]) -> None:
        file.seek(self._seen)
        data = file.read()
        self._news += [line.record for line in scan(io.BytesIO(data)) if line.record is not None]
        self._seen += len(data)


def check_writable(path: Path) -> None:
    """Raise RecordError unless `path` can be read and written, or created; touches nothing."""
    try:
        require_writable(path)
    except InputError as error:
        raise RecordError(str(error)) from error
    if path.exists() and not os.access(path, os.R_OK):
        raise RecordError(f"{path}: cannot be read; check its permissions")
