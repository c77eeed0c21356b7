"""Runs a plan on a CUDA GPU as one graph over memory that is allocated once."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import tvm.runtime

from autoq.errors import ArtifactError
from autoq.runtime.artifact import Artifact
from autoq.runtime.call_time import CallTime
from autoq.runtime.cuda.driver import Device, Event, Memory, Stream, clear
from autoq.runtime.cuda.feed import Feed
from autoq.runtime.cuda.graph import CudaGraph, begin_capture, end_capture
from autoq.runtime.cuda.kernel import BoundKernel, LoadedKernel
from autoq.runtime.kernel import CudaKernel
from autoq.runtime.plan import Port, Slot

_WARM_UP_RUNS = 2


class CudaExecutor:
    """A plan on GPU `ordinal`.

    The graph is launched into the legacy default stream, so it is ordered with the default
    stream of torch and of any other library without synchronisation.
    """

    def __init__(self, artifact: Artifact, ordinal: int = 0) -> None:
        plan = artifact.plan
        self._device = Device(ordinal)
        if self._device.arch != plan.arch:
            raise ArtifactError(
                f"the artifact was compiled for {plan.arch}, GPU {ordinal} "
                f"({self._device.name}) is {self._device.arch}; compile it with "
                f"--target cuda:{self._device.arch}"
            )
        self.readable_devices = {"cpu": None, "cuda": ordinal}
        self._plan = plan
        self._arena = _memory(plan.arena_bytes, ordinal)
        self._constants = Memory(plan.constant_bytes)
        if plan.constant_bytes:
            self._constants.write(np.ascontiguousarray(artifact.constants))
        self._bases = {"arena": self._arena.data_ptr(), "constant": self._constants.address}
        kernels = [LoadedKernel(cast("CudaKernel", kernel)) for kernel in artifact.kernels]
        self._bound = [
            kernels[call.kernel].bind([self._address(slot) for slot in call.slots])
            for call in plan.calls
        ]
        self._default = Stream.legacy()
        self._clear_what_stays_zero(artifact)
        self._graph = self._capture(self._launch_all, self._capture_all)
        ports = (*plan.inputs, *plan.outputs)
        self._views = {port.name: self._view(port.slot) for port in ports}
        self._feeds = {port.name: self._feed(port) for port in plan.inputs}

    def _clear_what_stays_zero(self, artifact: Artifact) -> None:
        for call in self._plan.calls:
            workspaces = artifact.kernels[call.kernel].workspaces
            for slot, workspace in zip(call.workspaces, workspaces, strict=True):
                if workspace.stays_zero:
                    clear(self._address(slot), slot.bytes, self._default)
        self._default.synchronize()

    def _address(self, slot: Slot) -> int:
        return self._bases[slot.space] + slot.offset

    def _view(self, slot: Slot) -> Any:
        return self._arena._create_view(slot.shape, slot.dtype, slot.offset)

    def _feed(self, port: Port) -> Feed:
        readers = [
            (bound, position)
            for bound, call in zip(self._bound, self._plan.calls, strict=True)
            for position, slot in enumerate(call.arguments)
            if (slot.space, slot.offset) == (port.slot.space, port.slot.offset)
        ]
        start = self._bases["arena"]
        arena = range(start, start + self._plan.arena_bytes)
        own = self._address(port.slot)
        return Feed(self._graph, readers, own, port.slot.bytes, arena, self._default)

    def _launch_all(self, stream: Stream) -> None:
        for bound in self._bound:
            bound.launch(stream, overlapped=True)

    def _capture_all(self, stream: Stream) -> None:
        for bound in self._bound:
            bound.capture(stream)

    def _capture(
        self, work: Callable[[Stream], None], captured: Callable[[Stream], None] | None = None
    ) -> CudaGraph:
        stream = Stream()
        for _ in range(_WARM_UP_RUNS):
            work(stream)
        stream.synchronize()
        begin_capture(stream)
        (captured or work)(stream)
        return end_capture(stream)

    def view(self, name: str) -> Any:
        """The model's own buffer of an input or output, as a DLPack tensor on the GPU."""
        return self._views[name]

    def run(self, feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
        """Run once; see `autoq.session.Session.run`."""
        on_device = True
        for name, array in feeds.items():
            on_device &= self._write(name, array)
        self._graph.replay(self._default)
        if on_device:
            return [self._views[name] for name in outputs]
        self._default.synchronize()
        return [self._views[name].numpy() for name in outputs]

    def _write(self, name: str, array: Any) -> bool:
        """Let the next replay read a feed; True when it came from the device."""
        if array is self._views[name]:
            self._feeds[name].reset()
            return True
        if not isinstance(array, np.ndarray):
            if array.device.type == "cuda":
                self._feeds[name].device(array.data_ptr())
                return True
            array = array.numpy()
        self._feeds[name].host(np.ascontiguousarray(array))
        return False

    def profile(self, repeat: int) -> list[CallTime]:
        """Median seconds of every call, each timed alone as ten copies in a graph.

        Stages have a share of them, by events between launches outside of a graph.
        """
        self._reset_feeds()
        return [self._call_time(bound, repeat) for bound in self._bound]

    def _call_time(self, bound: BoundKernel, repeat: int) -> CallTime:
        seconds = self._time(bound, repeat)
        if bound.stages == 1:
            return CallTime(seconds)
        stream, events = Stream(), [Event() for _ in range(bound.stages + 1)]
        samples = []
        for _ in range(repeat):
            bound.launch_between(stream, events)
            stream.synchronize()
            pairs = itertools.pairwise(events)
            samples.append([after.seconds_since(before) for before, after in pairs])
        apart = CallTime.of(samples)
        share = seconds / sum(apart.stages)
        return CallTime(seconds, tuple(share * stage for stage in apart.stages))

    def run_seconds(self, repeat: int) -> float:
        """Median seconds of a whole run, inputs in the model's own buffers."""
        self._reset_feeds()
        stream, start, stop = Stream(), Event(), Event()
        samples = []
        for _ in range(repeat):
            start.record(stream)
            self._graph.replay(stream)
            stop.record(stream)
            samples.append(stop.seconds_since(start))
        return statistics.median(samples)

    def _reset_feeds(self) -> None:
        for feed in self._feeds.values():
            feed.reset()

    def _time(self, bound: BoundKernel, repeat: int) -> float:
        copies = 10

        def work(stream: Stream) -> None:
            for _ in range(copies):
                bound.launch(stream)

        graph, stream = self._capture(work), Stream()
        start, stop = Event(), Event()
        samples = []
        for _ in range(repeat):
            start.record(stream)
            graph.replay(stream)
            stop.record(stream)
            samples.append(stop.seconds_since(start) / copies)
        return statistics.median(samples)


def _memory(size: int, ordinal: int) -> Any:
    """uint8 [size] on a GPU; one byte where size is 0."""
    try:
        return tvm.runtime.empty((max(size, 1),), "uint8", tvm.runtime.device("cuda", ordinal))
    except RuntimeError as error:
        first = (str(error).splitlines() or [""])[0]
        raise ArtifactError(f"{size} bytes cannot be had on GPU {ordinal} ({first})") from error
