"""Random formulas over rows: what gets a kernel of its own agrees with numpy, the rest is TVM's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_runs import emulated_function
from row_cases import primitive, quantised_softmax
from with_nvcc import needs_nvcc

from autoq.graph import Fusion, Primitive
from autoq.graph.lowering.cuda.rows import row_fusion
from autoq.graph.lowering.fusions import fusion_prim_func, kernel_family
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.graph.shapes import broadcast
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_90a")
UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "HardSwish")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
MOST_BESIDE_TIES = 0.02


def random_fusion(rng: np.random.Generator) -> Fusion:
    """Softmax and means over the last axes, between primitives on rows and on one value a row."""
    shape = tuple(rng.integers(2, 8, rng.integers(2, 5)).tolist())
    inner = int(rng.integers(1, min(len(shape), 3)))
    axes = tuple(range(len(shape) - inner, len(shape)))
    row, one = shape[: len(shape) - inner], (1,) * inner
    shapes = [shape, shape, (*row, *one), shape[len(shape) - inner :], (1,)]
    chosen = [shapes[0], *(shapes[i] for i in rng.integers(1, 5, rng.integers(0, 4)))]
    dtypes = [str(rng.choice(["float32", "int8"])) for _ in chosen]
    primitives, results = [], []
    for index, dtype in enumerate(dtypes):
        op = primitive("Identity", index) if dtype == "float32" else (
            primitive("dequantize", index, scale=0.017, zero_point=int(rng.integers(-9, 9)))
        )  # fmt: skip
        primitives.append(op)
        results.append(chosen[index])
    reduces = False
    while len(primitives) < 12 or not reduces:
        first, second = (int(i) for i in rng.integers(0, len(results), 2))
        kind = rng.random()
        if len(primitives) >= 12:
            first, kind = 0, 0.0
        if kind < 0.3 and results[first] == shape:
            softmax = inner == 1 and rng.random() < 0.5
            op = primitive("Softmax", first, axis=axes[0]) if softmax else (
                primitive("ReduceMean", first, axes=axes)
            )  # fmt: skip
            results.append(shape if softmax else (*row, *one))
            reduces = True
        elif kind < 0.6:
            op = primitive(str(rng.choice(UNARY)), first)
            results.append(results[first])
        else:
            op = primitive(str(rng.choice(BINARY)), first, second)
            results.append(broadcast([results[first], results[second]]))
        places = tuple(len(chosen) + index for index in op.arguments)
        primitives.append(Primitive(op.op, places, op.dtype, op.attributes))
    whole = len(results) - 1
    primitives.append(primitive("Add", len(chosen), len(chosen) + whole))
    if rng.random() < 0.5:
        scheme = {"scale": 0.031, "zero_point": 3, "low": -131.0, "high": 124.0}
        primitives.append(
            primitive("quantize", len(chosen) + len(primitives) - 1, dtype="int8", **scheme)
        )
    names = tuple(f"x{index}" for index in range(len(chosen)))
    return Fusion(tuple(primitives), names, tuple(chosen), tuple(dtypes), (), "y", shape, ("node",))


def arrays_of(node: Fusion, rng: np.random.Generator) -> list[np.ndarray]:
    return [
        rng.standard_normal(shape, np.float32)
        if dtype == "float32"
        else rng.integers(-128, 128, shape).astype(dtype)
        for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True)
    ]


@needs_nvcc
@pytest.mark.parametrize("seed", range(12))
def test_random_row_fusions_agree_with_numpy(seed):
    rng = np.random.default_rng(seed)
    node = random_fusion(rng)
    assert kernel_family(node, CUDA) == "rows"
    arrays = arrays_of(node, rng)
    expected = evaluate_fusion(node, arrays)
    output = np.zeros(node.output_shape, node.primitives[-1].dtype)
    got = emulated_function(fusion_prim_func(node, CUDA), CUDA, arrays, output)
    if expected.dtype == np.float32:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    else:
        apart = np.abs(got.astype(int) - expected.astype(int))
        assert apart.max() <= 1 and (apart > 0).mean() <= MOST_BESIDE_TIES


@pytest.mark.parametrize("seed", range(60))
def test_a_primitive_of_another_kind_leaves_the_fusion_to_tvm(seed):
    """A reduction over other axes, or a primitive that moves elements."""
    rng = np.random.default_rng(seed)
    node = random_fusion(rng)
    assert row_fusion(node) is not None
    rank = len(node.output_shape)
    count = len(node.inputs) + len(node.primitives)
    swapped = tuple([1, 0, *range(2, rank)])
    for added, output in (
        (primitive("Transpose", count - 1, dtype=node.primitives[-1].dtype, perm=swapped),
         tuple(node.output_shape[axis] for axis in swapped)),
        (primitive("ReduceMean", count - 1, axes=(0,)), (1, *node.output_shape[1:])),
    ):  # fmt: skip
        changed = Fusion((*node.primitives, added), node.inputs, node.input_shapes,
                           node.input_dtypes, (), "y", output, ("node",))  # fmt: skip
        assert row_fusion(changed) is None


@pytest.mark.parametrize("axis", range(4))
def test_softmax_of_bytes_is_over_the_last_axis(axis):
    """Another axis, even one of the same length, is not a row."""
    node = quantised_softmax(2, 5, 5, 5)
    first, _, last = node.primitives
    primitives = (first, primitive("Softmax", 1, axis=axis), last)
    assert (row_fusion(dataclasses.replace(node, primitives=primitives)) is None) == (axis != 3)
