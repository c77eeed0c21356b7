"""What `autoq logs` makes of record files: merge, best and export."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoq.records.appending import locked
from autoq.records.journal import check_writable
from autoq.records.lines import Lines, read_records
from autoq.records.record import Record
from autoq.records.standing import standing
from autoq.replace_file import replace_file

CSV_COLUMNS = (
    "operator", "workload", "template", "template_version", "config", "seconds", "tops",
    "failure", "message", "repeats", "device", "arch", "driver", "cuda", "tvm", "autoq", "time",
    "confirmed", "overlapped",
)  # fmt: skip


def distinct(records: Iterable[Record]) -> list[Record]:
    """Records without repetitions.

    Of equal identities the newest confirmed one stays, else a timed one, else the first.
    """
    kept: dict[str, Record] = {}
    for record in records:
        old = kept.get(record.identity)
        if old is None or _replaces(record, old):
            kept[record.identity] = record
    return list(kept.values())


def _replaces(record: Record, old: Record) -> bool:
    if record.confirmed or old.confirmed:
        return record.confirmed and (not old.confirmed or record.time > old.time)
    return old.seconds is None and record.seconds is not None


def best_records(records: Iterable[Record]) -> list[Record]:
    """The fastest record of each workload, device and template version, by `Record.order`.

    Every template and version keeps its own, since the fastest may be of a version that is no
    longer used; a template of the newest comparison keeps what it reached there.
    """
    best: dict[tuple[str, ...], Record] = {}
    for record in _standing_by_version(records):
        if record.seconds is None:
            continue
        template = f"{record.template} v{record.template_version}"
        place = (record.workload_key, record.device.name, record.device.arch, template)
        old = best.get(place)
        if old is None or record.order < old.order:
            best[place] = record
    return list(best.values())


def _standing_by_version(records: Iterable[Record]) -> list[Record]:
    """Records that stand among those of their template's version."""
    versions: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        versions.setdefault((record.template, record.template_version), []).append(record)
    return [record for own in versions.values() for record in standing(own)]


@dataclass(frozen=True)
class Merged:
    """What was merged: how many records were written, and what was read."""

    records: int
    files: tuple[Lines, ...]


def merge(
    paths: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    best_only: bool = False,
) -> Merged:
    """Write the distinct (or, with best_only, the fastest) records of `paths` to a new file.

    Raises RecordError for an input that is no record file, InputError for an output that cannot be
    written; an existing output is replaced as a whole, or not at all.
    """
    output = Path(output)
    check_writable(output)
    with contextlib.ExitStack() as held:
        if output.exists():  # Its own tuner may be at work.
            held.enter_context(locked(output))
        files = tuple(read_records(path) for path in paths)
        records = distinct(record for lines in files for record in lines.records)
        if best_only:
            records = best_records(records)
        with replace_file(output) as file:
            file.writelines(f"{record.to_line()}\n".encode() for record in records)
    return Merged(len(records), files)


def export_csv(records: Iterable[Record]) -> str:
    """The records as comma-separated values with a header line; see CSV_COLUMNS."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for r in records:
        tops = r.workload.operations / r.seconds / 1e12 if r.seconds else ""
        config = " ".join(f"{name}={value}" for name, value in r.config.items())
        writer.writerow(
            [r.workload.operator, str(r.workload), r.template, r.template_version,
             config, r.seconds, tops, r.failure, r.message, r.repeats, r.device.name,
             r.device.arch, r.device.driver, r.device.cuda, r.tvm, r.autoq, r.time, r.confirmed,
             r.overlapped]
        )  # fmt: skip
    return text.getvalue()
