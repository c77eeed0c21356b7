"""The mma.sync kernel in numpy: its copies, ldmatrix, fragments and instructions."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.layout import to_nhwc
from autoq.templates.arrays.storage import unpack_nibbles
from autoq.templates.cuda.mma_sync.plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync.rows import output_channel, output_start, pixel_of_row
from autoq.templates.cuda.mma_sync.tiling import (
    fragment_of_pixels,
    fragment_of_weights,
)
from autoq.templates.operators.conv2d import Conv2d


def scaled(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """16 times the low and the high nibbles of bytes, int8."""
    return (unit.view(np.uint8) << 4).view(np.int8), (unit.view(np.uint8) & 0xF0).view(np.int8)


def stage_of(plan: MmaSyncPlan, x: np.ndarray, weight: np.ndarray, m: int, n: int, step: int):
    """Bytes of shared memory after the copies of one step, by their definition.

    x: stored activations, int8 [n, h, w, pixel bytes].
    """
    conv, tiling, config = plan.conv, plan.tiling, plan.config
    stage = np.full(tiling.stage_bytes, 99, np.int8)
    group = n // tiling.group_tiles_n
    for index in range(plan.pixel_copies):
        row = min(m * config.block_m + plan.row_of_copy(index), tiling.rows - 1)
        image, p, q = pixel_of_row(conv, row)
        row, column, tile_byte = plan.tap(step, index)
        h = p * conv.stride[0] - conv.padding[0] + row * conv.dilation[0]
        w = q * conv.stride[1] - conv.padding[1] + column * conv.dilation[1]
        piece = step * tiling.pieces_per_stage + plan.piece_of_copy(index)
        read = np.zeros(tiling.piece_read, np.int8)
        if piece < tiling.pieces and 0 <= h < conv.h and 0 <= w < conv.w:
            first = group * plan.source_byte(tiling.group_bytes) + plan.source_byte(tile_byte)
            read = x[image, h, w, first : first + tiling.piece_read]
        value = np.concatenate(scaled(read)) if tiling.unpacks_pixels else read
        for unit in range(-(-len(value) // 16)):
            part = value[unit * 16 : unit * 16 + 16]
            stage[plan.pixel_offset(index, unit) :][: len(part)] = part
    for index in range(plan.weight_copies):
        row, unit = divmod(index, plan.units_read)
        read = np.ascontiguousarray(weight[n, step, row, unit * 16 : unit * 16 + 16])
        for unit, part in enumerate(scaled(read) if tiling.unpacks_weights else (read,)):
            stage[plan.weight_offset(index, unit) :][:16] = part
    return stage


def ldmatrix(stage: np.ndarray, addresses: np.ndarray) -> np.ndarray:
    """The four bytes of each of four registers of 32 lanes: int8 [32, 4, 4]."""
    lanes = np.arange(32)
    found = np.empty((32, 4, 4), np.int8)
    for matrix in range(4):
        rows = addresses[matrix * 8 + lanes // 4]
        for byte in range(4):
            found[:, matrix, byte] = stage[rows + lanes % 4 * 4 + byte]
    return found


def values_of(registers: np.ndarray, compute: str, dtype: str) -> np.ndarray:
    """Values that a multiplication sees in registers int8 [32, r, 4], int64 [32, r, 4 or 8]."""
    if compute == "s4":
        return unpack_nibbles(registers.view(np.uint8), 8, dtype).astype(np.int64)
    return registers.view(np.uint8 if dtype.startswith("u") else np.int8).astype(np.int64)


def large_mma(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """m16n8k32 of bytes or m16n8k64 of nibbles by the PTX manual's fragments.

    a: [32, 4, v], b: [32, 2, v] with the v values of a register; [32, 4].
    """
    lanes, v = np.arange(32), a.shape[2]
    left, right = np.zeros((16, 8 * v), np.int64), np.zeros((8 * v, 8), np.int64)
    for i in range(v):
        for register in range(4):
            row, k = lanes // 4 + register % 2 * 8, lanes % 4 * v + i + register // 2 * 4 * v
            left[row, k] = a[:, register, i]
        for register in range(2):
            right[lanes % 4 * v + i + register * 4 * v, lanes // 4] = b[:, register, i]
    product = left @ right
    d = [
        product[lanes // 4 + register // 2 * 8, lanes % 4 * 2 + register % 2]
        for register in range(4)
    ]
    return np.stack(d, axis=1)


def small_mma(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """m8n8k16 of bytes or m8n8k32 of nibbles: a, b [32, v] -> [32, 2]."""
    lanes, v = np.arange(32), a.shape[1]
    left, right = np.zeros((8, 4 * v), np.int64), np.zeros((4 * v, 8), np.int64)
    for i in range(v):
        left[lanes // 4, lanes % 4 * v + i] = a[:, i]
        right[lanes % 4 * v + i, lanes // 4] = b[:, i]
    product = left @ right
    return np.stack([product[lanes // 4, lanes % 4 * 2 + e] for e in range(2)], axis=1)


def multiply(plan: MmaSyncPlan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What `multiply_registers` adds: a int8 [32, 4, 4], b [32, 2, 4] -> [32, 4]."""
    a = values_of(a, plan.config.compute, plan.conv.in_dtype)
    b = values_of(b, plan.config.compute, plan.conv.weight_dtype)
    if plan.large_mma:
        return large_mma(a, b)
    halves = [sum(small_mma(a[:, 2 * k + half], b[:, k]) for k in range(2)) for half in range(2)]
    return np.concatenate(halves, axis=1)


