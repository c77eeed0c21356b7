"""What knowing a weight's zeros came to: which kernel a layer has, and what others would take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.compilation.selection import TemplateSelection
from autoq.devices import Host
from autoq.records.database import Database
from autoq.records.lookup import Choice, lookup
from autoq.templates.base import Template
from autoq.templates.registry import matching


def zero_choices(
    selections: Sequence[object], host: Host, database: Database, templates: Sequence[Template]
) -> dict[str, str]:
    """A line for each layer whose workload knows its weight's zeros, by the layer's name."""
    return {
        item.node.name: _line(item, host, database, templates)
        for item in selections
        if isinstance(item, TemplateSelection) and item.node.workload.dense != item.node.workload
    }


def _line(
    chosen: TemplateSelection, host: Host, database: Database, templates: Sequence[Template]
) -> str:
    workload, target = chosen.node.workload, host.target
    weight = np.asarray(chosen.node.constants["weight"])
    share = np.count_nonzero(weight) / weight.size
    dense = matching(workload.dense, target, templates)
    sparse = [one for one in matching(workload, target, templates) if one not in dense]
    known = f"{share:.1%} of its weight is not zero ({workload})"
    best = {}
    for name, own in (("knowing that", sparse), ("dense", dense)):
        for asked in (workload, *workload.knowing_less):
            found = lookup(database, asked, target, own, host.device)
            if found is not None:
                best[name] = found
                break
    if len(best) < 2:
        without = " and ".join(name for name in ("knowing that", "dense") if name not in best)
        return f"{known}: {chosen.template}, since no kernel {without} is measured; autoq tune does"
    fastest = sorted(best.values(), key=lambda one: one.found.record.seconds)
    times = ", ".join(_time(one, host.device) for one in fastest)
    return f"{known}: {times}"


def _time(choice: Choice, device: str | None) -> str:
    record = choice.found.record
    where = "" if device in (None, record.device.name) else f" on {record.device.name}"
    return f"{choice.template.name} takes {record.seconds * 1e6:.1f} us{where}"
