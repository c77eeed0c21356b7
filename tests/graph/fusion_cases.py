"""One fusion for each primitive, with odd sizes, and some that chain several primitives."""

from __future__ import annotations

import numpy as np

from autoq.graph import Fusion, Primitive
from autoq.graph.shapes import BINARY, UNARY

IMAGE = (2, 5, 7, 24)


def fusion(
    primitives: list[Primitive], shapes: list[tuple[int, ...]], output: tuple[int, ...],
    dtypes: list[str] | None = None, constants: tuple[np.ndarray, ...] = (),
) -> Fusion:  # fmt: skip
    """A fusion over inputs named x0, x1, ..."""
    names = tuple(f"x{i}" for i in range(len(shapes)))
    types = tuple(dtypes or ["float32"] * len(shapes))
    return Fusion(tuple(primitives), names, tuple(shapes), types, constants, "y", output, ("node",))


def primitive(op: str, *arguments: int, dtype: str = "float32", **attributes: object) -> Primitive:
    return Primitive(op, arguments, dtype, tuple(sorted(attributes.items())))


_ATTRIBUTES = {
    "Clip": {"low": -0.5, "high": 0.75},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.1},
    "Elu": {"alpha": 1.5},
}


def _elementwise() -> dict[str, Fusion]:
    cases = {
        op: fusion([primitive(op, 0, **_ATTRIBUTES.get(op, {}))], [IMAGE], IMAGE) for op in UNARY
    }
    for op in BINARY:
        cases[op] = fusion([primitive(op, 0, 1)], [IMAGE, (1, 1, 1, 24)], IMAGE)
    chosen = [primitive("Greater", 0, 1), primitive("Where", 2, 0, 1)]
    cases["Where"] = fusion(chosen, [IMAGE, (1, 1, 1, 24)], IMAGE)
    return cases


def _structured() -> dict[str, Fusion]:
    conv = primitive("Conv", 0, 1, strides=(2, 1), dilations=(1, 2), groups=2, pads=(1, 0, 2, 1))
    window = {"window": (3, 2), "strides": (1, 2), "dilations": (2, 3), "pads": (2, 1, 1, 0)}
    return {
        "softmax_last": fusion([primitive("Softmax", 0, axis=1)], [(3, 1000)], (3, 1000)),
        "softmax_middle": fusion([primitive("Softmax", 0, axis=1)], [(2, 5, 7)], (2, 5, 7)),
        "lrn": fusion(
            [primitive("LRN", 0, axis=3, size=5, alpha=1e-2, beta=0.75, bias=2.0)], [IMAGE], IMAGE
        ),
        "lrn_even": fusion(
            [primitive("LRN", 0, axis=1, size=4, alpha=0.1, beta=0.5, bias=1.0)], [IMAGE], IMAGE
        ),
        "pad": fusion(
            [primitive("Pad", 0, before=(0, 1, 0, 2), after=(0, 0, 3, 0), value=1.5)], [IMAGE],
            (2, 6, 10, 26),
        ),
        "slice": fusion(
            [primitive("Slice", 0, starts=(0, 4, 1, 0), ends=(2, -1, 7, 24), steps=(1, -2, 3, 1))],
            [IMAGE], (2, 3, 2, 24),
        ),
        "transpose": fusion([primitive("Transpose", 0, perm=(0, 3, 1, 2))], [IMAGE], (2, 24, 5, 7)),
        "shuffle": fusion([primitive("ChannelShuffle", 0, axis=3, groups=4)], [IMAGE], IMAGE),
        "windows": fusion(
            [primitive("Windows", 0, axis=3, **window)], [(2, 9, 11, 3)], (2, 8, 5, 18)
        ),
        "windows_first": fusion(
            [primitive("Windows", 0, axis=1, **window)], [(2, 3, 9, 11)], (2, 18, 8, 5)
        ),
        "concat": fusion(
            [primitive("Concat", 0, 1, 2, axis=1)], [(2, 3, 4), (2, 1, 4), (2, 6, 4)], (2, 10, 4)
        ),
        "mean": fusion([primitive("ReduceMean", 0, axes=(1, 3))], [IMAGE], (2, 1, 7, 1)),
        "most_of_rows": fusion([primitive("ReduceMax", 0, axes=(2,))], [(2, 3, 5)], (2, 3, 1)),
        "most": fusion([primitive("ReduceMax", 0, axes=(1, 3))], [IMAGE], (2, 1, 7, 1)),
        "sum": fusion([primitive("ReduceSum", 0, axes=(1, 3))], [IMAGE], (2, 1, 7, 1)),
        "sum_of_rows": fusion([primitive("ReduceSum", 0, axes=(2,))], [(2, 3, 40)], (2, 3, 1)),
        "sum_int32": fusion(
            [primitive("ReduceSum", 0, dtype="int32", axes=(0,))], [(3, 5)], (1, 5), ["int32"]
        ),
        "expand": fusion([primitive("Expand", 0, shape=(3, 2, 5, 4))], [(2, 1, 4)], (3, 2, 5, 4)),
        "gather": fusion(
            [primitive("Gather", 0, 1, axis=1)], [(2, 9, 4), (3, 5)], (2, 3, 5, 4),
            ["float32", "int32"],
        ),
        "take": fusion(
            [primitive("Take", 0, 1, 2, axes=(1, 2))], [IMAGE], (2, 3, 4, 24), None,
            (np.int32([4, 0, 4]), np.int32([6, 1, 0, 3])),
        ),
        "interpolate": fusion(
            [primitive("Interpolate", 0, 1, 2, 3, 4, axes=(1, 2))], [IMAGE], (2, 3, 2, 24), None,
            (
                np.int32([[4, 0, 1], [2, 2, 3]]), np.float32([[0.5, 1, -1], [0.25, 0, 3]]),
                np.int32([[6, 0]]), np.float32([[0.5, 2]]),
            ),
        ),
        "matmul": fusion(
            [primitive("MatMul", 0, 1)], [(2, 3, 9, 20), (3, 20, 13)], (2, 3, 9, 13)
        ),
        "gemm": fusion([primitive("Gemm", 0, 1, 2)], [(9, 20), (13, 20), (13,)], (9, 13)),
        "matmul_int8": fusion(
            [
                primitive("dequantize", 0, scale=0.125, zero_point=-22),
                primitive("dequantize", 1, scale=0.0625, zero_point=9),
                primitive("MatMul", 2, 3),
            ],
            [(2, 3, 9, 6), (3, 6, 13)], (2, 3, 9, 13), ["int8", "int8"],
        ),
        "gemm_int8": fusion(
            [
                primitive("dequantize", 0, scale=0.125, zero_point=-22),
                primitive("dequantize", 1, scale=0.0625, zero_point=9),
                primitive("Gemm", 2, 3),
            ],
            [(9, 6), (13, 6)], (9, 13), ["int8", "int8"],
        ),
        "conv": fusion([conv], [(1, 4, 9, 11), (6, 2, 3, 3)], (1, 6, 5, 8)),
        "max_pool": fusion([primitive("MaxPool", 0, **window)], [(2, 3, 9, 11)], (2, 3, 8, 5)),
        "max_pool_int8": fusion(
            [primitive("MaxPool", 0, dtype="int8", **window)],
            [(2, 3, 9, 11)], (2, 3, 8, 5), ["int8"],
        ),
        "average_pool": fusion(
            [primitive("AveragePool", 0, include_pad=False, **window)],
            [(2, 3, 9, 11)], (2, 3, 8, 5),
        ),
        "average_pool_include": fusion(
            [primitive("AveragePool", 0, include_pad=True, **window)], [(2, 3, 9, 11)], (2, 3, 8, 5)
        ),
    }  # fmt: skip


