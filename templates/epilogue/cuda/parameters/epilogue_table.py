"""Scale and bias of an n tile in the order in which threads read them from shared memory.

Four lanes that hold neighbouring channels read 64 contiguous bytes: without conflicts, and not
through the L1, whose hits queue behind the misses of residuals (L1 tables left an H200's memory
half idle).
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.weights import (
    LAST_CHANNELS,
    channels_per_thread,
    last_columns,
)

_LANES = 4


def table_words(block_n: int, with_start: bool) -> int:
    """32-bit words of the table of one n tile."""
    return (3 if with_start else 1) * block_n


def epilogue_table(
    scale: np.ndarray, bias: np.ndarray | None, block_n: int, channels: int | None = None
) -> np.ndarray:
    """The tables int32 [n tiles, table_words] of padded scale float32 [k] and bias int32 [k].

    Start values first, [group, pair, lane, (2 rows, 2 channels)], unless bias is None; then scale,
    [group, quad, lane, 4 channels], as bits. channels: consecutive ones of a thread,
    `channels_per_thread(block_n)` unless given; of the last columns it is `LAST_CHANNELS`.
    """
    channels = channels or channels_per_thread(block_n)
    last = last_columns(block_n)
    scales = scale.astype(np.float32).view(np.int32).reshape(-1, block_n)
    columns = np.split(scales, [block_n - last], axis=1)
    parts = [_quads(columns[0], channels), _quads(columns[1], LAST_CHANNELS)]
    if bias is not None:
        columns = np.split(bias.reshape(-1, block_n), [block_n - last], axis=1)
        parts = [_starts(columns[0], channels), _starts(columns[1], LAST_CHANNELS), *parts]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _quads(scale: np.ndarray, channels: int) -> np.ndarray:
    """Scales [n tiles, columns] in the order [group, quad, lane, 4 channels]."""
    quads = scale.reshape(len(scale), -1, _LANES, channels // 4, 4)
    return quads.transpose(0, 1, 3, 2, 4).reshape(scale.shape)


def _starts(bias: np.ndarray, channels: int) -> np.ndarray:
    """Start values of biases [n tiles, columns]: [group, pair, lane, (2 rows, 2 channels)]."""
    pairs = bias.reshape(len(bias), -1, _LANES, channels // 2, 1, 2).transpose(0, 1, 3, 2, 4, 5)
    return np.repeat(pairs, 2, axis=4).reshape(len(bias), 2 * bias.shape[1])
