"""The child process that a peer is measured in, so that its crash costs its own layer only."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.process.child import Child, ChildCrash, ChildError, ChildTimeout, Entry
from autoq.process.lean_imports import allow_unused
from autoq.process.pool import ChildPool
from peers.layer import Layer
from peers.peer import Peer

METASCHEDULE = "metaschedule"
PEERS = {
    "cudnn_int8": "peers.cudnn_int8:CudnnInt8",
    "cudnn_fp16": "peers.torch_fp16:TorchFp16",
    "cublaslt_int8": "peers.cublaslt_int8:CublasLtInt8",
    METASCHEDULE: "peers.metaschedule:MetaSchedule",
}
"""The class of each peer, as `module:class`; it is made with its options."""


@dataclass(frozen=True)
class Prepare:
    """Asks to plan layers; the reply is the peer's version."""

    layers: Sequence[Layer]


@dataclass(frozen=True)
class Measure:
    """Asks for the PeerTime of a layer, planned or not; the reply is None for unsupported ones."""

    layer: Layer
    timing: Timing


def serve(argument: tuple[str, Mapping[str, Any]]) -> Callable[[Any], Any]:
    """The handler of a child process for a class as in PEERS, with its options."""
    place, options = argument
    allow_unused()  # a peer may be torch
    module, _, name = place.partition(":")
    return _Worker(getattr(importlib.import_module(module), name)(**options)).handle


class _Worker:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._prepared: set[Layer] = set()

    def handle(self, request: Prepare | Measure) -> Any:
        if isinstance(request, Prepare):
            self._prepare(request.layers)
            return self._peer.version
        if not self._peer.supports(request.layer):
            return None
        self._prepare([request.layer])
        return self._peer.measure(request.layer, request.timing)

    def _prepare(self, layers: Sequence[Layer]) -> None:
        """All that are not prepared yet; a process that replaces a crashed one starts anew."""
        new = [x for x in layers if x not in self._prepared and self._peer.supports(x)]
        self._peer.prepare(new)
        self._prepared.update(new)


class PeerProcesses:
    """The parent's end of one peer: one or more processes, which share out the layers."""

    def __init__(
        self,
        name: str,
        place: str,
        options: Mapping[str, Any],
        prepare_seconds: float,
        layer_seconds: float,
        size: int = 1,
    ) -> None:
        self.name = name
        self._prepare_seconds = prepare_seconds
        self._layer_seconds = layer_seconds
        entry = Entry("peers.worker", "serve", (place, dict(options)))
        environment = {"OPENBLAS_NUM_THREADS": "1"}  # small references, many processes
        # A pool of one child each, so that a layer is measured where it was planned.
        self._pools = [ChildPool(lambda: Child(entry, environment), 1) for _ in range(size)]
        self._homes: dict[Layer, ChildPool] = {}

    def prepare(self, layers: Sequence[Layer]) -> list[Future[str]]:
        """Start the processes and plan the layers; each result is the version of the library.

        The futures raise ChildCrash, ChildError or ChildTimeout for a peer that is not there.
        """
        size = len(self._pools)
        self._homes = {layer: self._pools[i % size] for i, layer in enumerate(layers)}
        return [
            pool.submit(self._preparation(layers[index::size]))
            for index, pool in enumerate(self._pools)
        ]

    def measure(self, layer: Layer, timing: Timing) -> PeerTime | str | None:
        """A time, the reason why there is none, or None for a layer that is not the peer's."""
        request = Measure(layer, timing)
        pool = self._homes[layer]
        try:
            return pool.submit(lambda child: child.call(request, self._layer_seconds)).result()
        except (ChildCrash, ChildError, ChildTimeout) as error:
            return str(error)

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.close()

    def _preparation(self, layers: Sequence[Layer]) -> Callable[[Child], str]:
        return lambda child: child.call(Prepare(tuple(layers)), self._prepare_seconds)