def _chains() -> dict[str, Fusion]:
    dequantize = primitive("dequantize", 0, scale=0.05, zero_point=3)
    quantize = {"dtype": "int8", "scale": 0.02, "zero_point": -5, "low": -123.0, "high": 132.0}
    channels = np.linspace(0.5, 1.5, 24, dtype=np.float32).reshape(1, 1, 1, 24)
    return {
        "dequantize+mul+relu+quantize": fusion(
            [
                primitive("dequantize", 0, scale=0.05, zero_point=3),
                primitive("Mul", 2, 1),
                primitive("Relu", 3),
                primitive("quantize", 4, **quantize),
            ],
            [IMAGE], IMAGE, ["uint8"], (channels,),
        ),
        "dequantize+softmax+quantize": fusion(
            [dequantize, primitive("Softmax", 1, axis=1), primitive("quantize", 2, **quantize)],
            [(3, 100)], (3, 100), ["int8"],
        ),
        "add mixed": fusion(
            [primitive("dequantize", 0, scale=0.05, zero_point=3), primitive("Add", 2, 1)],
            [IMAGE, IMAGE], IMAGE, ["int8", "float32"],
        ),
        "scalar": fusion([primitive("Add", 0, 1)], [(), ()], ()),
        "int32": fusion(
            [primitive("Cast", 0), primitive("Mul", 1, 1)], [(4, 6)], (4, 6), ["int32"]
        ),
    }  # fmt: skip


CASES = {**_elementwise(), **_structured(), **_chains()}


def random_inputs(node: Fusion, seed: int = 0) -> list[np.ndarray]:
    """Arrays for a fusion's inputs; positive where logarithms and powers need it."""
    rng = np.random.default_rng(seed)
    positive = {"Log", "Sqrt", "Pow"} & {s.op for s in node.primitives}
    arrays = []
    for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True):
        if dtype == "float32":
            array = rng.standard_normal(shape).astype(np.float32)
            arrays.append(np.abs(array) + np.float32(0.1) if positive else array)
        else:
            limits = np.iinfo(dtype)
            low, high = max(limits.min, -1000), min(limits.max, 1000) + 1
            arrays.append(rng.integers(low, high, shape).astype(dtype))
    return arrays
