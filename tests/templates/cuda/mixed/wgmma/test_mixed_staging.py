"""What threads put into staging buffers is, where TMA takes it from there, the output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from autoq.templates.cuda.device.memory.swizzle import swizzled_address
from autoq.templates.cuda.device.mma.fragments import accumulator_fragment, gather
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.staging import Staging
from autoq.templates.operators.float_gemm import FloatGemm


@dataclass
class Threads:
    """The 128 threads of a consumer, as `ConsumerThread` has one of them."""

    warp: np.ndarray
    lane: np.ndarray


THREADS = Threads(np.arange(128) // 32, np.arange(128) % 32)


def staged_halves(staging: Staging, registers: np.ndarray, first: int) -> np.ndarray:
    """A buffer of 16-bit results, uint16, as stmatrix fills it from registers [128, n, 2]."""
    buffer = np.zeros(staging.bytes // 2, np.uint16)
    groups = staging.width // 8
    for group in range(0, groups, 2):
        count = min(2, groups - group)
        places = staging.place_matrix_row(THREADS, group, count)
        for warp in range(4):
            for matrix in range(2 * count):
                own = registers[32 * warp : 32 * warp + 32, 2 * (first // 8 + group) + matrix]
                values = own.reshape(8, 8)
                rows = values if staging.left else values.T
                for row in range(8):
                    at = places[32 * warp + 8 * matrix + row] // 2
                    buffer[at : at + 8] = rows[row]
    return buffer


def staged_floats(staging: Staging, registers: np.ndarray, first: int) -> np.ndarray:
    buffer = np.zeros(staging.bytes // 4, np.float32)
    for group in range(staging.width // 8):
        for half in range(2):
            for value in range(2):
                places = staging.place_float(THREADS, group, half, value)
                buffer[places // 4] = registers[:, 2 * (first // 8 + group) + half, value]
    return buffer


@pytest.mark.parametrize("block_m", [8, 24, 40, 64, 112, 216, 256])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("out_dtype", ["float16", "float32"])
def test_slices_make_up_the_tile(out_dtype: str, left: bool, block_m: int) -> None:
    workload = FloatGemm(block_m, 64, 64, out_dtype=out_dtype, weight_left=left)
    staging = Staging(workload, MixedConfig(block_m, 1, 1, 1, 1, 3, 1, 1), False)
    dtype = np.dtype(np.uint16 if out_dtype == "float16" else np.float32)
    d = np.arange(64 * block_m).reshape(64, block_m).astype(dtype)
    registers = gather(d, accumulator_fragment(64, block_m, 1, 4))
    registers = registers.reshape(128, -1, 2)  # pairs of columns, rows eight apart by turns
    found = np.zeros_like(d)
    for slice_ in range(staging.slices):
        first = int(staging.first(slice_))
        stage = staged_halves if dtype.itemsize == 2 else staged_floats
        buffer = stage(staging, registers, first).view(np.uint8)
        boxes = buffer.reshape(staging.boxes, staging.box_bytes)
        plain = boxes[:, swizzled_address(np.arange(staging.box_bytes), staging.row_bytes)]
        values = staging.row_bytes // dtype.itemsize
        rows = np.ascontiguousarray(plain).view(dtype).reshape(staging.boxes, -1, values)
        whole = np.concatenate(list(rows), axis=1)
        found[:, first : first + staging.width] = whole if left else whole.T
    np.testing.assert_array_equal(found, d)
