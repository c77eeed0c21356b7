"""Which configurations of the mma.sync convolution may load duplicates once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoq.templates.cuda.mma_sync.box import LANES
from autoq.templates.cuda.mma_sync.config import DUPLICATES, MmaSyncConfig
from autoq.templates.cuda.mma_sync.genuine_index import GenuineIndex
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling
from autoq.templates.operators.conv2d import Conv2d

# A stage's multiplications are written out one by one: 16 bytes of code each, beside their loads.
_MOST_UNROLLED = 640


def box_knobs(conv: Conv2d) -> dict[str, tuple[Any, ...]]:
    """Values of the knobs `duplicates`, `box_columns` and `images`.

    One value each where the convolution has no duplicates; fragments of 8 images where at least
    half of them would hold images.
    """
    index = GenuineIndex.of(conv, LANES, LANES)
    if index.distinct == index.rows * index.columns:
        return {"duplicates": ("none",), "box_columns": (1,), "images": (False,)}
    images = (False, True) if 2 * conv.n > LANES else (False,)
    return {"duplicates": DUPLICATES, "box_columns": (1, 2, 4, 7, 8), "images": images}


def box_constraints(
    tiling_of: Callable[[MmaSyncConfig], MmaSyncTiling],
) -> list[Callable[[MmaSyncConfig], bool]]:
    """Rules of the knobs `duplicates`, `box_columns` and `images`."""

    def box_is_for_known_duplicates(config: MmaSyncConfig) -> bool:
        """Pixels that are copied for every tap stay in their plain order."""
        return config.duplicates != "none" or (config.box_columns == 1 and not config.images)

    def warp_covers_whole_rows(config: MmaSyncConfig) -> bool:
        """A warp's fragments fill whole rows of the box, so that one schedule serves all warps."""
        return config.warp_fragments % config.box_columns == 0

    def taps_share_pixels(config: MmaSyncConfig) -> bool:
        """The box's halo has fewer pixels than its lowered matrix."""
        box = tiling_of(config).box
        if box is None:
            return True
        return box.slots < box.index.rows * box.index.columns * box.depth

    def code_is_short(config: MmaSyncConfig) -> bool:
        """The multiplications of all taps of a stage stay within the instruction cache."""
        tiles = config.CHUNK * config.WARP_ROW_TILES * config.WARP_COL_TILES
        return config.duplicates == "none" or tiles * tiling_of(config).taps <= _MOST_UNROLLED

    def fragments_coincide(config: MmaSyncConfig) -> bool:
        """Fragments are held in registers only where two taps of a warp share one."""
        counts = tiling_of(config).fragment_counts
        if counts is None or config.duplicates != "register":
            return True
        _, loaded, used = counts
        return loaded < used

    return [
        box_is_for_known_duplicates,
        warp_covers_whole_rows,
        taps_share_pixels,
        code_is_short,
        fragments_coincide,
    ]
