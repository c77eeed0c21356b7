"""Which records of a workload stand: those of the newest comparison, where there was one.

A time that was measured once, at a lucky moment, does not outlive a comparison in which the best
candidates and the untuned default were timed in turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from autoq.records.record import Record


def superseded(records: Iterable[Record]) -> list[bool]:
    """For each record of one file, whether a comparison of its workload stands in its place.

    Records of one comparison are `confirmed` and share their time. Those of a workload's newest
    comparison on a device stand, timed or not, and all others of the workload and device are
    superseded, whatever their seconds. Without a comparison nothing is superseded.
    """
    records = list(records)
    newest: dict[tuple[str, str, str], str] = {}
    for record in records:
        if record.confirmed and record.seconds is not None:
            newest[_place(record)] = max(record.time, newest.get(_place(record), ""))
    return [
        _place(record) in newest
        and not (record.confirmed and record.time == newest[_place(record)])
        for record in records
    ]


def standing(records: Iterable[Record]) -> list[Record]:
    """The records of one file that no comparison supersedes, in their order."""
    records = list(records)
    return [r for r, old in zip(records, superseded(records), strict=True) if not old]


def _place(record: Record) -> tuple[str, str, str]:
    return record.workload_key, record.device.name, record.device.arch
