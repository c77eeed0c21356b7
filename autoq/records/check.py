"""What is wrong with a record file, and writing it anew without that."""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autoq.errors import InputError
from autoq.process.blame import machines_fault
from autoq.records.appending import locked
from autoq.records.journal import check_writable
from autoq.records.lines import Line, collect, open_lines, printable, scan
from autoq.replace_file import replace_file

# Failures of which an earlier autoq did not ask whose fault they are.
_BLAMED = ("compile", "runtime")


@dataclass(frozen=True)
class Check:
    """What a record file holds: counts by workload, device, template and failure kind.

    problems name file, line and reason of everything that `repair` removes.
    """

    path: str
    records: int
    workloads: Counter[str]
    devices: Counter[str]
    templates: Counter[str]
    failures: Counter[str]
    repeated: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether every line is a record that says something of its candidate."""
        return not self.problems


@dataclass(frozen=True)
class Repaired:
    """What `repair` did: records kept, what was removed and why, and where the old file is."""

    records: int
    removed: tuple[str, ...]
    backup: str | None = None


def check(path: str | os.PathLike[str]) -> Check:
    """Read a record file and count; raises RecordError when it is not one."""
    with open_lines(path) as file:
        lines = list(scan(file))
    records = collect(printable(path), lines).records
    seen = Counter(record.identity for record in records if not record.confirmed)
    return Check(
        path=printable(path),
        records=len(records),
        workloads=Counter(str(record.workload) for record in records),
        devices=Counter(f"{r.device.name} ({r.device.arch})" for r in records),
        templates=Counter(f"{r.template} v{r.template_version}" for r in records),
        failures=Counter(r.failure for r in records if r.failure is not None),
        repeated=sum(count - 1 for count in seen.values()),
        problems=_problems(path, lines),
    )


def repair(path: str | os.PathLike[str]) -> Repaired:
    """Write a record file anew without its bad lines and without failures of the machine.

    Lines that stay keep their bytes. The file as it was is kept beside it as `<name>.bak`
    (`.bak.2` and so on where that exists); a file that is sound is left alone.

    Raises RecordError or InputError when it is no record file or cannot be written; it is then as
    it was.
    """
    path = Path(path)
    check_writable(path)
    collect(printable(path), _scanned(path))
    with locked(path):
        lines = _scanned(path)
        removed = _problems(path, lines)
        kept = [line for line in lines if _problem(line) is None]
        if not removed:
            return Repaired(len(kept), ())
        backup = _back_up(path)
        try:
            with replace_file(path) as file:
                file.writelines(_ended(line.data) for line in kept)
        except BaseException:
            backup.unlink(missing_ok=True)
            raise
    return Repaired(len(kept), removed, printable(backup))


def _scanned(path: Path) -> list[Line]:
    with open_lines(path) as file:
        return list(scan(file))


def _problems(path: str | os.PathLike[str], lines: Iterable[Line]) -> tuple[str, ...]:
    found = ((line.number, _problem(line)) for line in lines)
    return tuple(f"{printable(path)}:{at}: {problem}" for at, problem in found if problem)


def _problem(line: Line) -> str | None:
    """Why a line should go, None for a record of use."""
    if line.torn:
        return "torn last line (a writer was killed; the next one cuts it off)"
    if line.record is None:
        return str(line.bad)
    if line.record.failure in _BLAMED and machines_fault(line.record.message):
        return f"{line.record.failure} failure that is the machine's: {line.record.message}"
    return None


def _ended(data: bytes) -> bytes:
    return data if data.endswith(b"\n") else data + b"\n"


def _back_up(path: Path) -> Path:
    """A second name for the file, which stays when the first one gets another file."""
    place = Path(os.path.realpath(path))
    for count in itertools.count(1):
        backup = place.with_name(place.name + (".bak" if count == 1 else f".bak.{count}"))
        try:
            os.link(place, backup)
        except FileExistsError:
            continue
        except OSError:
            # A file system without hard links.
            _copy(place, backup)
        return backup
    raise AssertionError


def _copy(old: Path, new: Path) -> None:
    try:
        with open(old, "rb") as source, replace_file(new) as file:
            shutil.copyfileobj(source, file)
    except OSError as error:
        raise InputError(f"{old}: cannot be copied to {new}: {error.strerror}") from error
