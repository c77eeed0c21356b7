"""Packed weights, their tensor map and the fragment layout agree, emulated in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autoq.templates.tiles.swizzle import swizzled_address
from autoq.templates.tiles.weights import (
    KLayout,
    channels_per_thread,
    pack_weight,
    pad_channels,
    row_channels,
    weight_map,
)

WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256)


def tma_box(array: np.ndarray, arguments: list[int], origin: tuple[int, ...]) -> np.ndarray:
    """What a tiled load of rank 5 without element strides puts into shared memory, in order."""
    dims, strides, box = arguments[:5], [1, *arguments[5:9]], arguments[9:14]
    flat = array.reshape(-1)
    out = np.zeros(int(np.prod(box)), array.dtype)
    for at, index in enumerate(itertools.product(*(range(n) for n in reversed(box)))):
        coordinates = [o + i for o, i in zip(origin, reversed(index), strict=True)]
        if all(c < d for c, d in zip(coordinates, dims, strict=True)):
            out[at] = flat[sum(c * s for c, s in zip(coordinates, strides, strict=True))]
    return out


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
def test_tensor_map_permutes_as_row_channels_says(block_n: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    row_bytes, total = 16, 48
    packed = rng.integers(-128, 128, (2 * block_n, total), np.int8)
    arguments = weight_map(2 * block_n, total, block_n, row_bytes, channels)
    group = block_n // (4 * channels)
    loaded = tma_box(packed, arguments, (16, 0, 0, 0, group)).reshape(block_n, row_bytes)
    expected = packed[block_n + row_channels(block_n, channels), 16:32]
    assert np.array_equal(loaded, expected)


@pytest.mark.parametrize(
    ("k", "taps", "c", "row_bytes", "per_stage", "block_n"),
    [(64, 9, 64, 64, 1, 64), (20, 9, 16, 16, 4, 16), (72, 6, 48, 64, 2, 48), (7, 1, 80, 32, 4, 16)],
)
def test_packed_weight_has_every_tap(
    k: int, taps: int, c: int, row_bytes: int, per_stage: int, block_n: int
) -> None:
    weight = np.random.default_rng(1).integers(-128, 128, (k, 1, taps, c), np.int8)
    layout = KLayout(taps, c, row_bytes, per_stage)
    packed = pack_weight(weight, layout, block_n)
    assert packed.shape[0] % block_n == 0 and packed.shape[1] == layout.total
    assert packed.shape[1] % (row_bytes * per_stage) == 0
    for tap, channel in itertools.product(range(taps), range(c)):
        chunk, byte = divmod(channel, row_bytes)
        column = (tap * layout.chunks + chunk) * row_bytes + byte
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
