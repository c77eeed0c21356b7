"""Which channels of x a tile of filters reads, where a convolution has groups.

A tile of 64 filters belongs to one group or to several side by side, whose channels are neighbours:
a window of x. Its weights are zero where a filter meets channels of another group, so that a step
of the reduction is as long as without groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.templates.operators.float_conv2d import FloatConv2d

TILE_FILTERS = 64
"""Filters of a tile: the rows of a wgmma."""


class Windows:
    """The windows of a convolution's tiles, all of so many steps of `step_k` channels."""

    def __init__(self, conv: FloatConv2d, step_k: int) -> None:
        self._filters, self._channels = conv.k // conv.groups, conv.c // conv.groups
        self.conv = conv
        self.steps = -(-max(self._width(tile) for tile in self._tiles) // step_k)
        self.width = self.steps * step_k

    @property
    def _tiles(self) -> range:
        return range(-(-self.conv.k // TILE_FILTERS))

    def first(self, tile: Any) -> Any:
        """The first channel of a tile's window."""
        if self.conv.groups == 1:
            return 0
        return tile * TILE_FILTERS // self._filters * self._channels

    def _width(self, tile: int) -> int:
        """Channels from the first one to the last one that a tile's filters read."""
        last = min((tile + 1) * TILE_FILTERS, self.conv.k) - 1
        return (last // self._filters + 1) * self._channels - self.first(tile)

    def spread(self, weight: np.ndarray) -> np.ndarray:
        """A weight [k, r, s, c / groups] as [k, r, s, width], zeros around what it holds."""
        spread = np.zeros((*weight.shape[:3], self.width), weight.dtype)
        for one in range(self.conv.k):
            at = one // self._filters * self._channels - self.first(one // TILE_FILTERS)
            spread[one, ..., at : at + self._channels] = weight[one]
        return spread
