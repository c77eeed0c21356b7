"""Constants of the mma.sync convolution in the order in which its kernel reads them."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.storage import pack_nibbles
from autoq.templates.cuda.device.weights import row_channels
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES, MmaSyncConfig
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling


def channel_of_row(config: MmaSyncConfig) -> np.ndarray:
    """Output channel held by each row of a block's weight tile, int64 [block_n].

    Where that packs the output, permuted warp by warp, so that the columns a lane gets are
    consecutive channels.
    """
    if config.packing != "weights":
        return np.arange(config.block_n)
    first = np.arange(config.BLK_COL_WARPS) * config.warp_n
    return (first[:, None] + row_channels(config.warp_n)).reshape(-1)


def tile_channels(tiling: MmaSyncTiling) -> np.ndarray:
    """Channel of a group in each byte of its tile rows, int64 [group_c].

    Unpacking splits a piece into its even channels, then its odd ones.
    """
    channels = np.arange(tiling.group_c)
    if not tiling.unpacks_pixels:
        return channels
    return channels.reshape(-1, tiling.piece // 2, 2).transpose(0, 2, 1).reshape(-1)


def fold_units(tiles: np.ndarray) -> np.ndarray:
    """Tile rows of 4-bit values int8 [..., bytes] as the copies read them, [..., bytes / 2].

    Byte j of a 16-byte unit that is read holds byte j of a unit of the tile in its low nibble,
    and byte j of the next unit in its high one.
    """
    pairs = tiles.view(np.uint8).reshape(*tiles.shape[:-1], -1, 2, UNIT_BYTES)
    folded = pairs[..., 0, :] & 15 | pairs[..., 1, :] << 4
    return folded.reshape(*tiles.shape[:-1], -1).view(np.int8)


def pack_weight(tiling: MmaSyncTiling, weight: np.ndarray) -> np.ndarray:
    """Weights in the order of the kernel's copies.

    weight: int8 [k, r, s, c / groups]. Returns int8 [tiles_n, steps, weight_rows,
    weight_row_bytes].
    """
    conv, config = tiling.conv, tiling.config
    if tiling.unpacks_pixels:
        weight = weight[..., tile_channels(tiling)]
    if config.compute == "s4":
        weight = pack_nibbles(weight).view(np.int8)
    filters = weight.reshape(conv.groups, tiling.group_k, tiling.taps, tiling.group_bytes)
    taps = tiling.weight_rows // config.block_n
    if tiling.box is None:
        filters = _in_walking_order(tiling, filters)
    padded = np.zeros(
        (conv.groups, tiling.group_tiles_n * config.block_n, taps, tiling.steps * config.block_k),
        np.int8,
    )
    padded[:, : tiling.group_k, :, : filters.shape[3]] = filters
    tiles = padded.reshape(tiling.tiles_n, config.block_n, taps, tiling.steps, config.block_k)
    if config.packing == "weights":
        tiles = np.take(tiles, channel_of_row(config), axis=1)
    tiles = tiles.transpose(0, 3, 2, 1, 4)
    tiles = np.ascontiguousarray(tiles).reshape(
        tiling.tiles_n, tiling.steps, tiling.weight_rows, config.block_k
    )
    return fold_units(tiles) if tiling.unpacks_weights else tiles


def _in_walking_order(tiling: MmaSyncTiling, filters: np.ndarray) -> np.ndarray:
    """Filters [groups, channels, taps, bytes] as one run of pieces, [groups, channels, 1, ...]."""
    row, column, channel = tiling.tap_of(np.arange(tiling.pieces))
    start = (row * tiling.conv.s + column) * tiling.group_bytes + channel
    pieces = filters.reshape(*filters.shape[:2], 1, -1, tiling.piece)
    walked = np.take(pieces, start // tiling.piece, axis=3)
    return walked.reshape(*filters.shape[:2], 1, -1)


def pack_channels(tiling: MmaSyncTiling, values: np.ndarray) -> np.ndarray:
    """Per-channel values `[..., k]` with every group filled up with 0, `[..., padded_k]`."""
    conv = tiling.conv
    lead = values.shape[:-1]
    padded = np.zeros((*lead, conv.groups, tiling.padded_k // conv.groups), values.dtype)
    padded[..., : tiling.group_k] = values.reshape(*lead, conv.groups, tiling.group_k)
    return padded.reshape(*lead, tiling.padded_k)
