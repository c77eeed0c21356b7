"""Results that are some columns of y: a warpgroup puts words of y together of a staged slice."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import DeviceFunction


@dataclass(frozen=True)
class SliceExpansion:
    """How columns of a product become those of y, whose shape is given.

    spans, places: what `expand` reads of each block of 64 columns. expand(slice, spans, places, y,
    block, first row, rows, warp, lane): so many rows of 64 results, 128 swizzled bytes each in
    shared memory, to rows of y; all warps of the warpgroup take some.
    """

    spans: TensorSpec
    places: TensorSpec
    expand: DeviceFunction
    y_shape: tuple[int, ...]
