"""Times by which layouts are chosen: records, their gaps filled by what a template estimates."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from autoq.devices import Host
from autoq.records.database import Database
from autoq.records.lookup import lookup
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.workload import Workload

# The re-layout of 8 x 7x7x512 bytes, graph replay on an H200.
_LEAST_SECONDS = 1.5e-6


class LayoutTimes:
    """`graph.lowering.layouts.LayoutCosts` of a host.

    A kernel's time is that of its fastest usable record, of a sibling device where its own has
    none. Without one, but with a record in another layout, it is the estimate of the template
    preferred for it, scaled to that record, if the same template is preferred in NHWC: estimates of
    different templates are not compared. A re-layout takes its bytes by the target's memory rate.
    """

    def __init__(self, host: Host, database: Database, templates: Sequence[Template]) -> None:
        self._host = host
        self._templates = templates
        self._database = database
        self._recorded = functools.cache(self._recorded_seconds)

    def seconds(self, workload: Workload) -> float | None:
        """Seconds of a kernel; None where nothing is known of it or nothing computes it."""
        recorded = self._recorded(workload)
        return self._scaled(workload) if recorded is None else recorded

    def copying_seconds(self, copy: Workload) -> float | None:
        """Seconds of a copy between layouts; None where nothing computes it."""
        target = self._host.target
        if not target.memory_rate or not matching(copy, target, self._templates):
            return None
        return max(_LEAST_SECONDS, copy.bytes / target.memory_rate)

    def _recorded_seconds(self, workload: Workload) -> float | None:
        host = self._host
        choice = lookup(self._database, workload, host.target, self._templates, host.device)
        return None if choice is None else choice.found.record.seconds

    def _scaled(self, workload: Workload) -> float | None:
        """The estimate, scaled to the first layout with a record, NHWC before others."""
        for laid in workload.laid_out():
            recorded = self._recorded(laid)
            if recorded is None:
                continue
            here, there = self._estimated(workload), self._estimated(laid)
            return None if here is None or there is None else recorded * here / there
        return None

    def _estimated(self, workload: Workload) -> float | None:
        target = self._host.target
        templates, plain = (
            matching(one, target, self._templates) for one in (workload, workload.in_nhwc)
        )
        if not templates or templates[0] is not plain[0] or templates[0].estimate is None:
            return None
        config = templates[0].default(workload, target)
        return templates[0].estimate(workload, config, target)
