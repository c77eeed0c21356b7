"""Constants of the mixed-input product on mma.sync, as its kernel reads them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import pack_nibbles
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.mixed.mma_sync.config import ROW_TILE, Conform
from autoq.templates.cuda.mixed.mma_sync.fragments import Fragments
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.cuda.mixed.row_scale import row_scale
from autoq.templates.workload import Constants


def packed(tiling: MixedSyncTiling) -> tuple[TensorSpec, ...]:
    """What `pack` gives: weights, what groups need or is taken from each row, scale and bias."""
    work = tiling.workload
    rows = tiling.weight_rows
    specs = [TensorSpec("weight", (tiling.packed_bytes,), "uint8")]
    if work.group:
        specs.append(TensorSpec("groups", (tiling.group_columns * rows,), "uint32"))
    elif work.quantised and tiling.fragments.shifted:
        specs.append(TensorSpec("taken", (rows,), "uint32"))
    if work.scaled:
        specs.append(TensorSpec("scale", (rows,), "float32"))
    if work.bias:
        specs.append(TensorSpec("bias", (rows,), "float32"))
    return tuple(specs)


def pack(tiling: MixedSyncTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The constants of a workload as the kernel reads them."""
    work = tiling.workload
    arrays = [_weights(tiling, constants["weight"])]
    if work.group:
        arrays.append(_group_words(tiling, constants))
    elif work.quantised and tiling.fragments.shifted:
        zeros = _rows(tiling, constants["zero_point"])[:, 0] if work.zero_points else 0
        zeros = np.broadcast_to(np.asarray(zeros, np.int32), tiling.weight_rows)
        taken = tiling.fragments.taken_of(zeros, _second_rows(tiling)).astype(np.uint32)
        arrays.append(taken | taken << 16)
    if work.scaled:
        scale = np.asarray(constants["scale"], np.float32)
        arrays.append(row_scale(work, _rows(tiling, scale)))
    if work.bias:
        bias = np.asarray(constants["bias"], np.float32)[..., None]
        arrays.append(_rows(tiling, bias)[:, 0])
    return tuple(map(np.ascontiguousarray, arrays))


def packs_by(tiling: MixedSyncTiling) -> Hashable:
    """What `pack` asks of a tiling besides its workload: padded extents, the order of weights."""
    return tiling.padded_n, tiling.padded_k, tiling.config.widening, tiling.config.layout


def _rows(tiling: MixedSyncTiling, array: np.ndarray) -> np.ndarray:
    """An array [..., n, columns] with the rows of all products, those of each padded by zeros."""
    array = np.asarray(array)
    by_product = array.reshape(tiling.workload.batch, tiling.workload.n, -1)
    padded = np.pad(by_product, [(0, 0), (0, tiling.padded_n - tiling.workload.n), (0, 0)])
    return padded.reshape(tiling.weight_rows, -1)


def _second_rows(tiling: MixedSyncTiling) -> np.ndarray:
    """Whether each row is one of the upper eight of sixteen."""
    return np.arange(tiling.weight_rows) % ROW_TILE >= 8


def _weights(tiling: MixedSyncTiling, weight: np.ndarray) -> np.ndarray:
    """Padded weights in rows, or in the order of fragments, uint8."""
    work, fragments = tiling.workload, tiling.fragments
    pad = [(0, 0), (0, tiling.padded_k - work.k)]
    if not work.quantised:
        return np.ascontiguousarray(np.pad(_rows(tiling, weight), pad)).view(np.uint8).reshape(-1)
    stored = (np.asarray(weight).astype(np.int16) + fragments.offset).astype(np.uint8)
    stored = np.pad(_rows(tiling, stored), pad)
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
    scale = _rows(tiling, np.asarray(constants["scale"], np.float32))
    share = scale / row_scale(work, scale)[:, None]
    share = share.astype(element(work.in_dtype).dtype).view(np.uint16).astype(np.uint32)
    zeros = _rows(tiling, constants["zero_point"]) if work.zero_points else np.zeros_like(scale)
    pad = [(0, 0), (0, tiling.group_columns - work.groups)]
    zeros = np.pad(zeros.astype(np.int32), pad)
    taken = tiling.fragments.taken_of(zeros, _second_rows(tiling)[:, None])
    return (np.pad(share, pad) | taken.astype(np.uint32) << 16).T.reshape(-1)
