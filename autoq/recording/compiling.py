"""Compiles planned configurations ahead, on a machine that need not have the device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
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

# Candidates that are compiled or wait for it: enough that no compiler waits for a plan.
_UNDER_WAY = 64


@dataclass(frozen=True)
class CompileCount:
    """Of one workload: compiled now, without a kernel, and found compiled before."""

    compiled: int
    failed: int
    known: int


def compile_ahead(
    folder: BundleFolder,
    planned: Iterable[Planned],
    templates: dict[str, Template],
    builder: Builder,
    stop: Callable[[], bool],
) -> CompileCount:
    """Compile what a folder lacks; planned is taken from as compilers come to want for work.

    Whatever is compiled is on the disk before more is submitted. stop is asked before that; then
    what no compiler has begun is dropped. Raises EnvironmentFault when the machine cannot compile.
    """
    known = {(one.template, _text(one.config)) for one in folder.compiled}
    under_way: dict[Future[Built], Planned] = {}
    counts = Counter[str]()

    def write(return_when: str) -> None:
        done, _ = wait(under_way, return_when=return_when)
        found = [_compiled(future, under_way.pop(future), templates) for future in done]
        writer.add(found)
        counts["compiled"] += len(found)
        counts["failed"] += sum(kernel is None for _, kernel in found)

    with folder.writing() as writer:
        for one in planned:
            if stop():
                builder.cancel()
                for dropped in [future for future in under_way if future.cancelled()]:
                    del under_way[dropped]
                break
            candidate = one.candidate
            if (candidate.template, _text(plain_config(candidate.config))) in known:
                counts["known"] += 1
                continue
            job = Job(folder.workload, candidate.template, candidate.config)
            under_way[builder.submit(job)] = one
            if len(under_way) == _UNDER_WAY:
                write(FIRST_COMPLETED)
        if under_way:
            write(ALL_COMPLETED)
    return CompileCount(counts["compiled"], counts["failed"], counts["known"])


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
        source_hash(template.module), None, built.message,
    )  # fmt: skip
    return what, built.kernel


def _text(config: object) -> str:
    return json.dumps(config, sort_keys=True)
