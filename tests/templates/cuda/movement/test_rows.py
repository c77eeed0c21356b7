"""CUDA kernels over rows: every row as numpy has it, however many lanes share it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from kernel_runs import emulated_function, run_function_on_gpu
from ptx.emulate import EmulationFault
from ptx.kernels import run
from row_cases import (
    assert_agrees,
    byte_norm,
    inputs_of,
    masked_softmax,
    mean,
    most,
    norm,
    primitive,
    quantised_softmax,
    softmax,
)
from with_nvcc import needs_nvcc

from autoq.graph import Fusion
from autoq.graph.lowering.cuda.rows import row_fusion
from autoq.graph.lowering.fusions import fusion_prim_func, kernel_family
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.kernel import compile_kernel
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.movement.rows_plan import LONGEST_ROW, RowArrays, RowPlan
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")

SMALL = {
    "softmax of 2": softmax(3, 2),
    "softmax of 49": softmax(3, 5, 49),
    "softmax of 200 bytes": quantised_softmax(5, 200),
    "softmax of bytes that saturates": quantised_softmax(9, 31, dtype="uint8", scale=1 / 300),
    "softmax of bytes of wide steps": quantised_softmax(5, 24, step_size=0.27, zero_point=-90),
    "softmax of bytes of too wide steps": quantised_softmax(5, 24, step_size=0.28),
    "softmax of bytes in coarse steps": quantised_softmax(5, 8, scale=0.07, low=-125.0),
    "softmax of a row longer than a warp's": softmax(2, 1500),
    "softmax of a masked row": masked_softmax((2, 3, 4, 20), (2, 1, 1, 20)),
    "softmax with a shift a row": masked_softmax((2, 3, 9), (3, 1)),
    "mean of two axes": mean((2, 5, 7, 9), (2, 3)),
    "most of odd rows": most(3, 37),
    "softmax of one row": softmax(1, 40),
    "softmax of one row of bytes": quantised_softmax(1, 40),
    "mean of one row": mean((1, 5, 7), (1, 2)),
    "mean of odd rows": mean((3, 37), (1,)),
    "norm of 96": norm(2, 5, 96),
    "norm of 96 bytes": byte_norm(3, 5, 96),
    "norm of 37 bytes with a large epsilon": byte_norm(2, 37, epsilon=0.4, dtype="int8"),
    "norm of bytes of a row longer than a warp's": byte_norm(3, 1280),
    "norm of one row of bytes to floats": byte_norm(1, 1, 96, floats=True),
    "norm of 33 with constants": norm(2, 3, 33, quantised=False, constant=True),
}
LARGE = {
    "softmax of 197": softmax(8, 12, 197, 197),
    "softmax of 197 bytes": quantised_softmax(8, 12, 197, 197),
    "softmax of 1000": softmax(8, 1000),
    "softmax of the longest row": softmax(3, LONGEST_ROW),
    "softmax of an odd long row": softmax(300, 4097),
    "mean of 96": mean((8, 3136, 96), (2,)),
    "norm of 768": norm(8, 197, 768),
    "norm of 768 bytes": byte_norm(8, 197, 768),
    "norm of 1023": norm(2, 197, 1023),
    "norm of many rows of 1023": norm(16, 197, 1023, quantised=False),
}


def on_emulator(node, arrays):
    function = fusion_prim_func(node, HOPPER)
    output = np.zeros(node.output_shape, node.primitives[-1].dtype)
    return emulated_function(function, HOPPER, [*arrays, *node.constants], output)


@needs_nvcc
@pytest.mark.parametrize("name", SMALL)
def test_agrees_with_numpy_emulated(name):
    node = SMALL[name]
    assert kernel_family(node, HOPPER) == "rows"
    arrays = inputs_of(node)
    assert_agrees(on_emulator(node, arrays), evaluate_fusion(node, arrays))


@needs_nvcc
@pytest.mark.parametrize("name", ["norm of 33 with constants", "norm of 96"])
def test_constants_alone_are_read_before_the_kernels_before_it_are_done(name):
    node = SMALL[name]
    arrays = [*inputs_of(node), *node.constants]
    function, output = fusion_prim_func(node, HOPPER), [(node.output_shape, "float32")]
    if node.constants:
        run(function, HOPPER, arrays, output, awaited=len(node.inputs))
        with pytest.raises(EmulationFault, match="before"):
            run(function, HOPPER, arrays, output, awaited=len(arrays))
    else:
        run(function, HOPPER, arrays, [(node.output_shape, node.primitives[-1].dtype)],
            awaited=len(arrays))  # fmt: skip


@needs_nvcc
def test_a_warp_takes_two_of_many_rows_of_bytes():
    """Of which one is left over, on a device of one multiprocessor."""
    node, target = byte_norm(17, 384), HOPPER.of_units(1)
    plan = RowPlan.of(row_fusion(node).arrays, "int8", target)
    assert (plan.lanes, plan.together) == (32, 2)
    assert RowPlan.of(row_fusion(node).arrays, "int8", HOPPER).together == 1
    arrays, output = inputs_of(node), np.zeros(node.output_shape, "int8")
    function = fusion_prim_func(node, target)
    got = emulated_function(function, target, [*arrays, *node.constants], output)
    assert_agrees(got, evaluate_fusion(node, arrays))


def test_bytes_have_a_softmax_of_their_own_where_no_power_overflows():
    def own(node: Fusion) -> bool:
        return row_fusion(node).formula.rounded

    assert own(SMALL["softmax of 200 bytes"]) and own(SMALL["softmax of bytes of wide steps"])
    assert own(SMALL["softmax of bytes that saturates"])
    assert not own(SMALL["softmax of bytes of too wide steps"]) and not own(softmax(3, 8))
    assert not own(quantised_softmax(5, 24, scale=2.0)), "a sum's reciprocal may underflow"
    assert not own(quantised_softmax(5, 24, scale=1e-5)), "a quotient may be too large to round"


def test_bytes_have_a_normalisation_of_their_own():
    def values(node: Fusion) -> int:
        return len(row_fusion(node).formula.values)

    node = byte_norm(3, 5, 96)
    assert values(node) == 8 and values(byte_norm(3, 5, 96, floats=True)) == 9
    primitives = list(node.primitives)
    primitives[2] = dataclasses.replace(
        primitives[2], attributes=(("scale", 0.03), ("zero_point", 3))
    )
    assert values(dataclasses.replace(node, primitives=tuple(primitives))) > 8, "another scale"
    primitives[2] = node.primitives[2]
    primitives[4] = dataclasses.replace(primitives[4], arguments=(7, 6))
    assert values(dataclasses.replace(node, primitives=tuple(primitives))) > 7, "no variance"


@needs_nvcc
def test_nan_and_infinity_come_out_as_numpy_has_them():
    node = softmax(4, 9)
    x = np.linspace(-2, 2, 36, dtype=np.float32).reshape(4, 9)
    x[1, 3], x[2, 4] = np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = evaluate_fusion(node, [x])
    got = on_emulator(node, [x])
    np.testing.assert_allclose(got, expected, rtol=2e-5)
    assert np.isnan(got[1]).all() and got[2, 4] == 0 and not np.isnan(got[[0, 2, 3]]).any()


@needs_nvcc
def test_one_divisor_a_row_divides_as_numpy_does():
    """Of any size, where its reciprocal over- or underflows, of zero and of infinity too."""
    rows = np.float32([1.0, 3.0, 2e-39, 1e-30, 3e38, 1e30, 0.0, np.inf, -7.0])
    x = np.outer(rows[:-3], np.float32([1, 0.3, -5e-5, 0.9])).astype(np.float32)
    x = np.concatenate([x, np.float32([[1, 0, -1, np.inf], [1, 0, np.inf, -3], [9, 1, 2, 0.1]])])
    # A formula over rows reduces one, though nothing reads the mean.
    primitives = (primitive("ReduceMean", 0, axes=(1,)), primitive("Div", 0, 1))
    node = dataclasses.replace(masked_softmax((9, 4), (9, 1)), primitives=primitives)
    divisors = rows.reshape(9, 1)
    with np.errstate(all="ignore"):
        expected = evaluate_fusion(node, [x, divisors])
    np.testing.assert_allclose(on_emulator(node, [x, divisors]), expected, rtol=2e-7)


@needs_nvcc
def test_a_root_that_divides_a_row_may_be_none():
    """Roots of any size, of zero, of infinity and of what has none, under finite and infinite x."""
    squares = np.float32([1e-45, 2e-38, 0.3, 1.0, 7.0, 3e38, 0.0, np.inf, -1.0, np.nan])
    x = np.float32([3.0, -0.0, 1e-38, -2e38, np.inf, -np.inf, np.nan])
    primitives = (
        primitive("ReduceMean", 0, axes=(1,)),
        primitive("Sqrt", 1),
        primitive("Div", 0, 3),
    )
    node = dataclasses.replace(masked_softmax((10, 7), (10, 1)), primitives=primitives)
    arrays = [np.tile(x, (10, 1)), squares.reshape(10, 1)]
    with np.errstate(all="ignore"):
        expected = evaluate_fusion(node, arrays)
    np.testing.assert_allclose(on_emulator(node, arrays), expected, rtol=1.2e-7, atol=2e-45)


@needs_nvcc
def test_a_row_without_variance_is_the_least_integer():
    node = norm(3, 8)
    arrays = inputs_of(node)
    arrays[0][1] = 7
    got = on_emulator(node, arrays)
    assert (got[1] == -128).all() and len(np.unique(got[[0, 2]])) > 4


@needs_nvcc
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_of_bytes_are_exact(dtype):
    """The largest squares there are, in the longest rows; a variance far below a mean."""
    node = byte_norm(4, LONGEST_ROW, epsilon=1e-3, dtype=dtype)
    x = np.full((4, LONGEST_ROW), -128 if dtype == "int8" else 255, dtype)
    x[1, 5] = -127 if dtype == "int8" else 254
    x[2, ::2], x[3] = 127, np.random.default_rng(0).integers(120, 124, LONGEST_ROW)
    assert_agrees(on_emulator(node, [x]), evaluate_fusion(node, [x]))


def test_rows_of_an_operand_lie_where_numpy_broadcasts_them():
    for seed in range(100):
        check_rows_of_an_operand(seed)


def check_rows_of_an_operand(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(2, 6)).tolist())
    inner = int(rng.integers(1, len(shape)))
    kept = [size if rng.random() < 0.6 else 1 for size in shape]
    if rng.random() < 0.5:
        kept[len(shape) - inner :] = [1] * inner
    else:
        kept[len(shape) - inner :] = shape[len(shape) - inner :]
    start = int(rng.integers(0, len(kept))) if rng.random() < 0.3 else 0
    start = min(start, len(shape) - inner)
    operand = TensorSpec("x0", tuple(kept[start:]), "float32")
    arrays = RowArrays(shape, inner, (operand, TensorSpec("x1", shape, "float32")))
    flat = np.arange(np.prod(operand.shape)).reshape(operand.shape)
    expected = np.broadcast_to(flat, shape).reshape(arrays.rows, arrays.row)[:, 0]
    base = arrays.base(0, "row").replace("/", "//")
    got = [eval(base, {"row": row}) for row in range(arrays.rows)]
    np.testing.assert_array_equal(got, expected)


def test_lanes_follow_rows():
    """A warp takes a row where there are many, a block where few; narrow rows have few lanes."""

    def plan(rows: int, row: int) -> RowPlan:
        arrays = RowArrays((rows, row), 1, (TensorSpec("x0", (rows, row), "float32"),))
        return RowPlan.of(arrays, "float32", HOPPER)

    assert plan(18912, 197) == RowPlan(1, 32, 256, 2)
    assert plan(12288, 128) == RowPlan(4, 16, 256, 1)
    assert plan(25088, 96) == RowPlan(4, 8, 256, 1)
    assert plan(1576, 768) == RowPlan(4, 32, 128, 1), "3 blocks of 4 warps, not 2 of 8"
    assert plan(8, 1000) == RowPlan(4, 128, 128, 1)
    for row in (2, 3, 31, 1025, LONGEST_ROW - 1, LONGEST_ROW):
        for rows in (1, 100, 100_000):
            chosen = plan(rows, row)
            assert -(-row // chosen.lanes) <= 32 and chosen.threads % chosen.lanes == 0
            assert chosen.lanes == chosen.threads or chosen.lanes <= 32


def test_what_no_row_kernel_computes_is_left_to_tvm():
    whole = softmax(3, 8)
    assert row_fusion(whole) is not None

    def left(primitives, node=whole, **changes):
        changed = dataclasses.replace(node, primitives=tuple(primitives), **changes)
        return row_fusion(changed) is None and kernel_family(changed, HOPPER) == "tvm"

    assert left([primitive("Softmax", 0, axis=0)]), "rows are the last axes"
    assert left([primitive("Softmax", 0, axis=1), primitive("ReduceMean", 1, axes=(0, 1))],
                output_shape=(1, 1)), "reductions over different axes"  # fmt: skip
    assert left([primitive("Softmax", 0, axis=1)], input_shapes=((3, LONGEST_ROW + 1),),
                output_shape=(3, LONGEST_ROW + 1)), "no lanes hold such a row"  # fmt: skip
    assert left([primitive("Softmax", 0, axis=1)], input_shapes=((3, 1),), output_shape=(3, 1))
    assert left([primitive("Softmax", 0, axis=1), primitive("Transpose", 1, perm=(1, 0))],
                output_shape=(8, 3)), "a primitive that is not element-wise"  # fmt: skip
    assert left([primitive("Softmax", 0, axis=1)], input_dtypes=("int32",)), "other dtypes"
    assert row_fusion(masked_softmax((2, 4, 6), (4, 6))) is not None
    part = masked_softmax((4, 2, 6), (6,))
    two = dataclasses.replace(
        part,
        primitives=(primitive("Add", 0, 1), primitive("ReduceMean", 2, axes=(1, 2))),
        output_shape=(4, 1, 1),
    )
    assert row_fusion(two) is None, "an operand that has only a part of a row"
    assert kernel_family(whole, parse_target("cpu")) == "tvm"


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "name", ["softmax of 197", "norm of 768", "norm of 768 bytes", "norm of many rows of 1023"]
)
def test_compiles_without_spills(name, arch):
    target = parse_target(f"cuda:{arch}")
    assert compile_kernel(fusion_prim_func(LARGE[name], target), target).spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_agrees_with_numpy_on_gpu(name):
    node, target = {**SMALL, **LARGE}[name], gpu_target()
    kernel = compile_kernel(fusion_prim_func(node, target), target)
    end_if_compile_only()
    arrays = inputs_of(node)
    expected = evaluate_fusion(node, arrays)
    assert_agrees(run_function_on_gpu(kernel, [*arrays, *node.constants], expected), expected)
