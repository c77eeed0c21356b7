"""The tuning record: one candidate of one workload on one device, with its time or its failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autoq.records import fields as read
from autoq.records.line import BadLine, seal, unseal
from autoq.records.migration import migrated
from autoq.templates.workload import Workload
from autoq.templates.workload_key import key, to_dict

FORMAT = 1
"""Version of the line format; a line of another version is not read."""

_OPTIONAL = {
    "seconds": None, "repeats": 0, "failure": None, "message": "",
    "driver": "", "cuda": "", "tvm": "", "autoq": "",
}  # fmt: skip
_REQUIRED = (
    "format", "workload", "template", "template_version", "config", "device", "arch", "time",
)  # fmt: skip
_OLDER = frozenset((*_REQUIRED, *_OPTIONAL))
"""Fields of lines without a checksum."""

_NEWER = {"confirmed": False, "overlapped": False}

_LONGEST_MESSAGE = 10_000


@dataclass(frozen=True)
class Device:
    """What a candidate ran on; records of another name or arch are never used.

    arch is that of `Target.arch`; driver and cuda are versions, empty for the CPU.
    """

    name: str
    arch: str
    driver: str = ""
    cuda: str = ""


def identity(
    workload_key: str, template: str, version: int, config: Mapping[str, Any], device: Device
) -> str:
    """What a record measures, as one line: knobs of a template's version on a device."""
    what = [workload_key, template, version, dict(config), device.name, device.arch]
    return json.dumps(what, sort_keys=True)


@dataclass(frozen=True)
class Record:
    """One trial.

    config holds the knob values of `template`; `seconds` is the median of `repeats` timings, or
    None with the `failure` kind (one of `search.FAILURES`) and a one-line `message`. `time` is
    UTC in ISO 8601. A `confirmed` record is of a comparison: its candidate was timed again, in turn
    with the untuned default and the other candidates whose records carry the same `time`. The
    `seconds` of an `overlapped` record are what a launch adds where launches overlap, as they do
    in a network; others run from a kernel's start to its end.
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
    overlapped: bool = False

    @cached_property
    def workload_key(self) -> str:
        """The workload's stable one-line key."""
        return key(self.workload)

    @cached_property
    def identity(self) -> str:
        """What was measured, as one line: workload, template, version, knobs, device and arch."""
        return identity(
            self.workload_key, self.template, self.template_version, self.config, self.device
        )

    @property
    def order(self) -> tuple[bool, float]:
        """What timed records of a workload are sorted by: those of a network before others."""
        if self.seconds is None:
            raise ValueError(f"{self.identity} has no time")
        return not self.overlapped, self.seconds

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
            fields |= {"failure": self.failure, "message": _storable(self.message)}
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
        if self.overlapped:
            fields["overlapped"] = True
        return seal(fields)

    @staticmethod
    def from_line(line: str | bytes) -> Record:
        """The record that `to_line` wrote; unknown fields of a later autoq are passed over.

        A line without a checksum, which an older autoq wrote, holds no unknown fields. Knobs in the
        form of an earlier version of their template get the present one (`migration.py`).

        Raises BadLine, a RecordError of one line, for anything else.
        """
        data = line.encode(errors="surrogatepass") if isinstance(line, str) else line
        fields, sealed = unseal(data)
        if "format" not in fields:
            raise BadLine("not a tuning record", "no field 'format'")
        if type(fields["format"]) is not int or fields["format"] != FORMAT:
            raise BadLine(
                "of another format", f"format {fields['format']!r}; this autoq reads {FORMAT}"
            )
        unknown = set(fields) - _OLDER
        if unknown and not sealed:
            raise BadLine("without a checksum", f"and with an unknown field {min(unknown)!r}")
        return _from_fields({**_OPTIONAL, **_NEWER, **fields})


def _storable(message: str) -> str:
    """The beginning of a compiler's message, bytes that are no text written out."""
    return message[:_LONGEST_MESSAGE].encode(errors="backslashreplace").decode()


def _from_fields(fields: Mapping[str, Any]) -> Record:
    missing = _OLDER - fields.keys()
    if missing:
        raise BadLine("a field is missing", min(missing))
    if (fields["seconds"] is None) == (fields["failure"] is None):
        raise BadLine("invalid field", "exactly one of seconds and failure is needed")
    template = read.label(fields, "template")
    version, config = migrated(
        template, read.count(fields, "template_version"), read.config(fields["config"])
    )
    return Record(
        workload=read.workload(fields["workload"]),
        template=template,
        template_version=version,
        config=config,
        device=Device(*(read.label(fields, name) for name in ("device", "arch", "driver", "cuda"))),
        time=read.instant(fields, "time"),
        seconds=read.seconds(fields["seconds"]),
        failure=read.failure(fields["failure"]),
        message=read.text(fields, "message"),
        repeats=read.count(fields, "repeats"),
        tvm=read.label(fields, "tvm"),
        autoq=read.label(fields, "autoq"),
        confirmed=read.flag(fields, "confirmed"),
        overlapped=read.flag(fields, "overlapped"),
    )
