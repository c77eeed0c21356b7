"""The untuned choice of the mma.sync convolution: the configuration of least estimated time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from autoq.templates.cuda.device.planned_space import least
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.cost import tiling_seconds
from autoq.templates.cuda.mma_sync.plan import copies_bypass_registers
from autoq.templates.cuda.mma_sync.space import (
    compute_types,
    space,
)
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling, as_conv2d
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

# (BLK_ROW_WARPS, BLK_COL_WARPS, WARP_ROW_TILES, WARP_COL_TILES) from large tiles to small ones.
_DEFAULT_TILES = (
    (2, 2, 4, 8), (4, 2, 2, 8), (2, 2, 2, 8), (4, 1, 2, 8), (2, 1, 2, 8), (4, 1, 1, 8),
    (2, 1, 1, 8), (2, 2, 2, 4), (4, 1, 2, 4), (2, 2, 1, 4), (4, 1, 2, 2), (2, 1, 1, 4),
    (2, 1, 1, 2), (1, 2, 1, 2),
)  # fmt: skip


def default(workload: Conv2d | Gemm, target: Target) -> MmaSyncConfig:
    """The legal candidate of least estimated time."""
    conv = as_conv2d(workload)
    legal = space(workload, target)
    computes = compute_types(conv, target)
    candidates = itertools.chain(*(_default_candidates(one, target) for one in computes))
    return least(
        legal, candidates, lambda config: tiling_seconds(MmaSyncTiling(conv, config), target)
    )


def _default_candidates(compute: str, target: Target) -> Iterator[MmaSyncConfig]:
    """Swizzled tiles of pixels in their plain order, and of boxes in the ways worth a try."""
    for tile, chunk, stages in itertools.product(_DEFAULT_TILES, (2, 1, 4), (4, 3, 2)):
        plain = MmaSyncConfig(*tile, chunk, False, stages, True, 1, compute)
        yield plain
        ways = _ways_of_boxes(plain, target)
        for duplicates, columns, images in itertools.product(ways, (1, 2, 4), (False, True)):
            yield replace(plain, duplicates=duplicates, box_columns=columns, images=images)


def _ways_of_boxes(plain: MmaSyncConfig, target: Target) -> tuple[str, ...]:
    """Values of `duplicates`: of nibbles all, since a box is unpacked once for all taps.

    Else fragments in registers, where copies need none and one step's fragments fit.
    """
    if plain.unpacks:
        return "register", "shared"
    return ("register",) if copies_bypass_registers(plain, target) and plain.CHUNK < 4 else ()


def estimated_seconds(workload: Conv2d | Gemm, config: MmaSyncConfig, target: Target) -> float:
    """Estimated time, the same in every layout of the activations."""
    return tiling_seconds(MmaSyncTiling(as_conv2d(workload), config), target)
