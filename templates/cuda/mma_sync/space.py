"""Legal configurations of the mma.sync convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.cuda.device.launch.occupancy import resource_rules
from autoq.templates.cuda.device.planned_space import planned_space
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.box_space import box_constraints, box_knobs
from autoq.templates.cuda.mma_sync.config import (
    COL_TILE,
    K_TILE_BYTES,
    PACKING,
    ROW_TILE,
    MmaSyncConfig,
)
from autoq.templates.cuda.mma_sync.cost import features, registers
from autoq.templates.cuda.mma_sync.plan import copies_bypass_registers, has_cp_async
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling, as_conv2d
from autoq.templates.epilogue.cuda.fragments.shuffled_rows import TILES as SHUFFLED_TILES
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

Rule = Callable[[MmaSyncConfig], bool]
TilingOf = Callable[[MmaSyncConfig], MmaSyncTiling]


def space(workload: Conv2d | Gemm, target: Target) -> Space[MmaSyncConfig]:
    """Configurations that compile for the target and waste no whole tile on the workload."""
    conv = as_conv2d(workload)
    return planned_space(
        MmaSyncConfig,
        _knobs(conv, target),
        lambda config: MmaSyncTiling(conv, config),
        lambda tiling_of: _rules(conv, target, tiling_of),
        lambda c: features(MmaSyncTiling(conv, c), target),
    )


def _knobs(conv: Conv2d, target: Target) -> dict[str, Sequence[Any]]:
    """Values of the knobs, without those that no configuration of the workload could have."""
    group_c, group_k = conv.c // conv.groups, conv.k // conv.groups
    pixels, reduction = conv.n * conv.p * conv.q, conv.r * conv.s * group_c

    def wide(values: Sequence[int], tile: int, extent: int) -> tuple[int, ...]:
        """Values whose tiles are less than half outside, and the least one."""
        return tuple(v for v in values if v * tile < 2 * max(extent, 2 * tile) or v == values[0])

    most_stages = max(2, ceil_div(reduction, K_TILE_BYTES)) if has_cp_async(target) else 2
    reorders = conv.r > 1 and group_c > K_TILE_BYTES
    return {
        "BLK_ROW_WARPS": wide((1, 2, 4, 8), ROW_TILE, pixels),
        "BLK_COL_WARPS": wide((1, 2, 4), 2 * COL_TILE, group_k),
        "WARP_ROW_TILES": wide((1, 2, 4, 7, 8), ROW_TILE, pixels),
        "WARP_COL_TILES": wide((2, 4, 8, 16), COL_TILE, group_k),
        "CHUNK": wide((1, 2, 4), K_TILE_BYTES, reduction),
        "REORDER_INNER": (False, True) if reorders else (False,),
        "stages": tuple(range(2, min(6, most_stages) + 1)),
        "swizzle": (True, False),
        "blocks_per_sm": (1, 2, 3, 4),
        "compute": compute_types(conv, target),
        **box_knobs(conv),
        "packing": _packings(conv),
    }


def compute_types(conv: Conv2d, target: Target) -> tuple[str, ...]:
    """Values of `compute` for a convolution, the best one first; none where it has no kernel.

    Tensor cores multiply nibbles from sm_75 to sm_89; for later ones the compiler emulates it.
    """
    four_bit = [is_four_bit(conv.in_dtype), is_four_bit(conv.weight_dtype)]
    if not any(four_bit):
        return ("s8",)
    unpacked = ("s8_unpacked", "s8_staged") if has_cp_async(target) else ("s8_unpacked",)
    if not _unpacked_products_fit(conv):
        unpacked = ()
    # A stage of nibbles is 64 values or more.
    if not all(four_bit) or conv.epilogue.scale_group % (2 * K_TILE_BYTES):
        return unpacked
    return ("s4", *unpacked) if target.has_int4_mma else (*unpacked, "s4")


def _unpacked_products_fit(conv: Conv2d) -> bool:
    """Whether sums of products fit 32 bits when 4-bit operands are 16 times their value."""
    largest = conv.r * conv.s * (conv.c // conv.groups)
    for dtype in (conv.in_dtype, conv.weight_dtype):
        least, most = INTEGER_RANGE[dtype]
        largest *= max(-least, most) * (16 if is_four_bit(dtype) else 1)
    return largest < 1 << 31


def _packings(conv: Conv2d) -> tuple[str, ...]:
    """Values of `packing`: shuffles pack whole bytes, and leave 4-bit residuals to the others."""
    epilogue = conv.epilogue
    nibbles = is_four_bit(epilogue.out_dtype)
    packs = epilogue.out_dtype in ("int8", "uint8") or (nibbles and conv.k // conv.groups % 2 == 0)
    if packs and epilogue.of_convolutions and not is_four_bit(epilogue.residual_dtype):
        return PACKING
    return ("weights", "shared")


def _rules(conv: Conv2d, target: Target, tiling_of: TilingOf) -> list[Rule]:
    def warps_fill_the_schedulers(config: MmaSyncConfig) -> bool:
        """A block has 2 to 16 warps."""
        return 64 <= config.threads <= 512

    def tile_within_output(config: MmaSyncConfig) -> bool:
        """Less than half of the tiles' pixels and channels lie outside, but for the least tile."""
        tiling = tiling_of(config)
        few_pixels = tiling.tiles_m * config.block_m < 2 * max(tiling.rows, 2 * ROW_TILE)
        return few_pixels and config.block_n < 2 * max(tiling.group_k, 2 * COL_TILE)

    def chunk_within_reduction(config: MmaSyncConfig) -> bool:
        """Less than half of a stage lies beyond the reduction."""
        tiling = tiling_of(config)
        reduction = tiling.group_bytes * (tiling.taps if tiling.box is None else 1)
        return config.block_k < 2 * max(reduction, K_TILE_BYTES)

    def groups_are_whole_stages(config: MmaSyncConfig) -> bool:
        """Scales of groups along k change between stages."""
        values = config.block_k * (2 if config.compute == "s4" else 1)
        return conv.epilogue.scale_group % values == 0

    def stages_are_used(config: MmaSyncConfig) -> bool:
        """There are at most as many stages as steps of the reduction, or two."""
        return config.stages <= max(2, tiling_of(config).steps)

    def waiting_copies_take_two_stages(config: MmaSyncConfig) -> bool:
        """Copies that wait in registers fill one stage while the other multiplies."""
        return config.stages == 2 or copies_bypass_registers(config, target)

    def shuffles_fill_words(config: MmaSyncConfig) -> bool:
        """Shuffles pack four column tiles at once, which give every lane whole words."""
        return config.packing != "shuffle" or config.WARP_COL_TILES % SHUFFLED_TILES == 0

    def reorder_changes_something(config: MmaSyncConfig) -> bool:
        """REORDER_INNER needs steps of one filter tap, several filter rows and channel chunks."""
        chunks = tiling_of(config)
        several_chunks = chunks.box is None and chunks.group_bytes > chunks.channel_block
        return not config.REORDER_INNER or (conv.r > 1 and several_chunks)

    return [
        warps_fill_the_schedulers,
        *box_constraints(tiling_of),
        *resource_rules(tiling_of, registers, target),
        tile_within_output,
        chunk_within_reduction,
        groups_are_whole_stages,
        stages_are_used,
        waiting_copies_take_two_stages,
        shuffles_fill_words,
        reorder_changes_something,
    ]
