"""Tables of record files for `autoq logs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autoq.records.journal import Lines
from autoq.records.record import Record
from autoq.report.text import counts, duration, table, tera


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


def best_table(records: Sequence[Record]) -> str:
    """The given records, a line each."""
    header = ("workload", "device", "template", "time", "TOPS", "configuration")
    cells = [
        (r.workload, r.device.name, f"{r.template} v{r.template_version}", duration(r.seconds),
         tera(r.workload.operations / r.seconds / 1e12 if r.seconds else None),
         " ".join(f"{knob}={value}" for knob, value in r.config.items()))
        for r in records
    ]  # fmt: skip
    return table(header, cells, ("workload", "device", "template", "configuration"))
