"""Configurations that differ from the untuned default in chosen knobs: what each is worth."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from autoq.devices import Host
from autoq.measure.job import Job
from autoq.search.knobs import plain_config
from autoq.templates.registry import matching
from autoq.templates.workload import Workload
from compared_cases.candidates import Candidate

KNOBS = "knobs"
"""The source of such a candidate."""


def knob_candidates(
    workload: Workload, host: Host, values: Mapping[str, Sequence[Any]]
) -> list[Candidate]:
    """Every legal combination of some knobs' values, the other knobs as the default has them.

    A ring that no longer fits is given the most stages that do. Raises SystemExit for a knob that
    the first template of the workload lacks, and where no combination is legal.
    """
    template = matching(workload, host.target)[0]
    space = template.space(workload, host.target)
    default = space.to_dict(template.default(workload, host.target))
    unknown = sorted(set(values) - set(default))
    if unknown:
        raise SystemExit(f"{template.name} has no knob {unknown[0]!r}; it has {', '.join(default)}")
    stages = sorted(space.knobs.get("stages", ()), reverse=True)
    found = []
    for chosen in itertools.product(*values.values()):
        knobs = {**default, **dict(zip(values, chosen, strict=True))}
        fewer = [n for n in stages if n <= knobs["stages"]] if "stages" not in values else []
        for changed in ({"stages": n} for n in fewer) if fewer else ({},):
            config = space.config_type(**{**knobs, **changed})
            if space.legal(config):
                known = space.from_dict(space.to_dict(config))
                found.append(Candidate(Job(workload, template.name, known), KNOBS))
                break
    if not found:
        raise SystemExit(f"{workload}: no configuration with {dict(values)} is legal")
    return found


def knob_times(measured: Sequence[tuple[Job, str, Any]]) -> list[dict[str, Any]]:
    """What each configuration took, in microseconds, the fastest first; None for a failure."""
    rows = [
        {"config": plain_config(job.config), "us": m.seconds and m.seconds * 1e6}
        for job, _, m in measured
    ]
    return sorted(rows, key=lambda row: row["us"] or float("inf"))
