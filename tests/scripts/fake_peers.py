"""Peers that need no device, for what bench_conv does with peers that fail."""

from __future__ import annotations

import os
from collections.abc import Sequence

from peers.layer import Layer

from autoq.errors import LibraryError
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.templates.operators.gemm import Gemm


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
            raise LibraryError("no plan fits")
        if layer.workload.k == self._deadly:
            os._exit(3)
        return PeerTime(layer.workload.c * 1e-6, "fake", len(self._prepared), 0.0)


class AbsentPeer:
    """Its library is not there."""

    def __init__(self) -> None:
        raise LibraryError("libfake was not found")


class DecliningPeer(FakePeer):
    """Computes no layer at all."""

    def supports(self, layer: Layer) -> bool:
        return False


class ProductPeer:
    """Takes 1 us a step of a product's sums."""

    version = "1.2"

    def supports(self, layer: Gemm) -> bool:
        return True

    def prepare(self, layers: Sequence[Gemm]) -> None: ...

    def measure(self, layer: Gemm, timing: Timing) -> PeerTime:
        return PeerTime(layer.k * 1e-6, "fake", 1, 0.0)
