"""A recorded space as a file: the trials of one workload on one device, column by column, in xz.

The file is one JSON object, compressed. `templates` holds for each template its knobs, the distinct
values of each, and columns with an entry for each trial: positions in those values, nanoseconds or
null, and where that is null the failure. `drawn` says how each configuration came to be recorded.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoq.errors import RecordError
from autoq.paths import content_of
from autoq.records.migration import migrated
from autoq.records.record import Device, Record, identity
from autoq.records.transform import distinct
from autoq.replace_file import replace_file
from autoq.search.trial import FAILURES
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict, key, to_dict

FORMAT = 1
SUFFIX = ".space.json.xz"
DEFAULT, UNIFORM, ESTIMATED, NEIGHBOUR = "default", "uniform", "estimated", "neighbour"
PREDICTED = "predicted"
"""How a configuration was drawn to be recorded."""

UNKNOWN = ""
"""How a configuration was drawn, where nobody noted it."""

_LARGEST_BYTES = 1 << 28


@dataclass(frozen=True)
class SpaceTrial:
    """A configuration of a template's version, its time or failure, and how it was drawn."""

    template: str
    version: int
    config: Mapping[str, Any]
    seconds: float | None
    failure: str | None
    drawn: str = UNKNOWN


@dataclass(frozen=True)
class RecordedWorkload:
    """The trials of one workload on one device.

    first and last are the times of the oldest and the newest record, as records have them.
    """

    workload: Workload
    device: Device
    trials: tuple[SpaceTrial, ...]
    first: str
    last: str
    tvm: str = ""
    autoq: str = ""

    @property
    def best_seconds(self) -> float | None:
        """The fastest time; None where nothing worked."""
        return min((t.seconds for t in self.trials if t.seconds is not None), default=None)


def of_records(
    records: Sequence[Record], drawn: Mapping[str, str] | None = None
) -> RecordedWorkload:
    """The space of the records of one workload and device; of repeated trials the first timed one.

    drawn: how configurations were drawn, by `Record.identity`. Raises RecordError for none, or for
    records of several workloads or devices.
    """
    kept = distinct(record for record in records if not record.confirmed)
    places = {(record.workload_key, record.device.name, record.device.arch) for record in kept}
    if len(places) != 1:
        raise RecordError(f"a recorded space is of one workload on one device, not {len(places)}")
    drawn = drawn or {}
    times = sorted(record.time for record in kept)
    newest = max(kept, key=lambda record: record.time)
    trials = tuple(
        SpaceTrial(r.template, r.template_version, r.config, r.seconds, r.failure,
                   drawn.get(r.identity, UNKNOWN))
        for r in kept
    )  # fmt: skip
    return RecordedWorkload(
        kept[0].workload, newest.device, trials, times[0], times[-1], newest.tvm, newest.autoq
    )


def drawn_in(space: RecordedWorkload) -> dict[str, str]:
    """How the configurations of a space were drawn, by the `Record.identity` of its trials."""
    name = key(space.workload)
    return {
        identity(name, trial.template, trial.version, trial.config, space.device): trial.drawn
        for trial in space.trials
        if trial.drawn != UNKNOWN
    }


def write_space(path: Path, space: RecordedWorkload) -> int:
    """Write a space; returns the file's bytes. Raises InputError where it cannot be written."""
    data = lzma.compress(json.dumps(_to_json(space), separators=(",", ":")).encode(), preset=9)
    with replace_file(path) as file:
        file.write(data)
    return len(data)


def read_space(path: str | os.PathLike[str]) -> RecordedWorkload:
    """The space that `write_space` wrote; raises RecordError for anything else."""
    try:
        return parse_space(str(path), content_of(path))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error


def parse_space(name: str, data: bytes) -> RecordedWorkload:
    """`read_space` of bytes in hand; `name` is for errors."""
    try:
        decompressor = lzma.LZMADecompressor()
        text = decompressor.decompress(data, _LARGEST_BYTES)
        if not decompressor.eof:
            raise ValueError("cut short, or too large")
        fields = json.loads(text)
        if fields["format"] != FORMAT:
            raise RecordError(
                f"{name}: a space of format {fields['format']!r}; this autoq reads {FORMAT}"
            )
        trials = [trial for rows in fields["templates"] for trial in _trials(rows)]
        return RecordedWorkload(
            from_dict(fields["workload"]), Device(**fields["device"]), tuple(trials),
            fields["first"], fields["last"], fields["tvm"], fields["autoq"],
        )  # fmt: skip
    except (lzma.LZMAError, ValueError, LookupError, TypeError) as error:
        raise RecordError(f"{name}: no recorded space ({error})") from error


def _to_json(space: RecordedWorkload) -> dict[str, Any]:
    by_template: dict[tuple[str, int, tuple[str, ...]], list[SpaceTrial]] = {}
    for trial in space.trials:
        kind = trial.template, trial.version, tuple(trial.config)
        by_template.setdefault(kind, []).append(trial)
    device = space.device
    return {
        "format": FORMAT,
        "workload": to_dict(space.workload),
        "device": {"name": device.name, "arch": device.arch, "driver": device.driver,
                   "cuda": device.cuda},
        "first": space.first,
        "last": space.last,
        "tvm": space.tvm,
        "autoq": space.autoq,
        "templates": [_rows(*kind, trials) for kind, trials in by_template.items()],
    }  # fmt: skip


def _rows(
    name: str, version: int, knobs: tuple[str, ...], trials: Sequence[SpaceTrial]
) -> dict[str, Any]:
    columns = {}
    for knob in knobs:
        values, positions = _coded(trial.config[knob] for trial in trials)
        columns[knob] = {"values": values, "at": positions}
    drawn, positions = _coded(trial.drawn for trial in trials)
    return {
        "name": name,
        "version": version,
        "knobs": columns,
        "drawn": {"values": drawn, "at": positions},
        # A tenth of a nanosecond is less than a GPU's clock tells.
        "nanoseconds": [t.seconds if t.seconds is None else round(t.seconds * 1e9, 1)
                        for t in trials],
        "failures": [trial.failure for trial in trials if trial.seconds is None],
    }  # fmt: skip


def _coded(column: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Distinct values in the order of their first use, and the position of each entry's."""
    places: dict[str, int] = {}
    values, positions = [], []
    for value in column:
        text = json.dumps(value, sort_keys=True)
        if text not in places:
            places[text] = len(values)
            values.append(value)
        positions.append(places[text])
    return values, positions


def _trials(rows: Mapping[str, Any]) -> list[SpaceTrial]:
    failures = iter(rows["failures"])
    columns = {name: [coded["values"][i] for i in coded["at"]]
               for name, coded in rows["knobs"].items()}  # fmt: skip
    drawn = [rows["drawn"]["values"][i] for i in rows["drawn"]["at"]]
    found = []
    for i, nanoseconds in enumerate(rows["nanoseconds"]):
        knobs = {name: column[i] for name, column in columns.items()}
        version, config = migrated(rows["name"], rows["version"], knobs)
        failure = next(failures) if nanoseconds is None else None
        if failure is not None and failure not in FAILURES:
            raise ValueError(f"failure {failure!r}")
        seconds = None if nanoseconds is None else nanoseconds * 1e-9
        found.append(SpaceTrial(rows["name"], version, config, seconds, failure, drawn[i]))
    return found
