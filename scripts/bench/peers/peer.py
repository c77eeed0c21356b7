"""What a peer is: something else that computes a convolution, measured in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from peers.layer import Layer


class Peer(Protocol):
    """A library or compiler on the current CUDA device."""

    @property
    def version(self) -> str: ...

    def supports(self, layer: Layer) -> bool:
        """Whether the peer computes such layers at all."""
        ...

    def prepare(self, layers: Sequence[Layer]) -> None:
        """Plan or compile all layers at once; failures are kept for `measure` to raise."""
        ...

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        """Check and time the ways to compute a prepared layer; raises LibraryError for none."""
        ...
