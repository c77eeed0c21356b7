"""Tables of record files for `autoq logs`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from autoq.records.check import Check, Repaired
from autoq.records.lines import Lines
from autoq.records.record import Record
from autoq.report.text import counts, duration, knobs_text, table, tera


def files_table(files: Sequence[Lines]) -> str:
    """What each record file holds, a line a file and device."""
    header = ("file", "device", "arch", "records", "failed", "workloads", "templates")
    cells = []
    for lines in files:
        devices = Counter((r.device.name, r.device.arch) for r in lines.records)
        for name, arch in devices:
            own = [r for r in lines.records if (r.device.name, r.device.arch) == (name, arch)]
            cells.append(
                (lines.path, name, arch, len(own), sum(r.seconds is None for r in own),
                 len({r.workload_key for r in own}), counts(Counter(r.template for r in own)))
            )  # fmt: skip
    if not cells:
        return "no tuning records"
    return table(header, cells, ("file", "device", "arch", "templates"))


def skipped_text(lines: Lines) -> str:
    """How many lines of a file are not used, and why, in one line."""
    return (
        f"{lines.path}: lines not used: {counts(lines.skipped)}; "
        f"`autoq logs check` names them, with --repair it removes them"
    )


def check_text(found: Check) -> str:
    """What a file holds in one line, and a line for everything that is wrong with it."""
    state = "sound" if found.sound else "damaged"
    failures = sum(found.failures.values())
    head = (
        f"{found.path}: {state}, {found.records} records, {failures} failed trials, "
        f"{found.repeated} repeated"
    )
    return "\n".join([head, *(f"  {problem}" for problem in found.problems)])


def repaired_text(path: str | os.PathLike[str], repaired: Repaired) -> str:
    """What was removed from a file, line by line, and where the file is as it was."""
    head = f"{path}: {repaired.records} records"
    if not repaired.removed:
        return f"{head}, sound"
    head += f", {len(repaired.removed)} lines removed; as it was: {repaired.backup}"
    return "\n".join([head, *(f"  {problem}" for problem in repaired.removed)])


def best_table(records: Sequence[Record]) -> str:
    """The given records, a line each."""
    if not records:
        return "no timed records"
    header = ("workload", "device", "template", "time", "TOPS", "configuration")
    cells = [
        (r.workload, r.device.name, f"{r.template} v{r.template_version}", duration(r.seconds),
         tera(r.workload.operations / r.seconds / 1e12 if r.seconds else None),
         knobs_text(r.config))
        for r in records
    ]  # fmt: skip
    return table(header, cells, ("workload", "device", "template", "configuration"))
