"""Formulas over rows on the CPU: walks, tails, segments, broadcasting, and what they decline."""

from __future__ import annotations

import time

import numpy as np
import pytest
from cpu_kernels import HASWELL, host, run_function

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.cpu.rows import cpu_row_formula
from autoq.graph.lowering.fusions import fusion_prim_func, kernel_family
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.templates.cpu.movement.row_walks import walks_of


def primitive(op, *arguments, dtype="float32", **attributes):
    return Primitive(op, arguments, dtype, tuple(sorted(attributes.items())))


def fusion(primitives, shapes, dtypes, out_shape):
    names = tuple(f"x{i}" for i in range(len(shapes)))
    return Fusion(
        tuple(primitives), names, tuple(shapes), tuple(dtypes), (), "y", out_shape, ("y",)
    )


QUANTIZE = {"scale": 0.03, "zero_point": 7, "low": -7, "high": 248}


def layer_norm(shape, count):
    """Mean, variance, and the quotient with factors, as uint8."""
    return fusion(
        [
            primitive("ReduceMean", 0, axes=(-1,)), primitive("Sub", 0, count),
            primitive("Mul", count + 1, count + 1),
            primitive("ReduceMean", count + 2, axes=(-1,)), primitive("Sqrt", count + 3),
            primitive("Div", count + 1, count + 4), primitive("Mul", count + 5, 1),
            primitive("quantize", count + 6, dtype="uint8", **QUANTIZE),
        ],
        [shape, shape[-1:]], ["float32", "float32"], shape,
    )  # fmt: skip


CASES = {
    "layer norm, tail": (layer_norm((3, 5, 197), 2), "rows"),
    "layer norm, many tasks": (layer_norm((400, 768), 2), "rows"),
    "softmax of bytes": (
        fusion(
            [primitive("dequantize", 0, scale=0.1, zero_point=3), primitive("Softmax", 1, axis=2)],
            [(4, 6, 33)], ["uint8"], (4, 6, 33),
        ), "rows",
    ),
    "most of negated rows": (
        fusion(
            [primitive("Neg", 0), primitive("ReduceMax", 1, axes=(1,))], [(9, 37)], ["float32"],
            (9, 1),
        ),
        "rows",
    ),
    "mean of two axes": (
        fusion(
            [primitive("ReduceMean", 0, axes=(2, 3))], [(2, 20, 7, 9)], ["float32"],
            (2, 20, 1, 1),
        ),
        "rows",
    ),
    "segments": (fusion([primitive("Erf", 0)], [(5, 4099)], ["float32"], (5, 4099)), "elementwise"),
    "broadcast both ways": (
        fusion([primitive("Mul", 0, 1)], [(4, 1, 40), (3, 1)], ["float32"] * 2, (4, 3, 40)),
        "elementwise",
    ),
    "transposition of bytes": (
        fusion([primitive("Transpose", 0, dtype="uint8", perm=(0, 3, 1, 2))], [(2, 5, 9, 37)],
               ["uint8"], (2, 37, 5, 9)), "transposition",
    ),
    "transposition of rows": (
        fusion([primitive("Transpose", 0, perm=(0, 2, 1, 3))], [(3, 50, 4, 33)], ["float32"],
               (3, 4, 50, 33)), "transposition",
    ),
    "transposition of many": (
        fusion([primitive("Transpose", 0, dtype="int8", perm=(1, 0))], [(600, 700)], ["int8"],
               (700, 600)), "transposition",
    ),
    "transposition between": (
        fusion(
            [
                primitive("dequantize", 0, scale=0.1, zero_point=3),
                primitive("Transpose", 2, perm=(0, 2, 1)), primitive("Add", 3, 1),
                primitive("quantize", 4, dtype="uint8", **QUANTIZE),
            ],
            [(2, 19, 40), (2, 40, 19)], ["uint8", "float32"], (2, 40, 19),
        ), "elementwise",
    ),
    "transposition and softmax": (
        fusion([primitive("Transpose", 0, perm=(1, 0)), primitive("Softmax", 1, axis=1)],
               [(17, 30)], ["float32"], (30, 17)), "rows",
    ),
    "transposition of what is read twice": (
        fusion([primitive("Transpose", 0, perm=(1, 0)), primitive("Add", 1, 0)],
               [(32, 32)], ["float32"], (32, 32)), "tvm",
    ),
    "transposition of a few channels": (
        fusion([primitive("Transpose", 0, perm=(0, 2, 1))], [(1, 3, 400)], ["float32"],
               (1, 400, 3)), "tvm",
    ),
    "short rows": (fusion([primitive("Sqrt", 0)], [(3, 5)], ["float32"], (3, 5)), "tvm"),
    "broadcast along short rows": (
        fusion([primitive("Add", 0, 1)], [(9, 40, 3), (40, 1)], ["float32"] * 2, (9, 40, 3)), "tvm",
    ),
    "reduction of a first axis": (
        fusion([primitive("Softmax", 0, axis=0)], [(40, 40)], ["float32"], (40, 40)), "tvm",
    ),
}  # fmt: skip


def run(node, inputs, target=None):
    """The kernel's output, poisoned before."""
    function = fusion_prim_func(node, target or host())
    return run_function(function, inputs, node.output_shape, node.primitives[-1].dtype, target)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name):
    agrees(*CASES[name], host())


@pytest.mark.skipif(not host().avx2, reason="needs AVX2")
@pytest.mark.parametrize("name", ["layer norm, tail", "softmax of bytes", "transposition between"])
def test_agrees_with_numpy_without_avx512(name):
    agrees(*CASES[name], HASWELL)


def agrees(node, family, target):
    """Compares every element with numpy."""
    assert kernel_family(node, target) == family
    rng = np.random.default_rng(3)
    inputs = [
        rng.integers(0, 256, shape).astype(dtype) if dtype != "float32"
        else np.abs(rng.standard_normal(shape, np.float32))
        for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True)
    ]  # fmt: skip
    expected = evaluate_fusion(node, inputs)
    result = run(node, inputs, target)
    if result.dtype == np.float32:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)
    else:
        difference = np.abs(result.astype(np.int32) - expected)
        assert difference.max() <= 1 and (difference == 0).mean() > 0.99


def test_a_long_chain_compiles_in_the_time_of_its_steps():
    """As bound variables these 40 primitives take TVM's simplifier minutes."""
    primitives = []
    for index in range(20):
        primitives.append(primitive("quantize", 2 * index, dtype="uint8", **QUANTIZE))
        primitives.append(primitive("dequantize", 2 * index + 1, scale=0.03, zero_point=7))
    node = fusion(primitives, [(64, 64)], ["float32"], (64, 64))
    x = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    start = time.process_time()
    np.testing.assert_allclose(run(node, [x]), evaluate_fusion(node, [x]), rtol=1e-6)
    assert time.process_time() - start < 20


def test_a_walk_for_each_reduction_that_waits_for_another():
    formula = cpu_row_formula(layer_norm((6, 64), 2))
    operands = len(formula.arrays.operands)
    walks = walks_of(
        [value.arguments for value in formula.values],
        operands,
        [value.reduces for value in formula.values],
        [*formula.arrays.spans, *(value.spans for value in formula.values)],
    )
    reductions = [len(walk.reductions) for walk in walks]
    assert reductions == [0, 1, 1, 0]
    # What is left of the mean is read once more behind the variance; squares are not.
    assert [len(walk.kept) for walk in walks] == [0, 0, 1, 0]