def accumulate(plan: MmaSyncPlan, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Accumulators as the kernel's threads store them, int64 [n, p, q, k]; x is NHWC."""
    conv, tiling, config = plan.conv, plan.tiling, plan.config
    lanes = np.arange(32)
    y = np.full(tiling.rows * conv.k, -(1 << 40))
    for m, n in np.ndindex(tiling.tiles_m, tiling.tiles_n):
        stages = [stage_of(plan, x, weight, m, n, step) for step in range(tiling.steps)]
        for warp_row, warp_column in np.ndindex(config.BLK_ROW_WARPS, config.BLK_COL_WARPS):
            acc = np.zeros((config.WARP_ROW_TILES, config.WARP_COL_TILES, 32, 4), np.int64)
            for stage, k in ((stage, k) for stage in stages for k in range(config.CHUNK)):
                b = [
                    ldmatrix(
                        stage,
                        plan.weight_start
                        + fragment_of_weights(config, warp_column, pair, k, lanes),
                    )
                    for pair in range(config.WARP_COL_TILES // 2)
                ]
                for i in range(config.WARP_ROW_TILES):
                    at = fragment_of_pixels(config, warp_row, i, k, lanes, plan.pixel_unit_offset)
                    a = ldmatrix(stage, at)
                    for j in range(config.WARP_COL_TILES):
                        part = np.ascontiguousarray(b[j // 2][:, j % 2 * 2 : j % 2 * 2 + 2])
                        acc[i, j] += multiply(plan, a, part)
            acc >>= plan.accumulator_shift
            group, column = divmod(n, tiling.group_tiles_n)
            for i, g, lane, half, e in np.ndindex(
                config.WARP_ROW_TILES, config.column_groups, 32, 2, config.run
            ):
                row = m * config.block_m + warp_row * config.warp_m + i * 16 + half * 8 + lane // 4
                channel = column * config.block_n + warp_column * config.warp_n
                channel += g * 4 * config.run + lane % 4 * config.run + e
                if row < tiling.rows and channel < tiling.group_k:
                    value = acc[i, g * config.run // 2 + e // 2, lane, half * 2 + e % 2]
                    in_row = output_channel(conv, "int8", group * tiling.group_k + channel)
                    y[output_start(conv, "int8", row) + in_row] = value
    return to_nhwc(y.reshape(conv.y_shape), conv.out_layout)


def convolve(conv: Conv2d, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution's definition in integers, int64 [n, p, q, k]."""
    top, left, bottom, right = conv.padding
    padded = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    group_c, group_k = conv.c // conv.groups, conv.k // conv.groups
    y = np.zeros((conv.n, conv.p, conv.q, conv.k), np.int64)
    for k, p, q, r, s in np.ndindex(conv.k, conv.p, conv.q, conv.r, conv.s):
        h = p * conv.stride[0] + r * conv.dilation[0]
        w = q * conv.stride[1] + s * conv.dilation[1]
        first = k // group_k * group_c
        y[:, p, q, k] += padded[:, h, w, first : first + group_c] @ weight[k, r, s]
    return y
