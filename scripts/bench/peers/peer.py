"""What a peer is: something else that computes a convolution, measured in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autoq.measure.job import Timing
from peers.layer import Layer


class PeerError(RuntimeError):
    """Why a peer has no time for a layer, in one line."""


@dataclass(frozen=True)
class PeerTime:
    """The median seconds of a peer's fastest way to compute a layer.

    what: names that way; tried: how many ways were timed; max_error: the largest difference of
    an output element from the reference, in quantisation steps (in units of the output's root
    mean square for float16); others: seconds of the best of each other formulation, by name.
    """

    seconds: float
    what: str
    tried: int
    max_error: float
    others: dict[str, float] = field(default_factory=dict)


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
        """Check and time the ways to compute a prepared layer; raises PeerError for none."""
        ...
