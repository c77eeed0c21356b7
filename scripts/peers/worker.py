"""The child process that a peer is measured in, so that its crash costs its own layer only."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from autoq.measure.child import Child, ChildCrash, ChildError, ChildTimeout, Entry
from autoq.measure.job import Timing
from autoq.measure.pool import ChildPool
from autoq.runtime.cuda_driver import Device
from peers.layer import Layer
from peers.peer import Peer, PeerTime

PEERS = {
    "cudnn_int8": "peers.cudnn_int8:CudnnInt8",
    "cudnn_fp16": "peers.torch_fp16:TorchFp16",
    "cublaslt_int8": "peers.cublaslt_int8:CublasLtInt8",
}
"""Where each peer is; it is made with the device that it runs on."""


@dataclass(frozen=True)
class Prepare:
    """Asks to plan layers; the reply is the peer's version."""

    layers: Sequence[Layer]


@dataclass(frozen=True)
class Measure:
    """Asks for the PeerTime of a layer, planned or not; the reply is None for unsupported ones."""

    layer: Layer
    timing: Timing


def serve(peer: str) -> Callable[[Any], Any]:
    """The handler of a child process for one of PEERS."""
    module, _, name = PEERS[peer].partition(":")
    return _Worker(getattr(importlib.import_module(module), name)(Device(0))).handle


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


class PeerProcess:
    """The parent's end of one peer, in a thread of its own."""

    def __init__(self, name: str, prepare_seconds: float, layer_seconds: float) -> None:
        self.name = name
        self._prepare_seconds = prepare_seconds
        self._layer_seconds = layer_seconds
        entry = Entry("peers.worker", "serve", name)
        self._pool = ChildPool(lambda: Child(entry), 1)

    def prepare(self, layers: Sequence[Layer]) -> Future[str]:
        """Start the process and plan the layers; the result is the version of the library.

        The future raises ChildCrash, ChildError or ChildTimeout for a peer that is not there.
        """
        return self._pool.submit(
            lambda child: child.call(Prepare(tuple(layers)), self._prepare_seconds)
        )

    def measure(self, layer: Layer, timing: Timing) -> PeerTime | str | None:
        """A time, the reason why there is none, or None for a layer that is not the peer's."""
        request = Measure(layer, timing)
        try:
            return self._pool.submit(
                lambda child: child.call(request, self._layer_seconds)
            ).result()
        except (ChildCrash, ChildError, ChildTimeout) as error:
            return str(error)

    def close(self) -> None:
        """End the process."""
        self._pool.close()
