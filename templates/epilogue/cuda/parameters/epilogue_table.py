"""Scale and bias of an n tile in the order in which threads read them from shared memory.

Four lanes that hold neighbouring channels read 64 contiguous bytes: without conflicts, and not
through the L1, whose hits queue behind the misses of residuals (L1 tables left an H200's memory
half idle).
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.weights import channels_per_thread

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
    `channels_per_thread(block_n)` unless given.
    """
    channels = channels or channels_per_thread(block_n)
    shape = (-1, block_n // (_LANES * channels), _LANES)
    quads = scale.astype(np.float32).view(np.int32).reshape(*shape, channels // 4, 4)
    parts = [quads.transpose(0, 1, 3, 2, 4).reshape(len(quads), block_n)]
    if bias is not None:
        pairs = bias.reshape(*shape, channels // 2, 1, 2).transpose(0, 1, 3, 2, 4, 5)
        parts.insert(0, np.repeat(pairs, 2, axis=4).reshape(len(quads), 2 * block_n))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
