"""What earlier recordings hold: spaces that a recording goes on with."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoq.errors import RecordError
from autoq.records.recorded_space import SUFFIX, RecordedWorkload, read_space
from autoq.templates.workload import Workload

Known = frozenset[tuple[str, int, str]]
"""Configurations that need not be measured: template, its version and the knobs as JSON."""


def known_in(paths: Sequence[Path], arch: str) -> dict[Workload, Known]:
    """What spaces of devices of an architecture hold, workload by workload.

    paths: files or folders of them. Raises RecordError for a path without a recorded space.
    """
    found: dict[Workload, set[tuple[str, int, str]]] = defaultdict(set)
    for path in paths:
        files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not files:
            raise RecordError(f"{path}: holds no recorded space (*{SUFFIX})")
        for file in files:
            space = read_space(file)
            if space.device.arch == arch:
                found[space.workload] |= {
                    known_as(t.template, t.version, t.config) for t in space.trials
                }
    return {workload: frozenset(own) for workload, own in found.items()}


def known_as(template: str, version: int, config: Mapping[str, Any]) -> tuple[str, int, str]:
    """How `Known` names a configuration."""
    return template, version, json.dumps(dict(config), sort_keys=True)


def joined(new: RecordedWorkload, old: RecordedWorkload) -> RecordedWorkload:
    """A space with what an older one of the same workload and device holds besides.

    Where both hold a configuration the new trial counts. Raises RecordError for spaces of two
    workloads or devices.
    """
    for one, other in ((new.workload, old.workload), (new.device.name, old.device.name)):
        if one != other:
            raise RecordError(f"a recorded space is of one workload on one device: {one}, {other}")
    have = {known_as(t.template, t.version, t.config) for t in new.trials}
    kept = [t for t in old.trials if known_as(t.template, t.version, t.config) not in have]
    return replace(
        new,
        trials=(*kept, *new.trials),
        first=min(new.first, old.first),
        last=max(new.last, old.last),
    )
