"""Operators over rows that the CUDA kernel is tested on: softmax, means, normalisations."""

from __future__ import annotations

import numpy as np

from autoq.graph import Fusion, Primitive


def primitive(op: str, *arguments: int, dtype: str = "float32", **attributes: object) -> Primitive:
    """A primitive; its attributes are in the order of their names."""
    return Primitive(op, arguments, dtype, tuple(sorted(attributes.items())))


def _fusion(
    primitives: list[Primitive], shapes: list[tuple[int, ...]], dtypes: list[str],
    output: tuple[int, ...], constants: tuple[np.ndarray, ...] = (),
) -> Fusion:  # fmt: skip
    names = tuple(f"x{index}" for index in range(len(shapes)))
    shapes_and_types = tuple(shapes), tuple(dtypes)
    return Fusion(tuple(primitives), names, *shapes_and_types, constants, "y", output, ("node",))


def _quantize(argument: int) -> Primitive:
    scheme = {"scale": 0.031, "zero_point": -5, "low": -123.0, "high": 132.0}
    return primitive("quantize", argument, dtype="int8", **scheme)


def softmax(*shape: int) -> Fusion:
    """Softmax over the last axis of float32."""
    return _fusion([primitive("Softmax", 0, axis=len(shape) - 1)], [shape], ["float32"], shape)


def quantised_softmax(
    *shape: int, dtype: str = "int8", step_size: float = 0.03, zero_point: int = 3,
    scale: float = 1 / 255, low: float = 0.0,
) -> Fusion:  # fmt: skip
    """Softmax of bytes of `step_size`, as bytes of `scale`, whose zero point is -low."""
    scheme = {"scale": scale, "zero_point": int(-low), "low": low, "high": low + 255}
    primitives = [
        primitive("dequantize", 0, scale=step_size, zero_point=zero_point),
        primitive("Softmax", 1, axis=len(shape) - 1),
        primitive("quantize", 2, dtype="uint8", **scheme),
    ]
    return _fusion(primitives, [shape], [dtype], shape)


def masked_softmax(shape: tuple[int, ...], mask: tuple[int, ...]) -> Fusion:
    """Softmax over the last axis of a sum."""
    primitives = [primitive("Add", 0, 1), primitive("Softmax", 2, axis=len(shape) - 1)]
    return _fusion(primitives, [shape, mask], ["float32"] * 2, shape)


def mean(shape: tuple[int, ...], axes: tuple[int, ...]) -> Fusion:
    """The mean over the last axes, which stay as axes of one element."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return _fusion([primitive("ReduceMean", 0, axes=axes)], [shape], ["float32"], kept)


def most(*shape: int) -> Fusion:
    """The largest element of each negated row."""
    primitives = [primitive("Neg", 0), primitive("ReduceMax", 1, axes=(1,))]
    return _fusion(primitives, [shape], ["float32"], (shape[0], 1))


def norm(*shape: int, quantised: bool = True, constant: bool = False) -> Fusion:
    """A normalisation of the last axis with its scale and shift, from bytes to bytes or float32."""
    channels, axes = shape[-1:], (len(shape) - 1,)
    primitives = [
        primitive("dequantize", 0, scale=0.02, zero_point=3)
        if quantised
        else primitive("Identity", 0),
        primitive("ReduceMean", 3, axes=axes),
        primitive("Sub", 3, 4),
        primitive("Mul", 5, 5),
        primitive("ReduceMean", 6, axes=axes),
        primitive("Sqrt", 7),
        primitive("Div", 5, 8),
        primitive("Mul", 9, 1),
        primitive("Add", 10, 2),
    ]
    if quantised:
        primitives.append(_quantize(11))
    x = "int8" if quantised else "float32"
    if constant:
        rng = np.random.default_rng(1)
        constants = tuple(rng.standard_normal((2, *channels), np.float32))
        return _fusion(primitives, [shape], [x], shape, constants)
    return _fusion(primitives, [shape, channels, channels], [x, "float32", "float32"], shape)


def byte_norm(
    *shape: int, epsilon: float = 1e-6, dtype: str = "uint8", floats: bool = False
) -> Fusion:
    """A layer normalisation from bytes to bytes as quantised models have it, bytes read twice.

    floats: it ends with the floats that the bytes stand for.
    """
    axes, channels = (len(shape) - 1,), shape[-1:]
    primitives = [
        primitive("dequantize", 0, scale=0.02, zero_point=3),
        primitive("ReduceMean", 4, axes=axes),
        primitive("dequantize", 0, scale=0.02, zero_point=3),
        primitive("Sub", 6, 5),
        primitive("Mul", 7, 7),
        primitive("ReduceMean", 8, axes=axes),
        primitive("Add", 9, 1),
        primitive("Sqrt", 10),
        primitive("Div", 7, 11),
        primitive("Mul", 12, 2),
        primitive("Add", 3, 13),
        _quantize(14),
        *([primitive("dequantize", 15, scale=0.031, zero_point=-4)] if floats else []),
    ]
    rng = np.random.default_rng(1)
    constants = (np.float32(epsilon).reshape(()), *rng.standard_normal((2, *channels), np.float32))
    return _fusion(primitives, [shape], [dtype], shape, constants)


def inputs_of(node: Fusion) -> list[np.ndarray]:
    """Random arrays of a fixed seed, one for each input."""
    rng = np.random.default_rng(5)
    return [
        rng.standard_normal(shape, np.float32)
        if dtype == "float32"
        else rng.integers(-128, 128, shape).astype(dtype)
        for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True)
    ]


def assert_agrees(got: np.ndarray, expected: np.ndarray) -> None:
    """float32 within rounding; of bytes one in a thousand may be beside a tie."""
    if expected.dtype == np.float32:
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
        return
    apart = np.abs(got.astype(int) - expected.astype(int))
    assert apart.max() <= 1 and (apart > 0).mean() <= 1e-3
    assert len(np.unique(expected)) > 2
