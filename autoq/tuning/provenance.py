"""What every record of a run carries beside its measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from autoq.measure.job import Measurement
from autoq.records.record import Device, Record
from autoq.templates.base import Template
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Provenance:
    """What every record of a run carries beside its measurement."""

    device: Device
    tvm: str
    autoq: str
    overlapped: bool = False

    def record(
        self,
        workload: Workload,
        template: Template,
        config: Mapping[str, Any],
        found: Measurement,
        now: datetime,
    ) -> Record:
        """The record of a measured configuration; config holds its knobs by name."""
        return Record(
            workload=workload,
            template=template.name,
            template_version=template.version,
            config=config,
            device=self.device,
            time=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            seconds=found.seconds,
            failure=found.failure,
            message=found.message,
            repeats=found.repeats,
            tvm=self.tvm,
            autoq=self.autoq,
            overlapped=self.overlapped and found.seconds is not None,
        )
