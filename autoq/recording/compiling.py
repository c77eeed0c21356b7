"""Compiles planned configurations ahead, on a machine that need not have the device."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass

from autoq.errors import EnvironmentFault
from autoq.kernel.source_hash import source_hash
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import Built
from autoq.measure.job import OUTSIDE, Job
from autoq.recording.bundle import BundleFolder, Compiled
from autoq.recording.plan import Planned
from autoq.search.knobs import plain_config
from autoq.templates.base import Template

# Candidates under way, and those that are written to the disk together.
_GROUP = 32


@dataclass(frozen=True)
class CompileCount:
    """Of one workload: compiled now, without a kernel, and found compiled before."""

    compiled: int
    failed: int
    known: int


def compile_ahead(
    folder: BundleFolder,
    planned: Sequence[Planned],
    templates: dict[str, Template],
    builder: Builder,
    stop: Callable[[], bool],
) -> CompileCount:
    """Compile what a folder lacks, group by group; each group is on the disk before the next.

    stop is asked between groups. Raises EnvironmentFault when the machine cannot compile.
    """
    known = {(one.template, _text(one.config)) for one in folder.compiled}
    missing = [
        one
        for one in planned
        if (one.candidate.template, _text(plain_config(one.candidate.config))) not in known
    ]
    compiled = failed = 0
    with folder.writing() as writer:
        for start in range(0, len(missing), _GROUP):
            if stop():
                break
            group = missing[start : start + _GROUP]
            jobs = {
                builder.submit(
                    Job(folder.workload, one.candidate.template, one.candidate.config)
                ): one
                for one in group
            }
            found = [_compiled(future, jobs[future], templates) for future in as_completed(jobs)]
            writer.add(found)
            failed += sum(kernel is None for _, kernel in found)
            compiled += len(found)
    return CompileCount(compiled, failed, len(planned) - len(missing))


def _compiled(
    future: Future[Built], planned: Planned, templates: dict[str, Template]
) -> tuple[Compiled, object]:
    built = future.result()
    if built.death == OUTSIDE:
        raise EnvironmentFault(f"a compiler was ended from outside: {built.message}")
    template = templates[planned.candidate.template]
    config = plain_config(planned.candidate.config)
    what = Compiled(
        template.name, template.version, config, planned.drawn,
        source_hash(template.build.__module__), None, built.message,
    )  # fmt: skip
    return what, built.kernel


def _text(config: object) -> str:
    return json.dumps(config, sort_keys=True)
