"""Peers that need no device, for what bench_conv does with peers that fail."""

from __future__ import annotations

import os
from collections.abc import Sequence

from peers.layer import Layer
from peers.peer import PeerError, PeerTime

from autoq.measure.job import Timing


class FakePeer:
    """Takes 1 us an input channel; fails, dies or declines by the number of filters."""

    version = "1.2"

    def __init__(self, refused: int = 0, deadly: int = 0, declined: int = 0) -> None:
        self._refused, self._deadly, self._declined = refused, deadly, declined
        self._prepared: list[Layer] = []

    def supports(self, layer: Layer) -> bool:
        return layer.workload.k != self._declined

    def prepare(self, layers: Sequence[Layer]) -> None:
        self._prepared += layers

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        assert self._prepared.count(layer) == 1
        if layer.workload.k == self._refused:
            raise PeerError("no plan fits")
        if layer.workload.k == self._deadly:
            os._exit(3)
        return PeerTime(layer.workload.c * 1e-6, "fake", len(self._prepared), 0.0)


class AbsentPeer:
    """Its library is not there."""

    def __init__(self) -> None:
        raise PeerError("libfake was not found")


class DecliningPeer(FakePeer):
    """Computes no layer at all."""

    def supports(self, layer: Layer) -> bool:
        return False
