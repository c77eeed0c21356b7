"""Compiling ahead: what is under way when a recording ends, and what is taken of a plan."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from autoq.devices import resolve
from autoq.measure.compile_worker import Built
from autoq.measure.job import REGISTRY, load_registry
from autoq.recording.bundle import BundleFolder
from autoq.recording.compiling import compile_ahead
from autoq.recording.plan import planned
from autoq.templates.operators.gemm import Gemm
from autoq.tuning.prepare import ModelWorkload, tunable

WORKLOAD = Gemm(m=64, n=64, k=64)
TARGET = resolve("cpu").target


class HalfDone:
    """A builder that finishes every second candidate at once and has begun none of the others."""

    def __init__(self) -> None:
        self.futures: list[Future[Built]] = []

    def submit(self, job: object) -> Future[Built]:
        future: Future[Built] = Future()
        if len(self.futures) % 2 == 0:
            future.set_result(Built(None, "refused"))
        self.futures.append(future)
        return future

    def cancel(self) -> None:
        for future in self.futures:
            future.cancel()


def plan():
    templates = load_registry(REGISTRY)
    ((_, matching),) = tunable([ModelWorkload(WORKLOAD, 1)], list(templates.values()), TARGET)
    return templates, planned(WORKLOAD, matching, TARGET, seed=0)


def test_an_ended_recording_keeps_what_was_compiled_and_drops_the_rest(tmp_path):
    templates, candidates = plan()
    builder, asked = HalfDone(), iter(np.arange(100))
    folder = BundleFolder.create(tmp_path / "one", WORKLOAD, TARGET.arch)
    count = compile_ahead(folder, candidates, templates, builder, lambda: next(asked) == 20)
    assert (count.compiled, count.failed, count.known) == (10, 10, 0)
    assert len(builder.futures) == 20 and sum(one.cancelled() for one in builder.futures) == 10
    assert len(BundleFolder(folder.folder).compiled) == 10


def test_a_plan_is_taken_as_compilers_want_for_work(tmp_path):
    templates, candidates = plan()
    taken = []

    def counted():
        for one in candidates:
            taken.append(one)
            yield one

    builder = HalfDone()
    asked = iter(np.arange(1000))
    folder = BundleFolder.create(tmp_path / "one", WORKLOAD, TARGET.arch)
    compile_ahead(folder, counted(), templates, builder, lambda: next(asked) == 100)
    assert len(taken) == 101 and len(builder.futures) == 100
