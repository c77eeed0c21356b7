"""Packs constants in processes of their own, while a device measures other candidates.

To pack 16 million weights takes a core of a server 0.1 to 0.3 s, several times what a kernel takes
to be checked and timed: a worker that packs for itself leaves its device idle.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from autoq.errors import AutoqError
from autoq.measure.arrays import random_case
from autoq.measure.job import Job, Measurement, load_registry
from autoq.measure.packed_constants import PackedConstants
from autoq.process.child import Child, Entry
from autoq.process.futures import transfer
from autoq.process.pool import ChildPool
from autoq.templates.workload import Arrays, Workload

# Below this many bytes of constants packing takes less than handing over what came of it.
_LEAST_BYTES = 1 << 18
# Packed constants that a process keeps for configurations that pack alike.
_KEPT_BYTES = 1 << 26
# Candidates for each process whose constants are packed and not yet measured with.
_AHEAD = 2
_SECONDS = 120.0
# What checks and times a candidate goes before what packs for the next ones.
_NICENESS = 10

Measure = Callable[[Path | None], "Future[Measurement]"]


@dataclass(frozen=True)
class PackingSettings:
    """What a process that packs knows: templates, the seed of constants, and where files go."""

    registry: str
    seed: int
    scratch: Path


def serve(settings: PackingSettings) -> Callable[[Job], Path]:
    """The handler of a child process: a candidate to the file of its packed constants."""
    os.nice(_NICENESS)
    templates = load_registry(settings.registry)
    last: dict[Workload, PackedConstants] = {}

    def pack(job: Job) -> Path:
        if job.workload not in last:
            _, constants = random_case(job.workload, settings.seed)
            last.clear()
            last[job.workload] = PackedConstants(job.workload, constants, _KEPT_BYTES)
        arrays = last[job.workload].of(templates[job.template], job.config)
        descriptor, name = tempfile.mkstemp(suffix=".packed", dir=settings.scratch)
        with open(descriptor, "wb") as file:
            write_packed(file, arrays)
        return Path(name)

    return pack


def write_packed(file: BinaryIO, arrays: Arrays) -> None:
    """Dtypes and shapes as JSON, then each array, all as bytes in NumPy's own form."""
    forms = json.dumps([(str(one.dtype), one.shape) for one in arrays]).encode()
    np.save(file, np.frombuffer(forms, np.uint8))
    for one in arrays:
        np.save(file, np.ascontiguousarray(one).reshape(-1).view(np.uint8))


def read_packed(path: Path) -> Arrays:
    """The constants of a file that a process of `PackingAhead` wrote."""
    with open(path, "rb") as file:
        forms = json.loads(np.load(file).tobytes())
        return tuple(np.load(file).view(dtype).reshape(shape) for dtype, shape in forms)


@dataclass(frozen=True)
class _Order:
    """A candidate that waits for its constants, and what measures it with them."""

    job: Job
    measure: Measure
    future: Future[Measurement]


class PackingAhead:
    """Candidates whose constants are packed before a device's worker gets them.

    At most two for each process are packed and wait for the device, so that what lies on the disk
    is bounded. Where a process fails, the worker packs for itself and says what is wrong.

    Args:
        settings: what the processes know.
        processes: so many pack at once.
    """

    def __init__(self, settings: PackingSettings, processes: int) -> None:
        entry = Entry("autoq.measure.packing_ahead", "serve", settings)
        environment = {"OPENBLAS_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
        self._pool = ChildPool(lambda: Child(entry, environment), processes)
        self._room = _AHEAD * processes
        self._lock = threading.Lock()
        self._waiting: deque[_Order] = deque()

    def submit(self, job: Job, measure: Measure) -> Future[Measurement]:
        """What `measure` gives for the file of a candidate's constants, which it is called with.

        It gets None where the worker had better pack for itself.
        """
        if sum(spec.bytes for spec in job.workload.constants) < _LEAST_BYTES:
            return measure(None)
        order = _Order(job, measure, Future())
        with self._lock:
            self._waiting.append(order)
        self._begin()
        return order.future

    def cancel(self) -> None:
        """Drop what is not packed yet; its futures are cancelled."""
        with self._lock:
            dropped, self._waiting = [*self._waiting], deque()
        for order in dropped:
            order.future.cancel()
        self._pool.cancel()

    def close(self) -> None:
        """End the processes."""
        self.cancel()
        self._pool.close()

    def _begin(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or not self._room:
                    return
                order = self._waiting.popleft()
                self._room -= 1
            packing = self._pool.submit(lambda child, job=order.job: child.call(job, _SECONDS))
            packing.add_done_callback(lambda done, order=order: self._packed(order, done))

    def _packed(self, order: _Order, done: Future[Path]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or not isinstance(error, AutoqError | None):
            transfer(done, order.future)
            self._make_room()
            return
        path = done.result() if error is None else None
        order.measure(path).add_done_callback(lambda found: self._measured(order, path, found))

    def _measured(self, order: _Order, path: Path | None, found: Future[Measurement]) -> None:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        self._make_room()
        transfer(found, order.future)

    def _make_room(self) -> None:
        with self._lock:
            self._room += 1
        self._begin()
