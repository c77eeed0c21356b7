"""Random full-range inputs and constants of a workload, for checking and timing candidates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autoq.templates.epilogue import INTEGER_RANGE, pack_scalars
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.signature import signature
from autoq.templates.storage import is_four_bit, stored, to_stored, unpack_nibbles
from autoq.templates.table import ENTRIES
from autoq.templates.workload import Workload

Arrays = tuple[np.ndarray, ...]


def random_case(workload: Workload, seed: int) -> tuple[Arrays, dict[str, Any]]:
    """Activations in the order of a template's parameters, and its `Operands`.

    Integers cover their whole range; scales are such that results spread over the output's range
    and some of them meet each bound; zero points are not 0 wherever the workload allows it.
    Four-bit arrays are unpacked, int8 for int4 and uint8 for uint4.
    """
    rng = np.random.default_rng(seed)
    if isinstance(workload, Conv2d | Gemm):
        return _product_case(workload, rng)
    if isinstance(workload, Pool2d):
        return _pool_case(workload, rng)
    if isinstance(workload, Add):
        return _add_case(workload, rng)
    if isinstance(workload, Concat):
        return _concat_case(workload, rng)
    if isinstance(workload, Quantize):
        x = (_array(rng, workload.x_shape, "float32"),)
        low, high, zero_point = _bounds(workload.out_dtype, 3)
        return x, {"scalars": np.array([0.02, low, high, zero_point], np.float32)}
    if isinstance(workload, Dequantize):
        x = (_array(rng, workload.x_shape, workload.in_dtype),)
        zero_point = 5 if workload.in_dtype.startswith("u") else -5
        return x, {"scalars": np.array([zero_point, 0.031], "f4")}
    if isinstance(workload, Lookup):
        x = (_array(rng, workload.shape, workload.in_dtype),)
        return x, {"table": _table(rng, workload.out_dtype)}
    if isinstance(workload, Relayout):
        return (_array(rng, workload.x_shape, workload.in_dtype),), {}
    raise TypeError(f"no random case for {type(workload).__name__}")


def stored_activations(workload: Workload, values: Arrays) -> Arrays:
    """Activations as a kernel takes them: two 4-bit values a byte."""
    inputs, _ = signature(workload)
    return tuple(to_stored(array, dtype) for array, (_, dtype) in zip(values, inputs, strict=True))


def stored_output(workload: Workload, values: np.ndarray) -> np.ndarray:
    """An output as a kernel gives it: two 4-bit values a byte."""
    _, (_, dtype) = signature(workload)
    return to_stored(values, dtype)


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return rng.standard_normal(shape, np.float32)
    if is_four_bit(dtype):
        (*_, row), _ = stored(shape, dtype)
        packed = np.frombuffer(rng.bytes(math.prod(shape[:-1]) * row), np.uint8)
        return unpack_nibbles(packed.reshape(*shape[:-1], row), shape[-1], dtype)
    if dtype in INTEGER_RANGE:
        # Random bytes: several times faster than bounded integers, and activations are large.
        return np.frombuffer(rng.bytes(math.prod(shape)), dtype).reshape(shape).copy()
    return rng.integers(-1000, 1000, shape, dtype)


def _table(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """256 values of a dtype, those of 4 bits unpacked."""
    return _array(rng, (ENTRIES,), dtype)


def _bounds(dtype: str, zero_point: int) -> tuple[float, float, float]:
    """Clamp bounds before the zero point is added, and the zero point."""
    if dtype not in INTEGER_RANGE:
        return -math.inf, math.inf, 0.0
    least, most = INTEGER_RANGE[dtype]
    return float(least - zero_point), float(most - zero_point), float(zero_point)


def _product_case(
    workload: Conv2d | Gemm, rng: np.random.Generator
) -> tuple[Arrays, dict[str, Any]]:
    epilogue = workload.epilogue
    filters = workload.weight_shape[0]
    depth = math.prod(workload.weight_shape[1:])
    x = _array(rng, workload.x_shape, workload.in_dtype)
    weight = _array(rng, workload.weight_shape, workload.weight_dtype)
    activations = [x]
    if epilogue.residual_dtype:
        activations.append(_array(rng, workload.y_shape, epilogue.residual_dtype))
    if workload.in_dtype == "float32":
        bias = rng.standard_normal(filters, np.float32)
        scalars = pack_scalars(low=-2.0 * math.sqrt(depth), high=2.0 * math.sqrt(depth))
        return tuple(activations), {"weight": weight, "bias": bias, "scalars": scalars}
    x_zero_point = _x_zero_point(workload)
    # Standard deviation of a sum of `depth` products of uniform values.
    spread = _deviation(workload.in_dtype) * _deviation(workload.weight_dtype) * math.sqrt(depth)
    # Outputs of 4 bits have a sixteenth of the range.
    step = 1 / 16 if is_four_bit(epilogue.out_dtype) else 1
    low, high, zero_point = _bounds(epilogue.out_dtype, _zero_point(epilogue.out_dtype, 7))
    table = {"table": _table(rng, epilogue.out_dtype)} if epilogue.table else {}
    scale = (rng.uniform(40, 90, filters) * step / spread).astype(np.float32)
    if epilogue.concatenates:
        scale[rng.permutation(filters)[: filters // 2]] = 0
    return tuple(activations), {
        **table,
        "weight": weight,
        "bias": rng.integers(-int(spread), int(spread) + 1, filters, np.int32),
        "scale": scale,
        "scalars": pack_scalars(
            accumulator_low=math.ceil(-125 * step),
            accumulator_high=math.floor(122 * step),
            accumulator_scale=0.613739,
            residual_scale=0.429281,
            residual_zero_point=float(_zero_point(epilogue.residual_dtype or "int8", 9)),
            low=low,
            high=high,
            zero_point=zero_point,
        ),
        "x_zero_point": x_zero_point,
    }


def _x_zero_point(workload: Conv2d | Gemm) -> int:
    if isinstance(workload, Conv2d) and any(workload.padding) and not workload.zero_point_border:
        return 0
    return {"uint8": 119, "int8": -11, "uint4": 6, "int4": -3}[workload.in_dtype]


def _deviation(dtype: str) -> float:
    """Standard deviation of uniform integers."""
    return 4.6 if is_four_bit(dtype) else 74.0


def _zero_point(dtype: str, of_bytes: int) -> int:
    """A zero point of the dtype's sign, a third as large for 4 bits."""
    size = of_bytes // 3 if is_four_bit(dtype) else of_bytes
    return -size if dtype in ("int4", "int8") else size


