"""Every primitive of a fusion: TVM's kernel agrees with numpy, and lowers for CUDA."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fusion_cases import CASES, fusion, primitive, random_inputs

from autoq.graph.fallback.primitive_te import PRIMITIVES as TE_PRIMITIVES
from autoq.graph.lowering.fusions import fusion_prim_func
from autoq.graph.primitive_numpy import PRIMITIVES as NUMPY_PRIMITIVES
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.kernel.compile import compile_kernel
from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower
from autoq.runtime.cpu.kernel import LoadedCpuKernel
from autoq.templates.target import host_cpu, parse_target


def _multiplies_bytes(node):
    """Whether a fusion multiplies matrices that it dequantises itself."""
    ops = {one.op for one in node.primitives}
    return bool(ops & {"MatMul", "Gemm"}) and "float32" not in node.input_dtypes[:2]


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 64 bytes, which is what compiled kernels expect."""
    storage = np.empty(array.nbytes + 64, np.uint8)
    start = -storage.ctypes.data % 64
    copy = storage[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_both_meanings_know_the_same_primitives():
    assert set(NUMPY_PRIMITIVES) == set(TE_PRIMITIVES)
    assert {one.op for node in CASES.values() for one in node.primitives} == set(TE_PRIMITIVES)


@pytest.mark.parametrize("name", CASES)
def test_cpu_kernel_agrees_with_numpy(name):
    node = CASES[name]
    kernel = LoadedCpuKernel(compile_kernel(fusion_prim_func(node, host_cpu()), host_cpu()))
    inputs = random_inputs(node)
    expected = evaluate_fusion(node, inputs)
    poison = np.full(expected.nbytes, 0xCD, np.uint8).view(expected.dtype)
    result = aligned(poison.reshape(expected.shape))
    kernel(*map(aligned, (*inputs, *node.constants)), result)
    if expected.dtype == np.float32:
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)
    else:
        difference = np.abs(result.astype(np.int32) - expected)
        assert difference.max() <= 1 and (difference == 0).mean() > 0.99
    spoilt = [with_missing_numbers(array) for array in inputs]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        expected = evaluate_fusion(node, spoilt)
    kernel(*map(aligned, (*spoilt, *node.constants)), result)
    if expected.dtype == np.float32:
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(result[infinite], expected[infinite])
    else:
        assert np.abs(result.astype(np.int32) - expected).max() <= 1


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("shape", [(2, 1000, 1010), (1, 1009, 1013)])
def test_long_sums_keep_their_digits(op, shape):
    """Added up one behind the other, a million float32 numbers lose two digits or more."""
    axes = tuple(range(1, len(shape)))
    node = fusion([primitive(op, 0, axes=axes, keepdims=True)], [shape], (shape[0], 1, 1))
    kernel = LoadedCpuKernel(compile_kernel(fusion_prim_func(node, host_cpu()), host_cpu()))
    x = np.random.default_rng(3).random(shape, np.float32)
    result = aligned(np.zeros(node.output_shape, np.float32))
    kernel(aligned(x), result)
    exact = getattr(x, {"ReduceMean": "mean", "ReduceSum": "sum"}[op])(
        axes, np.float64, keepdims=True
    )
    np.testing.assert_allclose(result, exact, rtol=2e-6)


ROUNDED = {
    "HardSwish": primitive("HardSwish", 0),
    "HardSigmoid": primitive("HardSigmoid", 0, alpha=0.2, beta=0.5),
    "LeakyRelu": primitive("LeakyRelu", 0, alpha=0.1),
    "Mul": primitive("Mul", 0, 1),
}


@pytest.mark.parametrize("op", ROUNDED)
def test_a_product_is_rounded_before_an_addition(op):
    """As numpy rounds it, so that quantisations behind the two agree to the last tie."""
    shape = (64, 64)
    node = fusion([ROUNDED[op], primitive("Add", 2, 1)], [shape, shape], shape)
    kernel = LoadedCpuKernel(compile_kernel(fusion_prim_func(node, host_cpu()), host_cpu()))
    inputs = [np.random.default_rng(i).standard_normal(shape, np.float32) for i in range(2)]
    result = aligned(np.full(shape, 77, np.float32))
    kernel(*map(aligned, inputs), result)
    np.testing.assert_array_equal(result, evaluate_fusion(node, inputs))


def with_missing_numbers(array: np.ndarray) -> np.ndarray:
    """Some float32 elements replaced by NaN and infinities."""
    spoilt = array.copy()
    if array.dtype == np.float32 and array.size:
        places = np.random.default_rng(1).permutation(array.size)[: -(-array.size // 16)]
        spoilt.reshape(-1)[places] = np.resize([np.nan, np.inf, -np.inf], len(places))
    return spoilt


@pytest.mark.parametrize("name", ["Relu", *(n for n in CASES if n not in NUMPY_PRIMITIVES)])
def test_cuda_lowering_launches_kernels(name):
    node, target = CASES[name], parse_target("cuda:sm_90a")
    function = fusion_prim_func(node, target)
    lowered = lower(function, target)
    launches, _ = host_launches(lowered.host["main"], len(function.params))
    assert launches
    assert all(np.prod(launch.block) <= 1024 for launch in launches)


@pytest.mark.parametrize("name", [name for name, node in CASES.items() if _multiplies_bytes(node)])
def test_products_of_bytes_are_padded_behind_their_zero_points(name):
    """dlight pads a reduction with zeros: of floats, as a byte of 0 is the number -zero_point."""
    target = parse_target("cuda")
    source = cuda_source(lower(fusion_prim_func(CASES[name], target), target), target)
    kernel = source[source.rindex("__global__") :]
    assert "0x0p+0f" in kernel
    assert not re.search(r"\((signed char|uchar|unsigned char)\)0\b", kernel)
