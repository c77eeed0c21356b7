"""Convolutions that the direct and depthwise templates are tested on, and constants for them."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm

_F32 = {"in_dtype": "float32", "weight_dtype": "float32"}
_SAME = {"padding": (1, 1, 1, 1)}


def depthwise(n: int, h: int, w: int, c: int, r: int, s: int, **fields: object) -> Conv2d:
    """A convolution with one channel a group."""
    return Conv2d(n, h, w, c, c, r, s, groups=c, **fields)


DIRECT = (
    Conv2d(2, 7, 7, 16, 8, 3, 3, **_SAME),
    Conv2d(1, 9, 8, 12, 12, 3, 5, (2, 1), (2, 1, 1, 2), (1, 2), 3, in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("uint8", "int8")),
    Conv2d(2, 7, 9, 3, 10, 7, 7, (2, 2), (3, 3, 3, 3), in_dtype="uint8", zero_point_border=True),
    Conv2d(2, 6, 6, 4, 4, 1, 1, epilogue=Epilogue("int32")),
    Conv2d(2, 6, 6, 8, 8, 1, 1, epilogue=Epilogue("float32", "uint8")),
    Conv2d(2, 6, 6, 8, 8, 3, 3, **_SAME, zero_point_border=True,
           epilogue=Epilogue("int8", "int8", True)),
    Conv2d(2, 6, 6, 8, 7, 3, 3, **_SAME, epilogue=Epilogue("int8", "float32")),
    Conv2d(2, 6, 6, 6, 12, 3, 3, **_SAME, groups=6, zero_point_border=True),
    Conv2d(2, 6, 6, 8, 6, 3, 3, **_SAME, **_F32, epilogue=Epilogue("float32", "float32")),
    Conv2d(2, 6, 6, 3, 5, 3, 3, **_SAME, **_F32, epilogue=Epilogue("float32")),
    Conv2d(2, 6, 6, 8, 13, 1, 1, epilogue=Epilogue("uint8", "int8", True, concatenates=True)),
    Gemm(5, 10, 64),
    Gemm(5, 12, 64, epilogue=Epilogue("uint8", table=True)),
    Conv2d(2, 6, 6, 8, 7, 3, 3, **_SAME, epilogue=Epilogue("int8", table=True)),
    Gemm(7, 12, 30, "uint8", epilogue=Epilogue("int8", "uint8", True)),
    Gemm(3, 9, 16, **_F32, epilogue=Epilogue("float32")),
)  # fmt: skip
DEPTHWISE = (
    depthwise(2, 8, 9, 16, 3, 3, **_SAME),
    depthwise(2, 8, 9, 12, 3, 3, **_SAME, zero_point_border=True,
              epilogue=Epilogue("uint8", "int8", table=True)),
    depthwise(2, 8, 9, 6, 3, 3, stride=(2, 2), **_SAME, in_dtype="uint8", zero_point_border=True,
              epilogue=Epilogue("int8", "int8", True)),
    depthwise(1, 12, 13, 5, 5, 3, stride=(1, 2), padding=(2, 1, 2, 1), dilation=(2, 2),
              in_dtype="uint8", zero_point_border=True, epilogue=Epilogue("uint8")),
    depthwise(1, 12, 13, 8, 9, 7, stride=(2, 3), padding=(4, 3, 4, 3), zero_point_border=True,
              epilogue=Epilogue("int32")),
    depthwise(2, 7, 7, 8, 3, 3, **_SAME, **_F32, epilogue=Epilogue("float32", "float32")),
    depthwise(2, 3, 3, 8, 3, 3, **_F32, epilogue=Epilogue("float32")),
)  # fmt: skip


def case_id(workload: Conv2d | Gemm) -> str:
    """A readable name of a case."""
    return f"{str(workload).replace(' ', '-')}-{workload.in_dtype}-{workload.epilogue.out_dtype}"


def random_convolution(workload: Conv2d | Gemm, rng: np.random.Generator) -> tuple[list, dict]:
    """Activations in parameter order and constants whose outputs fill the range and saturate."""
    conv = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    epilogue = conv.epilogue
    activations = [_array(rng, workload.x_shape, conv.in_dtype)]
    if epilogue.residual_dtype:
        activations.append(_array(rng, workload.y_shape, epilogue.residual_dtype))
    constants = {"weight": _array(rng, workload.weight_shape, conv.weight_dtype)}
    if conv.in_dtype == "float32":
        constants["bias"] = _array(rng, (conv.k,), "float32")
        constants["scalars"] = pack_scalars(low=-3, high=4)
        return activations, constants
    # Without a border table, padding may only be a zero point of 0.
    plain_border = any(conv.padding) and not conv.zero_point_border
    constants["x_zero_point"] = 0 if plain_border else int(_array(rng, (1,), conv.in_dtype)[0])
    constants["bias"] = rng.integers(-1000, 1000, conv.k).astype(np.int32)
    spread = 74 * 74 * np.sqrt(np.prod(conv.weight_shape[1:]))
    scalars = {}
    if epilogue.out_dtype != "int32":
        constants["scale"] = (rng.uniform(20, 100, conv.k) / spread).astype(np.float32)
    if epilogue.concatenates:
        constants["scale"][::3] = 0
    if epilogue.out_dtype in INTEGER_RANGE:
        low, high = INTEGER_RANGE[epilogue.out_dtype]
        zero_point = int(_array(rng, (1,), epilogue.out_dtype)[0])
        scalars = {"low": low - zero_point, "high": high - zero_point, "zero_point": zero_point}
    if epilogue.out_dtype == "float32":
        scalars = {"low": -50, "high": 60}
    if epilogue.residual_dtype:
        scalars |= {"residual_scale": 0.37, "residual_zero_point": 3}
    if epilogue.requantize_before_add:
        scalars |= {"accumulator_low": -100, "accumulator_high": 90, "accumulator_scale": 0.83}
    constants["scalars"] = pack_scalars(**scalars)
    if epilogue.table:
        constants["table"] = _array(rng, (256,), epilogue.out_dtype)
    return activations, constants


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return rng.standard_normal(shape).astype(dtype)
    low, high = INTEGER_RANGE[dtype]
    return rng.integers(low, high + 1, shape).astype(dtype)
