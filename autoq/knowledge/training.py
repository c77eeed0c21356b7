"""Models from files: recorded spaces, and records of tuning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from autoq.errors import RecordError
from autoq.knowledge.lessons import Lesson, lesson, shape_of
from autoq.knowledge.model import KnowledgeModel, trained
from autoq.records.lines import read_records
from autoq.records.record import Record
from autoq.records.recorded_space import SUFFIX, RecordedWorkload, of_records, read_space
from autoq.records.siblings import siblings
from autoq.replaying.loading import target_of
from autoq.templates.base import Template

# A workload teaches something from so many trials on.
_LEAST_TRIALS = 4


def gathered(paths: Sequence[Path]) -> list[RecordedWorkload]:
    """The workloads of recorded spaces and of record files, each with all its trials.

    Trials of one workload on one device in several files are put together; those of records come
    before those of spaces, since a comparison may have followed them.
    """
    records: dict[tuple[str, str, str, bool], list[Record]] = defaultdict(list)
    found: list[RecordedWorkload] = []
    for path in paths:
        if path.name.endswith(SUFFIX):
            found.append(read_space(path))
            continue
        for record in read_records(path).records:
            device = record.device
            place = record.workload_key, device.name, device.arch, record.overlapped
            records[place].append(record)
    for own in records.values():
        trials = [one for one in own if not one.confirmed]
        if trials:
            found.append(of_records(trials))
    return [one for one in found if len(one.trials) >= _LEAST_TRIALS]


def lessons_of(
    spaces: Sequence[RecordedWorkload], templates: Mapping[str, Template]
) -> list[Lesson]:
    """The lessons of spaces; those of other versions of all their templates give none."""
    found = [lesson(one, templates, target_of(one)) for one in spaces]
    return [one for one in found if one is not None]


def model_of(
    paths: Sequence[Path],
    templates: Mapping[str, Template],
    seed: int = 0,
    nthread: int = 1,
    decides: Mapping[str, float] | None = None,
    without: Collection[str] = (),
) -> KnowledgeModel:
    """A model of all trials in files, which must be of one device or of several with one chip.

    It is named after the device with the most workloads. decides: as in `model.About`. without:
    shapes (`lessons.shape_of`) that it is to have seen no workload of. Raises RecordError for files
    of different chips, or with nothing to learn from.
    """
    spaces = [one for one in gathered(paths) if shape_of(one.workload) not in without]
    if not spaces:
        raise RecordError(f"nothing to learn from: no workload has {_LEAST_TRIALS} trials")
    devices = Counter((one.device.name, one.device.arch) for one in spaces)
    device = max(sorted(devices), key=devices.__getitem__)
    if any(name not in (device[0], *siblings(device[0])) for name, _ in devices):
        named = ", ".join(sorted(name for name, _ in devices))
        raise RecordError(f"a model is of one device; the records are of {named}")
    versions = {name: template.version for name, template in templates.items()}
    date = max(one.last for one in spaces)
    return trained(lessons_of(spaces, templates), *device, versions, date, seed, nthread, decides)
