"""Outputs that are some columns of y: a warp lays out 16 rows, and puts words of y together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.wgmma.config import PipelineConfig

ROWS = 16
"""That a warp lays out at once."""
_PAD_BYTES = 16
"""Between rows, so that those of eight lanes begin in different banks."""


@dataclass(frozen=True)
class Expansion:
    """How columns of a product become those of y.

    spans, places: what `expand` reads of each n tile. expand(rows, spans, places, y, n tile, first
    row, lane): 16 rows of a warp, `pitch(config)` bytes apart in shared memory, to rows of y.
    ahead(spans, places, n tile, lane): what a warp asks for while the tile is multiplied.
    """

    spans: TensorSpec
    places: TensorSpec
    expand: DeviceFunction
    ahead: DeviceFunction


def pitch(config: PipelineConfig, size: int) -> int:
    """Bytes from one row of outputs of `size` bytes to the next in shared memory."""
    return config.block_n * size + _PAD_BYTES


def staged_bytes(config: PipelineConfig, size: int) -> int:
    """Shared memory of the rows of all warps, and of a word behind the last."""
    return 4 * config.consumers * ROWS * pitch(config, size) + _PAD_BYTES


class StagedRows:
    """Where a warp lays out its 16 rows of a tile.

    buffer: shared memory as outputs; first, pitch: of its rows, in outputs; column: the first of
    the tile.
    """

    def __init__(self, buffer: Any, first: Any, pitch: int, column: Any) -> None:
        self.buffer, self.first, self.pitch, self.column = buffer, first, pitch, column

    def at(self, pixel: Any, channel: Any) -> Any:
        """The pointer of an output; a warp's rows begin at multiples of 16."""
        place = self.first + pixel.index % ROWS * self.pitch + (channel - self.column)
        return self.buffer.ptr_to([place])
