"""Concatenations in element-wise CUDA kernels: a class token in front of patches, with places."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from kernel_runs import emulated_function, run_function_on_gpu
from with_nvcc import needs_nvcc

from autoq.graph import Fusion, Primitive
from autoq.graph.lowering.cuda.elementwise import element_formula
from autoq.graph.lowering.fusions import fusion_prim_func
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.kernel import compile_kernel
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
RNG = np.random.default_rng(3)


def primitive(op, *arguments, dtype="float32", **attributes):
    return Primitive(op, arguments, dtype, tuple(sorted(attributes.items())))


def quantize(argument):
    bounds = {"low": -77.0, "high": 178.0}
    return primitive("quantize", argument, dtype="uint8", scale=0.02, zero_point=77, **bounds)


def dequantize(argument):
    return primitive("dequantize", argument, scale=0.02, zero_point=77)


def fusion(primitives, shapes, dtypes, constants, shape):
    names = tuple(f"x{index}" for index in range(len(shapes)))
    return Fusion(
        tuple(primitives), names, tuple(shapes), tuple(dtypes), constants, "y", shape, ("node",)
    )


def floats(*shape):
    return RNG.standard_normal(shape, np.float32)


TOKENS = fusion(
    [dequantize(0), primitive("Concat", 1, 3, axis=1), quantize(4), dequantize(5),
     primitive("Add", 6, 2), quantize(7)],
    [(3, 7, 24)], ["uint8"], (floats(3, 1, 24), floats(1, 8, 24)), (3, 8, 24),
)  # fmt: skip
CASES = {
    "a token": TOKENS,
    "a token behind": dataclasses.replace(
        TOKENS, primitives=(dequantize(0), primitive("Concat", 3, 1, axis=-2),
                            primitive("Mul", 4, 2), quantize(5)),
    ),
    "three parts": fusion(
        [primitive("Neg", 1), primitive("Mul", 0, 3), primitive("Concat", 5, 4, 2, axis=2),
         primitive("Add", 6, 3)],
        [(2, 3, 4, 5, 6), (2, 3, 9, 5, 6), (2, 3, 2, 5, 6)], ["float32"] * 3, (floats(5, 6),),
        (2, 3, 15, 5, 6),
    ),
    "rows of many multiprocessors": fusion(
        [dequantize(0), dequantize(1), primitive("Concat", 2, 3, axis=1), quantize(4)],
        [(16, 700, 768), (16, 68, 768)], ["uint8"] * 2, (), (16, 768, 768),
    ),
}  # fmt: skip


def inputs_of(node):
    return [
        RNG.integers(0, 256, shape).astype(np.uint8) if dtype == "uint8" else floats(*shape)
        for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True)
    ]


@needs_nvcc
@pytest.mark.parametrize("name", [name for name in CASES if "many" not in name])
def test_agrees_with_numpy_emulated(name):
    node = CASES[name]
    arrays = inputs_of(node)
    assert element_formula(node) is not None
    output = np.zeros(node.output_shape, node.primitives[-1].dtype)
    function = fusion_prim_func(node, HOPPER)
    got = emulated_function(function, HOPPER, [*arrays, *node.constants], output)
    np.testing.assert_array_equal(got, evaluate_fusion(node, arrays))


def test_other_concatenations_are_left_to_tvm():
    inner = fusion([primitive("Concat", 0, 1, axis=2)], [(2, 3, 8), (2, 3, 4)], ["float32"] * 2,
                   (), (2, 3, 12))  # fmt: skip
    assert element_formula(inner) is None
    halves = [(2, 3, 8)] * 2
    twice = [primitive("Concat", 0, 0, axis=1), primitive("Concat", 0, 1, axis=1)]
    twice.append(primitive("Add", 2, 3))
    read_twice = fusion(twice, halves, ["float32"] * 2, (), (2, 6, 8))
    assert element_formula(read_twice) is None
    once = fusion(twice[1:2], halves, ["float32"] * 2, (), (2, 6, 8))
    assert element_formula(once) is not None
    nested = [primitive("Concat", 0, 1, axis=1), primitive("Concat", 2, 0, axis=1)]
    assert element_formula(fusion(nested, halves, ["float32"] * 2, (), (2, 9, 8))) is None
    part_and_whole = [twice[1], primitive("Add", 2, 0)]
    assert element_formula(fusion(part_and_whole, halves, ["float32"] * 2, (), (2, 6, 8))) is None


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy_on_gpu(name):
    node, target = CASES[name], gpu_target()
    machine_code = compile_kernel(fusion_prim_func(node, target), target)
    end_if_compile_only()
    arrays = inputs_of(node)
    expected = evaluate_fusion(node, arrays)
    got = run_function_on_gpu(machine_code, [*arrays, *node.constants], expected)
    np.testing.assert_array_equal(got, expected)
