"""Element-wise and row kernels that read or write floats of 16 bits, rounded as numpy rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_runs import emulated_function
from row_cases import primitive
from with_nvcc import needs_nvcc

from autoq.graph import Fusion
from autoq.graph.lowering.fusions import fusion_prim_func, kernel_family
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.graph.shapes import broadcast
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_80")


def fusion(primitives, shapes, dtypes) -> Fusion:
    """A fusion of operands x0, x1, ... whose result is as large as what they broadcast to."""
    names = tuple(f"x{index}" for index in range(len(shapes)))
    shape = broadcast(shapes)
    return Fusion(tuple(primitives), names, tuple(shapes), tuple(dtypes), (), "y", shape, ("n",))


def narrowed(index: int):
    return primitive("Cast", index, dtype="float16")


CASES = {
    "softmax": (
        fusion([primitive("Softmax", 0, axis=2), narrowed(1)], [(3, 4, 40)], ["float32"]), "rows"
    ),
    "softmax of an odd row": (
        fusion([primitive("Softmax", 0, axis=1), narrowed(1)], [(6, 197)], ["float32"]), "rows"
    ),
    "softmax of halves": (
        fusion(
            [primitive("Cast", 0), primitive("Softmax", 1, axis=1), narrowed(2)],
            [(5, 48)], ["float16"],
        ),
        "rows",
    ),
    "centred rows of halves to float32": (
        fusion(
            [primitive("Cast", 0), primitive("ReduceMean", 1, axes=(1,)), primitive("Sub", 1, 2)],
            [(5, 33)], ["float16"],
        ),
        "rows",
    ),
    "sum": (
        fusion(
            [primitive("Cast", 0), primitive("Add", 2, 1), narrowed(3)],
            [(7, 24), (24,)], ["float16", "float32"],
        ),
        "elementwise",
    ),
    "odd numbers of values": (
        fusion([primitive("Tanh", 0), narrowed(1)], [(3, 7, 5)], ["float32"]), "elementwise"
    ),
    "rounded between": (
        fusion(
            [narrowed(0), primitive("Cast", 1), primitive("Sub", 0, 2)], [(6, 40)], ["float32"]
        ),
        "elementwise",
    ),
    "copied": (fusion([primitive("Identity", 0, dtype="float16")], [(9, 16)], ["float16"]),
               "elementwise"),
    "integers": (
        fusion([primitive("dequantize", 0, scale=0.037, zero_point=3), narrowed(1)],
               [(9, 32)], ["int8"]),
        "elementwise",
    ),
}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name):
    node, family = CASES[name]
    assert kernel_family(node, CUDA) == family
    rng = np.random.default_rng(3)
    arrays = [
        rng.integers(-128, 128, shape).astype(dtype) if dtype == "int8"
        else (3 * rng.standard_normal(shape)).astype(dtype)
        for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True)
    ]  # fmt: skip
    arrays[0].reshape(-1)[:2] = (60000, -60000) if arrays[0].dtype == np.float16 else (100, -100)
    expected = evaluate_fusion(node, arrays)
    assert len(np.unique(expected)) > 1
    found = emulated_function(fusion_prim_func(node, CUDA), CUDA, arrays, expected)
    if expected.dtype == np.float32:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
        return
    assert found.dtype == np.float16
    if family == "elementwise" and "Tanh" not in {p.op for p in node.primitives}:
        np.testing.assert_array_equal(found, expected)
    else:  # what is a little off in float32 may round to the next float16
        steps = np.abs(found.view(np.int16).astype(int) - expected.view(np.int16).astype(int))
        assert steps.max() <= 1 and np.mean(steps > 0) < 0.02


@needs_nvcc
def test_what_is_too_large_becomes_infinite():
    node = fusion([narrowed(0)], [(2, 8)], ["float32"])
    values = np.array([[65504, 65519, 65520, 1e6, -1e6, np.inf, 6e-8, 0], [1] * 8], np.float32)
    with np.errstate(over="ignore"):
        expected = evaluate_fusion(node, [values])
    assert np.isinf(expected).sum() == 4
    found = emulated_function(fusion_prim_func(node, CUDA), CUDA, [values], expected)
    np.testing.assert_array_equal(found, expected)


@needs_nvcc
@pytest.mark.parametrize("name", ["softmax of halves", "sum", "rounded between", "copied"])
def test_bfloat16_agrees_with_numpy(name):
    halves, family = CASES[name]
    node = replace(
        halves,
        primitives=tuple(replace(p, dtype=_brain(p.dtype)) for p in halves.primitives),
        input_dtypes=tuple(map(_brain, halves.input_dtypes)),
    )
    assert kernel_family(node, CUDA) == family
    values = [3 * np.random.default_rng(3).standard_normal(shape) for shape in node.input_shapes]
    arrays = [x.astype(dtype) for x, dtype in zip(values, node.input_dtypes, strict=True)]
    if name == "rounded between":  # ties, the largest number, what is no number, the least one
        words = [0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 0xFFFFFFFF, 0x7F800001, 0x8000]
        arrays[0].reshape(-1)[: len(words)] = np.array(words, np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = evaluate_fusion(node, arrays)
    found = emulated_function(fusion_prim_func(node, CUDA), CUDA, arrays, expected)
    assert found.dtype == expected.dtype
    apart = 2.0**-8 if family == "rows" else 0
    np.testing.assert_allclose(
        found.astype(np.float32), expected.astype(np.float32), rtol=apart, atol=0
    )


def _brain(dtype: str) -> str:
    return "bfloat16" if dtype == "float16" else dtype
