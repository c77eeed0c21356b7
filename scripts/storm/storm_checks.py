"""What must hold after a kill and at the end of a round of the storm."""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Protocol

from autoq.devices import resolve
from autoq.measure.job import REGISTRY, Job, load_registry
from autoq.records import read_records
from autoq.records.record import Record
from autoq.scratch import scratch_folder
from autoq.tuning.opening import device_measurer
from autoq.tuning.options import TuneOptions

# How long processes of a killed tuner may take to notice it: a compiler finishes its kernel.
_AFTERLIFE_SECONDS = 60.0
_PROGRESS = re.compile(r"(\d+)/\d+ trials")


class Printed(Protocol):
    """What a run printed."""

    text: str
    errors: str


class Checks:
    """The records of a round and its temporary directory, watched over all its runs.

    `mark` is an environment variable by which processes of the round are known; `complaints` says
    what was wrong.
    """

    def __init__(self, records: Path, temporary: Path, target: str) -> None:
        self.records = records
        self.temporary = temporary
        self.mark = ("AUTOQ_STORM", uuid.uuid4().hex)
        self.complaints: list[str] = []
        self.trials = self.failures = 0
        self._target = target
        self._whole = b""

    @property
    def lines(self) -> int:
        """Whole lines of the record file now."""
        return self.records.read_bytes().count(b"\n") if self.records.exists() else 0

    def complain(self, text: str) -> None:
        print(f"  WRONG: {text}", flush=True)
        self.complaints.append(text)

    def after_a_run(self, printed: Printed) -> None:
        """Nothing that was there has changed, and all that was reported is there."""
        data = self.records.read_bytes() if self.records.exists() else b""
        if not data.startswith(self._whole):
            self.complain("records that were on the disk have changed")
        self._whole = data[: data.rfind(b"\n") + 1]
        reported = max((int(count) for count in _PROGRESS.findall(printed.text)), default=0)
        if self.lines < reported:
            self.complain(f"{reported} trials were reported, {self.lines} are on the disk")
        if "Traceback" in printed.errors or "Traceback" in printed.text:
            self.complain(f"a traceback: {printed.errors[-2000:]}")

    def after_a_round(self) -> None:
        """The file is whole, failures are the candidates' own, and nothing is left over."""
        found = read_records(self.records)
        self.trials = len(found.records)
        if found.rejected or found.torn:
            self.complain(f"damaged lines: {found.rejected}, torn: {found.torn}")
        twice = Counter(record.identity for record in found.records if not record.confirmed)
        if any(count > 1 for count in twice.values()):
            self.complain("a candidate was measured twice")
        self._measure_again([record for record in found.records if record.failure])
        end = time.monotonic() + _AFTERLIFE_SECONDS
        while self._alive() and time.monotonic() < end:
            time.sleep(0.1)
        if self._alive():
            self.complain(f"processes live on: {self._alive()}")
        left = sorted(path.name for path in self.temporary.rglob("*"))
        if left:
            self.complain(f"left in the temporary directory: {left}")
        hidden = [path.name for path in self.records.parent.glob(".*")]
        if hidden:
            self.complain(f"left beside the records: {hidden}")

    def _measure_again(self, failed: list[Record]) -> None:
        """Failures must be failures in peace too, of the same kind."""
        self.failures = len(failed)
        if not failed:
            return
        host, templates = resolve(self._target), load_registry(REGISTRY)
        jobs = [
            Job(
                one.workload,
                one.template,
                templates[one.template].space(one.workload, host.target).from_dict(one.config),
            )
            for one in failed
        ]
        with scratch_folder() as scratch:
            measurer = device_measurer(host, TuneOptions(trials=1), scratch)
            try:
                again = [future.result() for future in [measurer.submit(job) for job in jobs]]
            finally:
                measurer.close()
        for record, found in zip(failed, again, strict=True):
            if found.failure != record.failure:
                self.complain(
                    f"recorded as {record.failure} ({record.message}), but in peace "
                    f"{found.failure or 'right'}: {record.template} {dict(record.config)}"
                )

    def _alive(self) -> list[int]:
        """Processes of this round."""
        found = []
        wanted = f"{self.mark[0]}={self.mark[1]}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if wanted in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:  # it has just ended, or is somebody else's
                continue
        return found
