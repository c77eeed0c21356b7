"""Records of several files together, and which of them may be used on a device."""

from __future__ import annotations

import functools
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from autoq.errors import RecordError
from autoq.records.lines import Lines, parse_records, read_records
from autoq.records.record import Record
from autoq.records.siblings import siblings
from autoq.records.standing import superseded
from autoq.templates.workload import Workload
from autoq.templates.workload_key import key

SHIPPED = "shipped:"
"""Prefix of the source of a record that came with autoq."""


@dataclass(frozen=True)
class Found:
    """A record and the file it came from."""

    record: Record
    source: str

    @property
    def shipped(self) -> bool:
        """Whether it came with autoq."""
        return self.source.startswith(SHIPPED)


@dataclass(frozen=True)
class Conditions:
    """What a record must match to be used.

    arch: of the target; device: its name, None when compiling for a device that is not here (any
    device of the arch then counts); versions: the present version of each template by name;
    overlapped: how a time was taken, as `Record` says, None where either serves.
    """

    arch: str
    device: str | None
    versions: Mapping[str, int]
    overlapped: bool | None = None

    def objection(self, record: Record) -> str | None:
        """Why a record must not be used, as a short reason to count; None when it may."""
        if record.device.arch != self.arch:
            return f"of arch {record.device.arch}, not {self.arch}"
        if self.device is not None and record.device.name != self.device:
            return f"of device {record.device.name}, not {self.device}"
        version = self.versions.get(record.template)
        if version is None:
            return f"of unknown template {record.template}"
        if record.template_version != version:
            return f"of {record.template} version {record.template_version}, not {version}"
        if self.overlapped not in (None, record.overlapped) and record.seconds is not None:
            ways = ("from start to end", "where launches overlap")
            return f"timed {ways[record.overlapped]}, not {ways[not record.overlapped]}"
        return None


class Database:
    """The records of several files, by workload."""

    def __init__(self, files: Sequence[Lines]) -> None:
        self.files = tuple(files)
        self._by_workload: dict[str, list[Found]] = defaultdict(list)
        for lines in files:
            for record in lines.records:
                self._by_workload[record.workload_key].append(Found(record, lines.path))

    @classmethod
    def load(
        cls,
        paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
        shipped: bool = False,
    ) -> Database:
        """The records of `paths` (or of one path), and those that come with autoq when `shipped`.

        Raises RecordError for a path that is no record file.
        """
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        if not (
            isinstance(given, Iterable) and all(isinstance(p, str | os.PathLike) for p in given)
        ):
            raise RecordError(f"record files {paths!r:.80}: a path or a sequence of paths does")
        files = [read_records(path) for path in given]
        return cls([*files, *(shipped_records() if shipped else ())])

    def __len__(self) -> int:
        return sum(len(found) for found in self._by_workload.values())

    def __iter__(self) -> Iterator[Found]:
        for found in self._by_workload.values():
            yield from found

    def usable(self, workload: Workload, conditions: Conditions) -> list[Found]:
        """The usable records of a workload, failures included, in file order."""
        found = self._by_workload.get(key(workload), [])
        return [one for one in found if conditions.objection(one.record) is None]

    def ranked(self, workload: Workload, conditions: Conditions) -> list[Found]:
        """The usable timed records of a workload: fastest first, the user's before shipped.

        Records that a comparison in their own file supersedes come after those that stand, and
        times from start to end, which do not compare with them, after those of a network.
        """
        by_source: dict[str, list[Found]] = defaultdict(list)
        for one in self.usable(workload, conditions):
            by_source[one.source].append(one)
        ranked: list[tuple[bool, bool, tuple[bool, float], Found]] = []
        for found in by_source.values():
            old = superseded(one.record for one in found)
            ranked += [
                (one.shipped, behind, one.record.order, one)
                for one, behind in zip(found, old, strict=True)
                if one.record.seconds is not None
            ]
        return [one for *_, one in sorted(ranked, key=lambda item: item[:3])]

    def best(self, workload: Workload, conditions: Conditions) -> Found | None:
        """The fastest usable record of a workload, and where it came from."""
        return next(iter(self.ranked(workload, conditions)), None)

    def lent(self, workload: Workload, conditions: Conditions) -> list[Found]:
        """The shipped timed records that siblings of the device have of a workload, best first.

        Their times are another device's; what they say is which kernel is worth taking.
        """
        names = () if conditions.device is None else siblings(conditions.device)
        return [
            one
            for name in names
            for one in self.ranked(workload, replace(conditions, device=name))
            if one.shipped
        ]

    def skipped(self, conditions: Conditions) -> Counter[str]:
        """How many given records may not be used, and lines are not records, by reason.

        Shipped records are of many devices by design and not counted.
        """
        reasons: Counter[str] = Counter()
        for one in self:
            if one.shipped:
                continue
            reason = conditions.objection(one.record)
            if reason is not None:
                reasons[reason] += 1
        for lines in self.files:
            reasons += lines.skipped
        return reasons


@functools.cache
def shipped_records() -> tuple[Lines, ...]:
    """The record files that come with autoq (`tuning_logs/<device>/*.jsonl`), sorted by name.

    Recorded spaces, which lie elsewhere, are for experiments and for models.
    """
    files = []
    for folder in sorted(resources.files("autoq.tuning_logs").iterdir(), key=lambda f: f.name):
        if not folder.is_dir():
            continue
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            if file.name.endswith(".jsonl"):
                name = f"{SHIPPED}{folder.name}/{file.name}"
                files.append(parse_records(name, file.read_bytes()))
    return tuple(files)
