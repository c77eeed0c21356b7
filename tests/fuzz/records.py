"""Mangled record files through every verb that reads them.

What must hold: of lines that have a checksum all that are whole are read and no others, whatever
stands beside them; a verb ends with its result, or in one line with exit code 2; a repair removes
what `check` names and leaves the bytes of good lines.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from pathlib import Path

import numpy as np

from autoq.errors import RecordError
from autoq.records import Lines, Record, read_records
from autoq.records.database import shipped_records
from fuzz.record_checks.files import Rng, mangled
from fuzz.record_checks.users import compile_with, layers, replayed, tune_in
from fuzz.record_checks.verbs import CHECKS

LIMIT_SECONDS = 60


@functools.cache
def _shipped() -> tuple[Record, ...]:
    return tuple(record for lines in shipped_records() for record in lines.records)


def _draw(rng: Rng, pool: tuple[Record, ...]) -> list[Record]:
    size = int(rng.integers(min(len(pool), 12)))
    return [pool[int(at)] for at in rng.choice(len(pool), size, replace=False)]


def _older(line: str) -> str:
    """The line as an autoq without checksums wrote it."""
    return line[: line.rindex(',"crc32"')] + "}"


def case(rng: np.random.Generator, folder: Path) -> None:
    """A mangled file, read, then given to some of the verbs."""
    kind = int(rng.choice(3, p=(0.5, 0.45, 0.05)))
    records = _draw(rng, (replayed, _shipped, layers)[kind]())
    older = rng.random() < 0.2
    if older:  # an autoq without checksums made no comparisons, and overlapped no launches
        none = {"confirmed": False, "overlapped": False}
        records = [dataclasses.replace(record, **none) for record in records]
    lines = [record.to_line() for record in records]
    good = {
        (_older(line) if older else line).encode(): record
        for line, record in zip(lines, records, strict=True)
    }
    data, free = mangled(rng, list(good))
    path = folder / "log.jsonl"
    path.write_bytes(data)
    found = _check_reading(path, data, good, None if older else free)
    for at in rng.choice(len(CHECKS), 2, replace=False):
        CHECKS[int(at)](folder, path, found)
    if kind == 0 and rng.random() < 0.3:
        tune_in(folder, path, found)
    if kind == 2:
        compile_with(folder, path, found)
    assert path.read_bytes() == data


def _check_reading(
    path: Path, data: bytes, good: dict[bytes, Record], free: set[bytes] | None
) -> Lines | None:
    """The file's records, None when it is refused; free None allows other records anywhere."""
    pieces = [piece.strip(b" \t\r") for piece in data.split(b"\n")]
    expected = [good[piece] for piece in pieces if piece in good]
    try:
        found = read_records(path)
    except RecordError as error:
        assert not expected, f"refused with {len(expected)} good lines: {error}"
        assert "\n" not in str(error) and str(path) in str(error), str(error)
        return None
    extra = [record for record in found.records if record not in expected]
    for record in expected:
        assert record in found.records, f"a good line is not read: {record}"
    if free is not None:
        allowed = [r for r in map(_read_or_none, free) if r is not None]
        for record in extra:
            assert record in allowed, f"a damaged line is used: {record}"
    for record in extra:
        _check_record(record)
    return found


def _read_or_none(line: bytes) -> Record | None:
    try:
        return Record.from_line(line)
    except RecordError:
        return None


def _check_record(record: Record) -> None:
    """A record that the verbs can rely on."""
    assert (record.seconds is None) != (record.failure is None)
    assert record.seconds is None or (
        type(record.seconds) is float and 1e-9 <= record.seconds <= 1e6
    )
    assert type(record.template_version) is int and type(record.repeats) is int
    assert all(type(text) is str for text in (record.template, record.message, record.time))
    json.dumps(record.workload_key + record.identity).encode()
    assert math.isfinite(record.workload.operations / 1e-9)
