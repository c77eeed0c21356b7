"""Operators over rows that the CUDA kernel is tested on: softmax, means, normalisations."""

from __future__ import annotations

import numpy as np

from autoq.graph import Fusion, Step


def step(op: str, *arguments: int, dtype: str = "float32", **attributes: object) -> Step:
    """A step; its attributes are in the order of their names."""
    return Step(op, arguments, dtype, tuple(sorted(attributes.items())))


def _fusion(
    steps: list[Step], shapes: list[tuple[int, ...]], dtypes: list[str], output: tuple[int, ...],
    constants: tuple[np.ndarray, ...] = (),
) -> Fusion:  # fmt: skip
    names = tuple(f"x{index}" for index in range(len(shapes)))
    shapes_and_types = tuple(shapes), tuple(dtypes)
    return Fusion(tuple(steps), names, *shapes_and_types, constants, "y", output, ("node",))


def _quantize(argument: int) -> Step:
    scheme = {"scale": 0.031, "zero_point": -5, "low": -123.0, "high": 132.0}
    return step("quantize", argument, dtype="int8", **scheme)


def softmax(*shape: int) -> Fusion:
    """Softmax over the last axis of float32."""
    return _fusion([step("Softmax", 0, axis=len(shape) - 1)], [shape], ["float32"], shape)


def quantised_softmax(
    *shape: int, dtype: str = "int8", step_size: float = 0.03, zero_point: int = 3,
    scale: float = 1 / 255, low: float = 0.0,
) -> Fusion:  # fmt: skip
    """Softmax of bytes of `step_size`, as bytes of `scale`, whose zero point is -low."""
    scheme = {"scale": scale, "zero_point": int(-low), "low": low, "high": low + 255}
    steps = [
        step("dequantize", 0, scale=step_size, zero_point=zero_point),
        step("Softmax", 1, axis=len(shape) - 1),
        step("quantize", 2, dtype="uint8", **scheme),
    ]
    return _fusion(steps, [shape], [dtype], shape)


def masked_softmax(shape: tuple[int, ...], mask: tuple[int, ...]) -> Fusion:
    """Softmax over the last axis of a sum."""
    steps = [step("Add", 0, 1), step("Softmax", 2, axis=len(shape) - 1)]
    return _fusion(steps, [shape, mask], ["float32"] * 2, shape)


def mean(shape: tuple[int, ...], axes: tuple[int, ...]) -> Fusion:
    """The mean over the last axes, which stay as axes of one element."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return _fusion([step("ReduceMean", 0, axes=axes)], [shape], ["float32"], kept)


def norm(*shape: int, quantised: bool = True, constant: bool = False) -> Fusion:
    """A normalisation of the last axis with its scale and shift, from bytes to bytes or float32."""
    channels, axes = shape[-1:], (len(shape) - 1,)
    steps = [
        step("dequantize", 0, scale=0.02, zero_point=3) if quantised else step("Identity", 0),
        step("ReduceMean", 3, axes=axes),
        step("Sub", 3, 4),
        step("Mul", 5, 5),
        step("ReduceMean", 6, axes=axes),
        step("Sqrt", 7),
        step("Div", 5, 8),
        step("Mul", 9, 1),
        step("Add", 10, 2),
    ]
    if quantised:
        steps.append(_quantize(11))
    x = "int8" if quantised else "float32"
    if constant:
        rng = np.random.default_rng(1)
        constants = tuple(rng.standard_normal((2, *channels), np.float32))
        return _fusion(steps, [shape], [x], shape, constants)
    return _fusion(steps, [shape, channels, channels], [x, "float32", "float32"], shape)
