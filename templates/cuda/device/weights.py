"""Weights of a wgmma kernel: packed as they lie in shared memory, their channels permuted.

A thread's accumulators of D [64, n] lie in pairs 8 columns apart. Weight rows in a permuted order
make them consecutive output channels instead, so that a thread packs and stores up to 16 channels
at once without exchanging lanes.

Kernels copy the bytes of `swizzle.shared_image` as they are. A tensor map could permute and swizzle
them on the way, but an H200's TMA takes about 3 cycles for each row of 64 bytes, by the 0.8 of 4.4
us that 8 x 56x56x64 -> 64, with 576 such rows in every block, lost to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.arrays.element import element

MOST_CHANNELS = 16
"""Consecutive output channels of a thread at most: bytes of one store."""

LAST_CHANNELS = 4
"""Those of a thread in the last columns of a tile that has such."""


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class KLayout:
    """How the reduction is cut into shared-memory sub-tiles of `row_channels` channels.

    Their rows are row_bytes bytes of values of `dtype`.
    Sub-tile `tap * chunks + chunk` holds channels [chunk * row_channels, ...) of one filter tap;
    channels beyond c and sub-tiles beyond the last tap have zero weights. `per_stage` sub-tiles
    make one pipeline stage; the reduction is cut into `parts` of as many stages each.
    """

    taps: int
    c: int
    row_bytes: int
    per_stage: int
    parts: int = 1
    dtype: str = "int8"

    @property
    def row_channels(self) -> int:
        """Channels of a sub-tile."""
        return self.row_bytes // element(self.dtype).bytes

    @property
    def chunks(self) -> int:
        """Sub-tiles of one tap."""
        return ceil_div(self.c, self.row_channels)

    @property
    def used(self) -> int:
        """Sub-tiles that hold weights."""
        return self.taps * self.chunks

    @property
    def stages(self) -> int:
        """Pipeline stages filled for one output tile."""
        return ceil_div(self.used, self.per_stage * self.parts) * self.parts

    @property
    def total(self) -> int:
        """Columns of the packed weight matrix, padded channels of all taps."""
        return self.stages * self.per_stage * self.row_channels


def last_columns(block_n: int) -> int:
    """Columns at the end of a tile in which a thread has `LAST_CHANNELS`: 16 of 144, for instance.

    Without them its channels in all other columns were as few, and its stores as narrow. 0 where
    groups of columns are alike, and in tiles of up to 128 columns.
    """
    return 4 * LAST_CHANNELS if block_n > 128 and block_n % 32 else 0


def channels_per_thread(
    block_n: int, m_blocks: int = 1, slices: int = 1, most: int = MOST_CHANNELS
) -> int:
    """Consecutive output channels of a thread: 16, 8 or 4 of each group of four times as many.

    The groups of all `m_blocks` 64-row blocks divide evenly into `slices`; where none of at most
    `most` channels do, 4. `last_columns` are no part of them.
    """
    if block_n % 16:
        raise ValueError(f"block_n {block_n} is not a multiple of 16")
    columns = block_n - last_columns(block_n)
    for channels in (MOST_CHANNELS, 8):
        groups = m_blocks * columns // (4 * channels)
        if channels <= most and columns % (4 * channels) == 0 and groups % slices == 0:
            return channels
    return 4


def row_channels(block_n: int, channels: int | None = None) -> np.ndarray:
    """Output channel (within a tile) in each shared-memory weight row, int64 [block_n].

    channels: consecutive ones of a thread, `channels_per_thread(block_n)` unless given.
    """
    channels = channels or channels_per_thread(block_n)
    last = last_columns(block_n)
    first = block_n - last
    return np.concatenate([_group_rows(first, channels), first + _group_rows(last, LAST_CHANNELS)])


def _group_rows(columns: int, channels: int) -> np.ndarray:
    """`row_channels` of columns in groups that are alike."""
    row = np.arange(columns)
    group, within = row // (4 * channels), row % (4 * channels)
    pair, thread, element = within // 8, within % 8 // 2, within % 2
    return group * 4 * channels + thread * channels + pair * 2 + element


def pack_weight(weight: np.ndarray, layout: KLayout, block_n: int) -> np.ndarray:
    """Weights [k, taps..., c] as the matrix [k padded to block_n, layout.total] of their dtype."""
    k = weight.shape[0]
    taps = weight.reshape(k, layout.taps, layout.c)
    packed = np.zeros(
        (ceil_div(k, block_n) * block_n, layout.total // layout.row_channels, layout.row_channels),
        weight.dtype,
    )
    body = packed[:k, : layout.used].reshape(k, layout.taps, layout.chunks * layout.row_channels)
    body[:, :, : layout.c] = taps
    packed[:k, : layout.used] = body.reshape(k, layout.used, layout.row_channels)
    return packed.reshape(packed.shape[0], layout.total)


def tile_rows(packed: np.ndarray, order: np.ndarray, row_bytes: int) -> np.ndarray:
    """Weights [padded k, total] as rows [padded k * total / n, n] of row_bytes bytes, n values.

    Each tile of len(order) channels is cut into sub-tiles of n columns, whose rows lie together.
    order int64 [block_n]: the channel of the tile in each of these rows.
    """
    columns = row_bytes // packed.itemsize
    tiles = packed.reshape(-1, len(order), packed.shape[1] // columns, columns)
    return np.ascontiguousarray(tiles[:, order].transpose(0, 2, 1, 3)).reshape(-1, columns)


def pad_channels(array: np.ndarray, block_n: int) -> np.ndarray:
    """An array whose last axis is output channels, zero-padded to a multiple of block_n."""
    missing = -array.shape[-1] % block_n
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
