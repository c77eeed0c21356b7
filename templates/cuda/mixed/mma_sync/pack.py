"""Constants of the mixed-input product on mma.sync, as its kernel reads them."""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.mixed.mma_sync.config import ROW_TILE, Conform
from autoq.templates.cuda.mixed.mma_sync.fragments import Fragments
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.cuda.mixed.row_scale import row_scale
from autoq.templates.element import element
from autoq.templates.storage import pack_nibbles
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants


def packed(tiling: MixedSyncTiling) -> tuple[TensorSpec, ...]:
    """What `pack` gives: weights, what groups need or is taken from each row, scale and bias."""
    work = tiling.workload
    rows = tiling.padded_n
    specs = [TensorSpec("weight", (tiling.packed_bytes,), "uint8")]
    if work.group:
        specs.append(TensorSpec("groups", (tiling.group_columns * rows,), "uint32"))
    elif work.quantised and tiling.fragments.shifted:
        specs.append(TensorSpec("taken", (rows,), "uint32"))
    if work.quantised:
        specs.append(TensorSpec("scale", (rows,), "float32"))
    if work.bias:
        specs.append(TensorSpec("bias", (rows,), "float32"))
    return tuple(specs)


def pack(tiling: MixedSyncTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The constants of a workload as the kernel reads them."""
    work = tiling.workload
    rows = tiling.padded_n - work.n
    arrays = [_weights(tiling, np.asarray(constants["weight"]))]
    if work.group:
        arrays.append(_group_words(tiling, constants))
    elif work.quantised and tiling.fragments.shifted:
        zeros = constants["zero_point"] if work.zero_points else np.zeros((work.n, 1))
        zeros = np.pad(np.asarray(zeros).reshape(work.n).astype(np.int32), (0, rows))
        taken = tiling.fragments.taken_of(zeros, _second_rows(tiling.padded_n)).astype(np.uint32)
        arrays.append(taken | taken << 16)
    if work.quantised:
        scale = row_scale(work, np.asarray(constants["scale"], np.float32))
        arrays.append(np.pad(scale, (0, rows)))
    if work.bias:
        arrays.append(np.pad(np.asarray(constants["bias"], np.float32), (0, rows)))
    return tuple(map(np.ascontiguousarray, arrays))


def _second_rows(count: int) -> np.ndarray:
    """Whether each row is one of the upper eight of sixteen."""
    return np.arange(count) % ROW_TILE >= 8


def _weights(tiling: MixedSyncTiling, weight: np.ndarray) -> np.ndarray:
    """Padded weights in rows, or in the order of fragments, uint8."""
    work, fragments = tiling.workload, tiling.fragments
    pad = [(0, tiling.padded_n - work.n), (0, tiling.padded_k - work.k)]
    if not work.quantised:
        return np.ascontiguousarray(np.pad(weight, pad)).view(np.uint8).reshape(-1)
    stored = np.pad((weight.astype(np.int16) + fragments.offset).astype(np.uint8), pad)
    if tiling.config.layout is Conform.OFFLINE:
        return _in_order(fragments, stored)
    return (pack_nibbles(stored & 15) if tiling.bits == 4 else stored).reshape(-1)


def _in_order(fragments: Fragments, stored: np.ndarray) -> np.ndarray:
    """Values uint8 [rows, k] in the order in which threads of a warp read chunks, uint8.

    A thread's 16 bytes hold its values of 16 rows and 32 k of bytes, or 64 k of nibbles.
    """
    n, k = stored.shape
    chunk_k = 64 if fragments.shared.nibbles else 32
    # [row tile, half of 16 rows, row, chunk, k 16, half of 16 k, thread of 4, value of 2]
    parts = stored.reshape(n // ROW_TILE, 2, 8, k // chunk_k, chunk_k // 16, 2, 4, 2)
    if not fragments.shared.nibbles:
        return np.ascontiguousarray(parts.transpose(0, 3, 2, 6, 4, 5, 1, 7)).reshape(-1)
    if fragments.pairs:
        ordered = parts.transpose(0, 3, 2, 6, 4, 5, 1, 7)
    else:
        ordered = parts.transpose(0, 3, 2, 6, 4, 7, 5, 1)
    pairs = np.ascontiguousarray(ordered).reshape(-1, 2)
    return pairs[:, 0] & 15 | pairs[:, 1] << 4


def _group_words(tiling: MixedSyncTiling, constants: Constants) -> np.ndarray:
    """For each group and row what is taken away, above the group's scale, uint32."""
    work = tiling.workload
    scale = np.asarray(constants["scale"], np.float32)
    share = scale / row_scale(work, scale)[:, None]
    share = share.astype(element(work.in_dtype).dtype).view(np.uint16).astype(np.uint32)
    zeros = constants["zero_point"] if work.zero_points else np.zeros(scale.shape)
    pad = [(0, tiling.padded_n - work.n), (0, tiling.group_columns - work.groups)]
    zeros = np.pad(np.asarray(zeros).astype(np.int32), pad)
    taken = tiling.fragments.taken_of(zeros, _second_rows(tiling.padded_n)[:, None])
    return (np.pad(share, pad) | taken.astype(np.uint32) << 16).T.reshape(-1)
