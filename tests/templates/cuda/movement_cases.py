"""Workloads limited by memory that the CUDA templates are tested on, and constants for them."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.layout import NHWC, NHWCNC
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.cuda.movement import (
    add,
    concat,
    dequantize,
    lookup,
    pool2d,
    quantize,
    relayout,
)
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout

Movement = Pool2d | Add | Concat | Quantize | Dequantize | Lookup | Relayout

TEMPLATES = {
    Pool2d: pool2d.TEMPLATE,
    Add: add.TEMPLATE,
    Concat: concat.TEMPLATE,
    Quantize: quantize.TEMPLATE,
    Dequantize: dequantize.TEMPLATE,
    Lookup: lookup.TEMPLATE,
    Relayout: relayout.TEMPLATE,
}

_U8 = {"in_dtype": "uint8", "out_dtype": "uint8"}
_F32 = {"in_dtype": "float32", "out_dtype": "float32"}

POOLS = (
    Pool2d("max", 2, 14, 14, 64, 3, 3, (2, 2), (1, 1, 1, 1)),
    Pool2d("max", 2, 14, 14, 6, 3, 3, (2, 2), (1, 1, 1, 1), **_U8),
    Pool2d("max", 2, 14, 15, 24, 2, 3, (2, 1), (1, 0, 0, 1), in_dtype="uint8", requantize=True),
    Pool2d("max", 2, 7, 7, 80, 8, 8, (1, 1), (0, 0, 1, 1), requantize=True),
    Pool2d("max", 1, 10, 11, 6, 3, 3, (2, 2), (1, 1, 1, 1), **_F32),
    Pool2d("average", 2, 14, 15, 17, 5, 3, (2, 1), (1, 0, 0, 2), in_dtype="uint8"),
    Pool2d("average", 2, 9, 9, 48, 3, 3, (2, 2), (1, 1, 2, 2), count_include_pad=True),
    Pool2d("average", 1, 19, 19, 16, 9, 9, (1, 1), (1, 1, 2, 2)),
    Pool2d("average", 1, 10, 11, 12, 3, 3, (2, 2), (1, 1, 1, 1), **_F32),
    Pool2d("average", 2, 7, 7, 256, 7, 7),
    Pool2d("average", 2, 17, 13, 144, 17, 13),
    Pool2d("average", 2, 8, 8, 3, 8, 8, **_U8),
    Pool2d("average", 2, 7, 7, 80, 8, 8, (1, 1), (0, 1, 1, 0), count_include_pad=True),
    Pool2d("average", 2, 14, 14, 20, 14, 14, **_F32),
    # Windows that a cluster of blocks shares on sm_90.
    Pool2d("average", 2, 112, 112, 32, 112, 112, in_dtype="uint8"),
    Pool2d("average", 1, 51, 56, 144, 52, 57, (1, 1), (1, 1, 0, 0), count_include_pad=True),
    Pool2d("average", 1, 75, 60, 8, 75, 60),
    Pool2d("average", 1, 70, 60, 12, 70, 60, **_F32),
    Pool2d("max", 1, 70, 61, 36, 70, 61, requantize=True),
)
ADDS = (
    Add((2, 7, 7, 64)),
    Add((3, 5, 7, 3), "uint8", "int8", "uint8"),
    Add((1, 1000), "uint8", "float32", "int8"),
    Add((2, 3, 5, 7), "float32", "float32", "float32"),
    Add((3,)),
)
CONCATS = (
    Concat(98, (64, 32), ("int8", "int8"), (False, False)),
    Concat(49, (16, 24, 8), ("int8", "uint8", "int8"), (True, True, False)),
    Concat(31, (17, 3, 1, 11), ("uint8",) * 4, (True, False, True, False), "uint8"),
    Concat(49, (16, 208, 48), ("uint8",) * 2, (True, True, False), "uint8", sources=(0, 1, 1)),
    Concat(31, (5, 3, 1), ("int8",) * 2, (True, False, True), sources=(1, 0, 1)),
    Concat(20, (12, 4, 6), ("float32",) * 3, (False,) * 3, "float32"),
)
QUANTIZES = (
    Quantize(2, 14, 14, 3, 16, 2),
    Quantize(2, 15, 13, 3, 3),
    Quantize(1, 9, 9, 20, 32),
    Quantize(1, 1, 1, 1000, 1000),
    Quantize(2, 8, 8, 3, 24, 2, "NCHW", "uint8"),
    Quantize(2, 8, 8, 3, 16, 2, "NHWC", "uint8"),
    Quantize(2, 8, 8, 24, 32, 1, "NHWC"),
    Quantize(2, 8, 6, 5, 5, 1, "NHWC", "uint8"),
    Quantize(2, 32, 16, 3, 768, 16, planes=True),
    Quantize(1, 8, 16, 3, 48, 4, out_dtype="uint8", planes=True),
    Quantize(2, 9, 6, 3, 32, 3, planes=True),
    Quantize(2, 8, 8, 5, 80, 4, "NHWC", planes=True),
)
DEQUANTIZES = (
    Dequantize(2, 7, 7, 64),
    Dequantize(2, 7, 9, 3, "NCHW", "uint8"),
    Dequantize(1, 13, 13, 130),
    Dequantize(3, 1, 1, 1001),
    Dequantize(2, 5, 5, 13, "NHWC", "uint8"),
)
LOOKUPS = (
    Lookup((2, 9, 9, 64)),
    Lookup((3, 5, 7, 3), "uint8", "int8"),
    Lookup((2, 131), "int8", "uint8"),
    Lookup((3, 100), "uint8", "float32"),
    Lookup((3,)),
)
RELAYOUTS = (
    Relayout(8, 7, 7, 64, NHWC, NHWCNC),
    Relayout(16, 5, 3, 48, NHWCNC, NHWC, "uint8"),
    Relayout(24, 1, 2, 16, NHWC, NHWCNC, "uint8"),
    Relayout(8, 1, 1, 16, NHWCNC, NHWC),
    Relayout(8, 7, 5, 64, NHWC, NHWCNC, "int4"),
    Relayout(16, 3, 2, 96, NHWCNC, NHWC, "uint4"),
)
_S4 = {"in_dtype": "int4", "out_dtype": "int4"}
FOUR_BITS = (
    Pool2d("max", 2, 14, 14, 64, 3, 3, (2, 2), (1, 1, 1, 1), **_S4),
    Pool2d("max", 2, 9, 8, 6, 2, 3, (1, 2), (1, 1, 0, 1), in_dtype="uint4", out_dtype="uint4"),
    Pool2d("max", 1, 7, 7, 48, 7, 7, in_dtype="int4", out_dtype="uint4", requantize=True),
    Pool2d("average", 2, 7, 7, 80, 7, 7, **_S4),
    Pool2d("max", 1, 60, 60, 24, 60, 60, **_S4),
    Add((2, 7, 7, 66), "int4", "uint4", "int4"),
    Add((3, 5, 10), "uint4", "int8", "uint8"),
    Concat(49, (16, 24, 6), ("int4", "uint4", "int4"), (True, True, False), "int4"),
    Quantize(2, 14, 14, 3, 16, 2, out_dtype="int4"),
    Quantize(2, 6, 5, 3, 33, out_dtype="int4"),
    Quantize(2, 8, 8, 24, 32, 1, "NHWC", "uint4"),
    Dequantize(2, 7, 7, 64, in_dtype="int4"),
    Dequantize(2, 7, 9, 3, "NCHW", "uint4"),
    Dequantize(3, 1, 1, 1001, in_dtype="int4"),
)
CASES: tuple[Movement, ...] = (
    *POOLS, *ADDS, *CONCATS, *QUANTIZES, *DEQUANTIZES, *LOOKUPS, *RELAYOUTS, *FOUR_BITS
)  # fmt: skip


def case_id(workload: Movement) -> str:
    """A readable name of a case."""
    return str(workload).replace(" ", "-")


def random_movement(
    workload: Movement, rng: np.random.Generator
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Activations in parameter order and scalars whose outputs fill the range and saturate."""
    if isinstance(workload, Concat):
        activations = [_array(rng, x.shape, x.dtype) for x in workload.inputs]
        rows = [
            [_zero_point(rng, part.dtype), rng.uniform(0.3, 1.3), *_bounds(rng, workload.out_dtype)]
            for part in workload.parts
        ]
        return activations, {"scalars": np.array(rows, np.float32)}
    if isinstance(workload, Add):
        dtypes = (workload.a_dtype, workload.b_dtype)
        activations = [_array(rng, workload.shape, dtype) for dtype in dtypes]
        scalars = [
            value for dtype in dtypes for value in (_zero_point(rng, dtype), rng.uniform(0.3, 1.3))
        ]
        scalars += _bounds(rng, workload.out_dtype)
    elif isinstance(workload, Quantize):
        activations = [_array(rng, workload.x_shape, "float32")]
        scalars = [rng.uniform(0.1, 1.0), *_bounds(rng, workload.out_dtype)]
    elif isinstance(workload, Relayout):
        return [_array(rng, workload.x_shape, workload.in_dtype)], {}
    elif isinstance(workload, Lookup):
        table = _array(rng, (256,), workload.out_dtype)
        return [_array(rng, workload.shape, workload.in_dtype)], {"table": table}
    else:
        activations = [_array(rng, workload.x_shape, workload.in_dtype)]
        scalars = [_zero_point(rng, workload.in_dtype), rng.uniform(0.3, 1.3)]
        if isinstance(workload, Pool2d):
            scalars += _bounds(rng, workload.out_dtype)
    return activations, {"scalars": np.array(scalars, np.float32)}


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return (rng.standard_normal(shape) * 40).astype(dtype)
    low, high = INTEGER_RANGE[dtype]
    return rng.integers(low, high + 1, shape).astype(value_dtype(dtype))


def _zero_point(rng: np.random.Generator, dtype: str) -> int:
    return 0 if dtype == "float32" else int(_array(rng, (1,), dtype)[0])


def _bounds(rng: np.random.Generator, dtype: str) -> list[float]:
    """low, high and zero_point of an output."""
    if dtype == "float32":
        return [-30.0, 50.0, 0.0]
    zero_point, (low, high) = _zero_point(rng, dtype), INTEGER_RANGE[dtype]
    return [low - zero_point, high - zero_point, zero_point]
