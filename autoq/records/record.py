"""The tuning record: one candidate of one workload on one device, with its time or its failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any

from autoq.errors import RecordError
from autoq.search.trial import FAILURES
from autoq.templates.workload import Workload, from_dict, key, to_dict

FORMAT = 1
"""Version of the line format; a line of another version is not read."""

_OPTIONAL = {
    "message": "", "repeats": 0, "driver": "", "cuda": "", "tvm": "", "autoq": "",
    "confirmed": False,
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """What a candidate ran on; records of another name or arch are never used.

    arch is that of `Target.arch`; driver and cuda are versions, empty for the CPU.
    """

    name: str
    arch: str
    driver: str = ""
    cuda: str = ""


@dataclass(frozen=True)
class Record:
    """One trial.

    config holds the knob values of `template`; `seconds` is the median of `repeats` timings, or
    None with the `failure` kind (one of `search.FAILURES`) and a one-line `message`. `time` is
    UTC in ISO 8601. A `confirmed` record is of a comparison: its candidate was timed again, in turn
    with the untuned default and the other candidates whose records carry the same `time`.
    """

    workload: Workload
    template: str
    template_version: int
    config: Mapping[str, Any] = field(hash=False)
    device: Device
    time: str
    seconds: float | None = None
    failure: str | None = None
    message: str = ""
    repeats: int = 0
    tvm: str = ""
    autoq: str = ""
    confirmed: bool = False

    @cached_property
    def workload_key(self) -> str:
        """The workload's stable one-line key."""
        return key(self.workload)

    @cached_property
    def identity(self) -> str:
        """What was measured, as one line: workload, template, version, knobs, device and arch."""
        what = [
            self.workload_key,
            self.template,
            self.template_version,
            dict(self.config),
            self.device.name,
            self.device.arch,
        ]
        return json.dumps(what, sort_keys=True)

    def to_line(self) -> str:
        """The record as one JSON line, without the newline."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "workload": to_dict(self.workload),
            "template": self.template,
            "template_version": self.template_version,
            "config": dict(self.config),
        }
        if self.seconds is not None:
            fields |= {"seconds": self.seconds, "repeats": self.repeats}
        else:
            fields |= {"failure": self.failure, "message": self.message}
        fields |= {
            "device": self.device.name,
            "arch": self.device.arch,
            "driver": self.device.driver,
            "cuda": self.device.cuda,
            "tvm": self.tvm,
            "autoq": self.autoq,
            "time": self.time,
        }
        if self.confirmed:
            fields["confirmed"] = True
        return json.dumps(fields, separators=(",", ":"))

    @staticmethod
    def from_line(line: str | bytes) -> Record:
        """The record that `to_line` wrote; unknown fields are passed over.

        Raises RecordError, in one line, for anything else.
        """
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise RecordError(f"not JSON ({error})") from error
        if not isinstance(fields, dict) or "format" not in fields:
            raise RecordError("not a tuning record: no field 'format'")
        if fields["format"] != FORMAT:
            raise RecordError(f"format {fields['format']!r}; this autoq reads format {FORMAT}")
        try:
            return _from_fields({**_OPTIONAL, **fields})
        except KeyError as error:
            raise RecordError(f"field {error} is missing") from error
        except (TypeError, ValueError) as error:
            raise RecordError(f"invalid field: {error}") from error


def _from_fields(fields: Mapping[str, Any]) -> Record:
    seconds, failure = fields.get("seconds"), fields.get("failure")
    if (seconds is None) == (failure is None):
        raise ValueError(f"seconds {seconds!r} and failure {failure!r}: exactly one is needed")
    if seconds is not None and not (isfinite(seconds) and seconds > 0):
        raise ValueError(f"seconds {seconds!r} is not a positive number")
    if failure is not None and failure not in FAILURES:
        raise ValueError(f"failure {failure!r} is not one of {FAILURES}")
    if not isinstance(fields["confirmed"], bool):
        raise ValueError(f"confirmed {fields['confirmed']!r} is neither true nor false")
    if not isinstance(fields["config"], dict):
        raise ValueError(f"config {fields['config']!r} is not an object")
    return Record(
        workload=from_dict(fields["workload"]),
        template=str(fields["template"]),
        template_version=int(fields["template_version"]),
        config=fields["config"],
        device=Device(
            str(fields["device"]), str(fields["arch"]), str(fields["driver"]), str(fields["cuda"])
        ),
        time=str(fields["time"]),
        seconds=None if seconds is None else float(seconds),
        failure=failure,
        message=str(fields["message"]),
        repeats=int(fields["repeats"]),
        tvm=str(fields["tvm"]),
        autoq=str(fields["autoq"]),
        confirmed=fields["confirmed"],
    )
