"""CUDA transpositions: every element as numpy has it, whatever moves where."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from kernel_runs import emulated_function, run_function_on_gpu
from with_nvcc import needs_nvcc

from autoq.graph import Fusion, Primitive
from autoq.graph.lowering.fusions import kernel_family
from autoq.kernel import compile_kernel
from autoq.templates.arrays.permuted_axes import PermutedAxes
from autoq.templates.cuda.device.permute import (
    TilePlan,
    TurnPlan,
    offset,
    permute_kernel,
    permutes,
)
from autoq.templates.cuda.device.permute_apart import ApartPlan
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")

SMALL = [
    ((2, 16, 5, 8), (0, 3, 1, 2), "int8"),
    ((2, 4, 4, 64), (0, 3, 1, 2), "int8"),
    ((2, 7, 7, 64), (0, 3, 1, 2), "int8"),
    ((2, 64, 7, 7), (0, 2, 3, 1), "uint8"),
    ((2, 17, 19, 3), (0, 3, 1, 2), "float32"),
    ((2, 3, 40, 40), (0, 2, 3, 1), "int8"),
    ((2, 5, 3, 8), (0, 2, 1, 3), "int8"),
    ((3, 70, 90), (0, 2, 1), "int8"),
    ((2, 37, 45), (0, 2, 1), "float32"),
    ((2, 3, 24, 25), (3, 1, 0, 2), "int32"),
    ((1, 1, 5), (2, 1, 0), "int8"),
    ((3, 4, 20, 3), (0, 3, 1, 2), "int8"),
    ((2, 3, 16, 7), (1, 0, 3, 2), "uint8"),
    ((300, 16, 2), (0, 2, 1), "int8"),
    ((48, 5), (1, 0), "uint8"),
    ((3, 2), (1, 0), "float32"),
]
LARGE = [
    ((8, 56, 56, 64), (0, 3, 1, 2), "int8"),
    ((8, 2048, 7, 7), (0, 2, 3, 1), "int8"),
    ((8, 3, 224, 224), (0, 2, 3, 1), "float32"),
    ((8, 224, 224, 3), (0, 3, 1, 2), "int8"),
    ((8, 197, 12, 64), (0, 2, 3, 1), "float32"),
    ((8, 197, 12, 64), (0, 2, 1, 3), "int8"),
    ((3, 8, 7, 8, 7, 99), (0, 1, 3, 2, 4, 5), "uint8"),
]


def case_id(case):
    shape, perm, dtype = case
    return f"{dtype} {'x'.join(map(str, shape))} {''.join(map(str, perm))}"


def numbered(shape, dtype):
    """Elements that tell their places apart, modulo 251 among bytes."""
    count = int(np.prod(shape))
    places = np.arange(count) % 251 if np.dtype(dtype).itemsize == 1 else np.arange(count)
    return places.astype(dtype).reshape(shape)


@needs_nvcc
@pytest.mark.parametrize("case", SMALL, ids=case_id)
def test_exact_emulated(case):
    shape, perm, dtype = case
    assert permutes(*case)
    x = numbered(shape, dtype)
    expected = np.ascontiguousarray(x.transpose(perm))
    got = emulated_function(permute_kernel(*case, HOPPER), HOPPER, [x], expected)
    np.testing.assert_array_equal(got, expected)


def test_merged_axes_are_the_transposition():
    for seed in range(200):
        check_merged_axes(seed)


def check_merged_axes(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, rng.integers(1, 7)).tolist())
    perm = tuple(rng.permutation(len(shape)).tolist())
    x = np.arange(np.prod(shape)).reshape(shape)
    axes = PermutedAxes.of(shape, perm)
    places = np.tensordot(axes.strides, np.indices(axes.sizes).reshape(len(axes.sizes), -1), 1)
    np.testing.assert_array_equal(places, x.transpose(perm).reshape(-1))
    kept = [size for size in shape if size > 1]
    assert len(axes.sizes) <= max(len(kept), 1)
    if axes.keeps_rows:
        return
    outer = int(np.prod([axes.sizes[axis] for axis in axes.others]))
    place = offset(axes, "outer", axes.strides).replace("/", "//")
    starts = [eval(place, {"outer": index}) for index in range(outer)]
    corner = tuple(slice(None) if axis in axes.others else 0 for axis in range(len(axes.sizes)))
    np.testing.assert_array_equal(starts, places.reshape(axes.sizes)[corner].reshape(-1))


def test_plans_follow_sides():
    """Registers turn whole vectors of bytes; tiles are square, or all of a short side."""

    def plans(shape, perm, size):
        axes = PermutedAxes.of(shape, perm)
        return TurnPlan.of(axes, size), TilePlan.of(axes, size)

    assert plans((8, 56, 56, 64), (0, 3, 1, 2), 1)[0] == TurnPlan(16, 2)
    assert plans((8, 14, 14, 64), (0, 3, 1, 2), 1)[0] == TurnPlan(4, 8)
    assert plans((8, 7, 7, 64), (0, 3, 1, 2), 1) == (None, TilePlan(64, 49))
    assert plans((8, 56, 56, 64), (0, 3, 1, 2), 4) == (None, TilePlan(32, 32))
    assert plans((8, 3, 224, 224), (0, 2, 3, 1), 4) == (None, TilePlan(336, 3))


def test_rows_of_a_few_bytes_are_taken_apart_where_16_lie_together():
    def plan(shape, perm, size=1):
        return ApartPlan.of(PermutedAxes.of(shape, perm), size)

    assert plan((8, 224, 224, 3), (0, 3, 1, 2)) == ApartPlan(16, 3, 224 * 224)
    assert plan((8, 224, 224, 9), (0, 3, 1, 2)) is None, "too many registers"
    assert plan((8, 15, 15, 3), (0, 3, 1, 2)) is None, "no multiple of 16"
    assert plan((8, 16, 5, 3), (0, 2, 3, 1)) is None, "other rows between"
    assert plan((8, 224, 224, 3), (0, 3, 1, 2), 4) is None, "no bytes"


def transposition(shape, perm, dtype):
    output = tuple(shape[axis] for axis in perm)
    primitives = (Primitive("Transpose", (0,), dtype, (("perm", perm),)),)
    return Fusion(primitives, ("x0",), (shape,), (dtype,), (), "y", output, ("node",))


def test_small_matrices_are_left_to_tvm():
    """A block for each of a million matrices of six elements would mostly wait."""
    assert kernel_family(transposition((8, 56, 56, 64), (0, 3, 1, 2), "int8"), HOPPER) == (
        "transposition"
    )
    assert kernel_family(transposition((100000, 3, 2), (0, 2, 1), "int8"), HOPPER) == "tvm"
    assert permutes((3, 2), (1, 0), "int8")
    assert not permutes((3, 2), (1, 0), "float64")
    assert not permutes((1 << 16, 1 << 16), (1, 0), "int8")
    assert not permutes((0, 3), (1, 0), "int8")


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("case", [*LARGE[:4], LARGE[5]], ids=case_id)
def test_compiles_without_spills(case, arch):
    target = parse_target(f"cuda:{arch}")
    assert compile_kernel(permute_kernel(*case, target), target).spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*SMALL, *LARGE], ids=case_id)
def test_exact_on_gpu(case):
    shape, perm, dtype = case
    target = gpu_target()
    kernel = compile_kernel(permute_kernel(*case, target), target)
    end_if_compile_only()
    x = numbered(shape, dtype)
    expected = np.ascontiguousarray(x.transpose(perm))
    np.testing.assert_array_equal(run_function_on_gpu(kernel, [x], expected), expected)
