"""The order of inverted residual blocks in a network: MobileNet-V2's and EfficientNet's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

RESIDUAL_VARIANCE = 0.3
"""The variance that a block adds to its shortcut, so that activations keep their range with
depth."""


class Stage(NamedTuple):
    """Blocks of a stage, the first of which has the stride; filters are `size` x `size`."""

    expansion: int
    size: int
    stride: int
    channels: int
    blocks: int


class Block(NamedTuple):
    """A block of c to k channels, which are `wide` in between."""

    name: str
    c: int
    k: int
    wide: int
    size: int
    stride: int

    @property
    def has_shortcut(self) -> bool:
        return self.stride == 1 and self.c == self.k

    @property
    def variance(self) -> float:
        """The variance of what it adds, or of its output."""
        return RESIDUAL_VARIANCE if self.has_shortcut else 1.0


def blocks(stages: Sequence[Stage], channels: int) -> Iterator[Block]:
    """The blocks of all stages behind so many channels."""
    for number, stage in enumerate(stages, start=1):
        for index in range(stage.blocks):
            yield Block(
                f"stage{number}.{index}", channels, stage.channels, channels * stage.expansion,
                stage.size, stage.stride if index == 0 else 1,
            )  # fmt: skip
            channels = stage.channels
