"""A recording in place of a device: measures by looking up, for tests and search experiments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from autoq.errors import RecordError
from autoq.measure.job import Job, Measurement, Timing
from autoq.records.record import Device, Record
from autoq.search.space import Space
from autoq.templates.target import Target

SpaceOf = Callable[[Any, Target], Space[Any]]


class ReplayMeasurer:
    """Answers every job from records of one device; a job without one fails as "constraints".

    Args:
        records: the recording, e.g. a whole space.
        spaces: how each template's configurations are written, by template name.
        target: what the spaces are for.

    Raises:
        RecordError: when the records are of several devices, or there are none.
    """

    pipelined = True

    def __init__(
        self, records: Iterable[Record], spaces: Mapping[str, SpaceOf], target: Target
    ) -> None:
        records = list(records)
        devices = {record.device for record in records}
        if len(devices) != 1:
            names = sorted(device.name for device in devices)
            raise RecordError(f"a replay needs records of one device, not of {names}")
        self.device: Device = devices.pop()
        self._target = target
        self._spaces = spaces
        self._written: dict[Any, Space[Any]] = {}
        self._known = {
            (record.workload, record.template, _canonical(record.config)): Measurement(
                record.seconds, record.failure, record.message, record.repeats
            )
            for record in records
        }

    def submit(self, job: Job) -> Future[Measurement]:
        """The recorded measurement, at once."""
        future: Future[Measurement] = Future()
        missing = Measurement(failure="constraints", message="not in the recording")
        future.set_result(self._known.get(self._key(job), missing))
        return future

    def compare(self, jobs: Sequence[Job], timing: Timing) -> Future[list[Measurement] | None]:
        """The recorded measurements once more."""
        future: Future[list[Measurement] | None] = Future()
        future.set_result([self.submit(job).result() for job in jobs])
        return future

    def surround(self, jobs: Iterable[Job], seconds: float | None = None) -> None:
        """Nothing: times are as they were recorded."""

    def cancel(self) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Nothing to end."""

    def _key(self, job: Job) -> tuple[Any, str, str]:
        place = (job.workload, job.template)
        if place not in self._written:
            self._written[place] = self._spaces[job.template](job.workload, self._target)
        return (*place, _canonical(self._written[place].to_dict(job.config)))


def _canonical(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True)
