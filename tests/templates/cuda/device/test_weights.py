"""Packed weights, their image in shared memory and the fragment layout agree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autoq.templates.cuda.device.memory.swizzle import (
    ROW_BYTES,
    shared_image,
    swizzle_period,
    swizzled_address,
)
from autoq.templates.cuda.device.weights import (
    KLayout,
    channels_per_thread,
    pack_weight,
    pad_channels,
    row_channels,
    tile_rows,
)

WIDTHS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 256)


CHANNELS = [(n, c) for n in WIDTHS for c in (4, 8, 16) if n % (4 * c) == 0]


@pytest.mark.parametrize("block_n", WIDTHS)
@pytest.mark.parametrize("slices", (1, 2, 4, 8, 16))
def test_channels_make_whole_slices_where_they_can(block_n: int, slices: int) -> None:
    for m_blocks in (1, 2, 3):
        possible = [
            c for n, c in CHANNELS if n == block_n and m_blocks * n // (4 * c) % slices == 0
        ]
        assert channels_per_thread(block_n, m_blocks, slices) == max(possible, default=4)


@pytest.mark.parametrize("block_n, channels", CHANNELS)
def test_thread_owns_consecutive_channels(block_n: int, channels: int) -> None:
    order = row_channels(block_n, channels)
    assert sorted(order) == list(range(block_n))
    for group, thread in itertools.product(range(block_n // (4 * channels)), range(4)):
        # Accumulator i * 4 + e of D [64, n]: column 8 * i + 2 * thread + e.
        columns = [
            group * 4 * channels + 8 * i + 2 * thread + e
            for i in range(channels // 2)
            for e in range(2)
        ]
        first = group * 4 * channels + thread * channels
        assert list(order[columns]) == list(range(first, first + channels))


@pytest.mark.parametrize("block_n, channels", CHANNELS)
@pytest.mark.parametrize("row_bytes", ROW_BYTES)
def test_image_has_rows_where_wgmma_reads_them(block_n: int, channels: int, row_bytes: int) -> None:
    """Rows in the order of `row_channels`, chunks of 16 bytes where the swizzle has them."""
    packed = np.random.default_rng(0).integers(-128, 128, (2 * block_n, 3 * row_bytes), np.int8)
    order, each = row_channels(block_n, channels), block_n * row_bytes
    image = shared_image(tile_rows(packed, order, row_bytes))
    wide = packed.view(np.int16)
    assert np.array_equal(shared_image(tile_rows(wide, order, row_bytes)).view(np.int8), image)
    assert each % swizzle_period(row_bytes) == 0
    for tile, sub_tile in itertools.product(range(2), range(3)):
        there = image[(tile * 3 + sub_tile) * each :][:each]
        places = [swizzled_address(byte, row_bytes) for byte in range(each)]
        columns = slice(sub_tile * row_bytes, (sub_tile + 1) * row_bytes)
        expected = packed[tile * block_n + order, columns]
        assert np.array_equal(there[places].reshape(block_n, row_bytes), expected)


@pytest.mark.parametrize(
    ("k", "taps", "c", "row_bytes", "per_stage", "block_n"),
    [(64, 9, 64, 64, 1, 64), (20, 9, 16, 16, 4, 16), (72, 6, 48, 64, 2, 48), (7, 1, 80, 32, 4, 16)],
)
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_packed_weight_has_every_tap(
    k: int, taps: int, c: int, row_bytes: int, per_stage: int, block_n: int, dtype: str
) -> None:
    weight = np.random.default_rng(1).integers(-128, 128, (k, 1, taps, c)).astype(dtype)
    layout = KLayout(taps, c, row_bytes, per_stage, dtype=dtype)
    row = row_bytes // weight.itemsize
    assert layout.row_channels == row
    packed = pack_weight(weight, layout, block_n)
    assert packed.shape[0] % block_n == 0 and packed.shape[1] == layout.total
    assert packed.shape[1] % (row * per_stage) == 0 and packed.dtype == dtype
    for tap, channel in itertools.product(range(taps), range(c)):
        chunk, inside = divmod(channel, row)
        column = (tap * layout.chunks + chunk) * row + inside
        assert np.array_equal(packed[:k, column], weight[:, 0, tap, channel])
    assert np.count_nonzero(packed) == np.count_nonzero(weight)


def test_pad_channels_pads_the_last_axis() -> None:
    padded = pad_channels(np.ones((2, 20), np.int32), 16)
    assert padded.shape == (2, 32) and padded[:, 20:].sum() == 0


@pytest.mark.parametrize(("row_bytes", "chunks"), [(16, 1), (32, 2), (64, 4), (128, 8)])
def test_swizzle_permutes_chunks_of_a_row(row_bytes: int, chunks: int) -> None:
    for row in range(16):
        addresses = [row * row_bytes + 16 * chunk for chunk in range(chunks)]
        moved = [swizzled_address(address, row_bytes) for address in addresses]
        assert sorted(moved) == addresses
    spread = {swizzled_address(row * row_bytes, row_bytes) % 128 for row in range(8)}
    assert len(spread) == 8
