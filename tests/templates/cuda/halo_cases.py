"""Workloads that the halo templates are tested on, and random constants for them."""

from __future__ import annotations

import dataclasses

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.oracle.reference import reference

CASES = (
    Conv2d(n=2, h=56, w=56, c=64, k=64, r=3, s=3, padding=(1, 1, 1, 1)),
    Conv2d(n=3, h=28, w=28, c=128, k=128, r=3, s=3, padding=(1, 1, 1, 1),
           epilogue=Epilogue("int8", "int8", True)),
    Conv2d(n=4, h=14, w=14, c=256, k=256, r=3, s=3, padding=(1, 1, 1, 1), in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("uint8", "uint8")),
    Conv2d(n=5, h=7, w=7, c=512, k=512, r=3, s=3, padding=(1, 1, 1, 1), in_dtype="uint8",
           epilogue=Epilogue("uint8")),
    Conv2d(n=2, h=115, w=115, c=16, k=64, r=4, s=4, in_dtype="uint8", epilogue=Epilogue("uint8")),
    Conv2d(n=2, h=19, w=23, c=16, k=32, r=3, s=3, padding=(0, 2, 1, 0), zero_point_border=True,
           border_bias=True),
    Conv2d(n=3, h=13, w=17, c=48, k=72, r=5, s=3, padding=(2, 1, 3, 0), dilation=(2, 3),
           zero_point_border=True, epilogue=Epilogue("float32", "float32")),
    Conv2d(n=2, h=13, w=17, c=32, k=10, r=1, s=7, padding=(0, 3, 0, 3),
           epilogue=Epilogue("int32")),
    Conv2d(n=1, h=9, w=31, c=96, k=100, r=7, s=1, padding=(3, 0, 3, 0), in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("int8", "uint8", True)),
    Conv2d(n=3, h=28, w=28, c=128, k=128, r=3, s=3, padding=(1, 1, 1, 1), in_dtype="uint8",
           epilogue=Epilogue("uint8")),
    Conv2d(n=2, h=14, w=14, c=256, k=256, r=3, s=3, padding=(1, 1, 1, 1), in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("int8")),
    Conv2d(n=2, h=20, w=30, c=48, k=80, r=3, s=3, padding=(0, 2, 1, 1), in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("int8")),
    Conv2d(n=3, h=13, w=15, c=160, k=208, r=2, s=5, dilation=(2, 1), padding=(3, 0, 0, 4),
           epilogue=Epilogue("uint8")),
    Conv2d(n=2, h=9, w=11, c=32, k=48, r=3, s=3, padding=(1, 1, 1, 1), zero_point_border=True,
           epilogue=Epilogue("uint8", table=True)),
    Conv2d(n=1, h=5, w=6, c=160, k=24, r=2, s=2, padding=(1, 0, 0, 1), epilogue=Epilogue("uint8")),
)  # fmt: skip


def random_arrays(workload: Conv2d, rng: np.random.Generator) -> tuple[list[np.ndarray], dict]:
    """Activations in parameter order and constants whose outputs fill the range and saturate."""
    epilogue = workload.epilogue
    low, high = INTEGER_RANGE[workload.in_dtype]
    x = rng.integers(low, high + 1, workload.x_shape).astype(workload.in_dtype)
    weight = rng.integers(-128, 128, workload.weight_shape).astype(np.int8)
    spread = 74.0 * 74.0 * np.sqrt(workload.r * workload.s * workload.c)
    scalars = {"residual_scale": 0.37, "residual_zero_point": 3.0}
    if epilogue.out_dtype in INTEGER_RANGE:
        low, high = INTEGER_RANGE[epilogue.out_dtype]
        zero_point = 5 if epilogue.out_dtype == "int8" else 121
        scalars |= {"low": low - zero_point, "high": high - zero_point, "zero_point": zero_point}
    if epilogue.requantize_before_add:
        scalars |= {"accumulator_low": -128, "accumulator_high": 127, "accumulator_scale": 0.83}
    activations = [x]
    if epilogue.residual_dtype == "float32":
        activations.append(rng.normal(size=workload.y_shape).astype(np.float32))
    elif epilogue.residual_dtype:
        low, high = INTEGER_RANGE[epilogue.residual_dtype]
        residual = rng.integers(low, high + 1, workload.y_shape)
        activations.append(residual.astype(epilogue.residual_dtype))
    (bias,) = (spec.shape for spec in workload.constants if spec.name == "bias")
    constants = {
        "weight": weight,
        "bias": rng.integers(-5000, 5000, bias).astype(np.int32),
        "scale": (rng.uniform(20, 80, workload.k) / spread).astype(np.float32),
        "scalars": pack_scalars(**scalars),
        "x_zero_point": 7 if workload.zero_point_border else 0,
    }
    if epilogue.table:
        constants["table"] = np.frombuffer(rng.bytes(256), epilogue.out_dtype)
    if epilogue.out_dtype == "int32":
        del constants["scale"]
    return activations, constants


def assert_sums(y: np.ndarray, workload: Conv2d, x: np.ndarray, weight: np.ndarray) -> None:
    """Fail unless y holds the sums of a convolution, before bias and scales."""
    plain = dataclasses.replace(workload, epilogue=Epilogue("int32"))
    constants = {"weight": weight, "bias": np.zeros(workload.k, np.int32),
                 "scalars": np.zeros(8, np.float32)}  # fmt: skip
    np.testing.assert_array_equal(y, reference(plain, [x.astype(np.int8)], constants))