def _pool_case(workload: Pool2d, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
    low, high, zero_point = _bounds(workload.out_dtype, 4)
    x_zero_point = 0 if workload.in_dtype == "float32" else 6
    scale = 1.0 if workload.in_dtype == "float32" else 0.83
    if workload.kind == "average" and workload.in_dtype != "float32":
        # A mean of many uniform bytes is nearly constant; the scale spreads it out again.
        scale *= math.sqrt(workload.r * workload.s)
    scalars = np.array([x_zero_point, scale, low, high, zero_point], np.float32)
    return (_array(rng, workload.x_shape, workload.in_dtype),), {"scalars": scalars}


def _add_case(workload: Add, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
    low, high, zero_point = _bounds(workload.out_dtype, 5)
    scalars = np.array([3, 0.71, 8, 0.52, low, high, zero_point], np.float32)
    shape = workload.shape
    arrays = (_array(rng, shape, workload.a_dtype), _array(rng, shape, workload.b_dtype))
    return arrays, {"scalars": scalars}


def _concat_case(workload: Concat, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
    low, high, zero_point = _bounds(workload.out_dtype, 2)
    rows = [
        [index + 1, 0.6 + 0.1 * index, low, high, zero_point]
        for index in range(len(workload.channels))
    ]
    arrays = tuple(
        _array(rng, (workload.outer, channels), dtype)
        for channels, dtype in zip(workload.channels, workload.in_dtypes, strict=True)
    )
    return arrays, {"scalars": np.array(rows, np.float32)}
