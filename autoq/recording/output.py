"""What a recording leaves of a workload: its trials line by line, and the space made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoq.recording.known import joined
from autoq.recording.naming import file_name
from autoq.records.lines import read_records
from autoq.records.recorded_space import (
    SUFFIX,
    RecordedWorkload,
    drawn_in,
    of_records,
    read_space,
    write_space,
)
from autoq.records.t4 import to_t4
from autoq.replace_file import replace_file
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Written:
    """The space of a workload as it is now: its file and bytes."""

    space: RecordedWorkload
    path: Path
    size: int


def journal_path(folder: Path, workload: Workload) -> Path:
    """Where the trials of a workload are appended."""
    return folder / f"{file_name(workload)}.jsonl"


def earlier_space(folder: Path, workload: Workload) -> RecordedWorkload | None:
    """The space of a workload that a folder holds; None where there is none yet."""
    path = folder / (file_name(workload) + SUFFIX)
    return read_space(path) if path.exists() else None


def write_spaces(
    folder: Path,
    workloads: Sequence[Workload],
    drawn: Mapping[str, str],
    export: Sequence[str],
) -> list[Written]:
    """Write the space of every workload that has trials, beside its record file.

    drawn: how configurations were drawn, by `Record.identity`; what an older space in the folder
    holds besides stays. Raises RecordError for trials of several devices, InputError for a file
    that cannot be written.
    """
    written = []
    for workload in workloads:
        path = journal_path(folder, workload)
        if not path.exists():
            continue
        records = read_records(path).records
        if not records:
            continue
        target = path.with_name(file_name(workload) + SUFFIX)
        before = earlier_space(folder, workload)
        space = of_records(records, {**(drawn_in(before) if before else {}), **drawn})
        space = joined(space, before) if before else space
        written.append(Written(space, target, write_space(target, space)))
        if "t4" in export:
            with replace_file(target.with_name(file_name(workload) + ".t4.json")) as file:
                file.write(json.dumps(to_t4(space)).encode())
    return written
