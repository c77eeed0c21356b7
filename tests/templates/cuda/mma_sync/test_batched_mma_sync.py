"""Products of two activations on mma.sync: right on the emulator and a GPU, compiled everywhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiled_defaults import compiled_default
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated, run
from with_nvcc import needs_nvcc
from workloads.batched_products import BATCHED, FLOATS, TABLES, case_id, random_product

from autoq.measure.arrays import stored_activations
from autoq.templates.cuda.mma_sync.batched.batched_gemm_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync.batched.config import BatchedSyncConfig
from autoq.templates.cuda.mma_sync.batched.cost import registers
from autoq.templates.cuda.mma_sync.batched.plan import BatchedSyncPlan
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import parse_target

CASES = [*BATCHED, *TABLES, *FLOATS]
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")
AMPERE = parse_target("cuda:sm_80")


def attention(kind: str, out: str) -> list[BatchedGemm]:
    """Scores and values of ViT, BERT and a window of Swin, of one dtype."""
    products = []
    for batch, heads, length, depth in ((8, 12, 197, 64), (8, 12, 128, 64), (512, 3, 49, 32)):
        pair = {"batch": batch, "heads": heads, "in_dtype": kind, "other_dtype": kind}
        end = {"epilogue": Epilogue(out)}
        products.append(
            BatchedGemm(m=length, n=length, k=depth, x_order="bmhk", other_order="bnhk",
                        **pair, **end),
        )  # fmt: skip
        products.append(
            BatchedGemm(m=length, n=depth, k=length, other_order="bkhn", y_order="bmhn",
                        **pair, **end)
        )  # fmt: skip
    return products


def targets_of(workload: BatchedGemm):
    """The architectures that have a kernel."""
    every = [parse_target(f"cuda:{arch}") for arch in ARCHS]
    return [target for target in every if TEMPLATE.matches(workload, target)]


@needs_nvcc
@pytest.mark.parametrize("workload", CASES, ids=case_id)
def test_right_emulated(workload):
    targets = targets_of(workload)
    target = targets[(workload.k + workload.n) % len(targets)]
    (config,) = TEMPLATE.space(workload, target).sample(np.random.default_rng(workload.k), 1)
    assert_right_emulated(TEMPLATE, workload, config, target)


@needs_nvcc
@pytest.mark.parametrize("seed", range(6))
def test_random_products_are_right(seed):
    rng = np.random.default_rng(seed)
    workload = random_product(rng)
    targets = targets_of(workload)
    target = targets[seed % len(targets)]
    (config,) = TEMPLATE.space(workload, target).sample(rng, 1)
    assert_right_emulated(TEMPLATE, workload, config, target)


@needs_nvcc
def test_sums_of_zero_factors_are_left_out():
    workload = BatchedGemm(1, 37, 24, 40, 2, "uint8", "int8", "bmhk", "bkhn")
    values, constants = workload.random_case(np.random.default_rng(1))
    config = TEMPLATE.default(workload, AMPERE)
    function, given = TEMPLATE.build(workload, config, AMPERE), stored_activations(workload, values)
    for zero_points in ((0, 0), (3, 0), (0, -5)):
        constants |= dict(zip(("x_zero_point", "other_zero_point"), zero_points, strict=True))
        inputs = [*given, *TEMPLATE.pack(workload, config, constants)]
        (y,) = run(function, AMPERE, inputs, [workload.outputs[0].stored])
        np.testing.assert_array_equal(y, workload.reference(values, constants)[0])


@needs_nvcc
def test_the_last_bytes_of_an_odd_array_are_read_one_by_one():
    """Rows of 13 bytes, 39 in all: the last word of the array has three bytes."""
    workload = BatchedGemm(1, 3, 16, 13, epilogue=Epilogue("int32"))
    assert workload.inputs[0].bytes % 4 == 3
    assert_right_emulated(TEMPLATE, workload, TEMPLATE.default(workload, AMPERE), AMPERE)


@needs_nvcc
@pytest.mark.parametrize(
    ("kind", "m", "k", "other", "config"),
    [
        ("int8", 48, 61, "bkhn", BatchedSyncConfig(2, 1, 1, 8, 1, 3, True, 1, verbatim=True)),
        ("float16", 40, 49, "bnhk", BatchedSyncConfig(2, 1, 2, 4, 2, 2, False, 1, verbatim=True)),
    ],
)
def test_rows_of_x_lie_as_in_memory(kind, m, k, other, config):
    """Of odd lengths, in arrays of whole units."""
    workload = BatchedGemm(1, m, 48, k, 2, kind, kind, "bhmk", other, epilogue=Epilogue(kind))
    assert config in TEMPLATE.space(workload, AMPERE)
    assert_right_emulated(TEMPLATE, workload, config, AMPERE, ["late"])
    for other in ({"x_order": "bmhk"}, {"m": 37}):
        assert config not in TEMPLATE.space(dataclasses.replace(workload, **other), AMPERE)


@needs_nvcc
@pytest.mark.parametrize(
    ("kind", "which", "arch"),
    [
        ("int8", 0, "sm_75"), ("int8", 1, "sm_80"), ("int8", 0, "sm_86"), ("int8", 1, "sm_90a"),
        ("float16", 1, "sm_75"), ("float16", 0, "sm_80"), ("float16", 1, "sm_89"),
        ("float16", 0, "sm_90a"),
    ],
)  # fmt: skip
def test_defaults_compile_without_spills(kind, which, arch):
    """Scores of ViT, or what values make of them."""
    target = parse_target(f"cuda:{arch}")
    workload = attention(kind, kind)[which]
    kernel, plan = compiled_default(TEMPLATE, workload, target, BatchedSyncPlan)
    assert kernel.registers <= registers(plan, target) + 16


@pytest.mark.parametrize("arch", ARCHS)
def test_defaults_gather_rows_that_start_anywhere(arch):
    """Stores of single bytes made the scores of ViT take 36 us of an H200."""
    target = parse_target(f"cuda:{arch}")
    scores, *_ = attention("int8", "int8")
    assert TEMPLATE.default(scores, target).staged
    floats = attention("float16", "float32")[0]
    assert TEMPLATE.default(floats, target).staged


@needs_nvcc
@pytest.mark.parametrize(
    ("out", "columns"),
    [("int8", (1, 16)), ("int8", (2, 4)), ("float16", (2, 4)), ("float16", (1, 8)),
     ("float32", (1, 8))],
)  # fmt: skip
def test_rows_of_y_are_gathered_whole(out, columns):
    """Rows of 49 values, one behind the other."""
    kind = "int8" if out == "int8" else "float16"
    workload = BatchedGemm(1, 50, 49, 33, 2, kind, kind, epilogue=Epilogue(out))
    config = BatchedSyncConfig(2, columns[0], 1, columns[1], 1, 2, True, 1)
    plan = BatchedSyncPlan(workload, config, AMPERE)
    assert plan.contiguous and plan.aligned == (out == "float32")
    assert_right_emulated(TEMPLATE, workload, config, AMPERE)


@needs_nvcc
@pytest.mark.parametrize(
    ("out", "columns"), [("int8", (1, 16)), ("float16", (2, 4)), ("float32", (1, 8))]
)
def test_rows_of_y_with_others_between_them_are_gathered(out, columns):
    kind = "int8" if out == "int8" else "float16"
    workload = BatchedGemm(1, 50, 49, 33, 2, kind, kind, y_order="bmhn", epilogue=Epilogue(out))
    config = BatchedSyncConfig(2, columns[0], 1, columns[1], 1, 2, True, 1)
    assert not BatchedSyncPlan(workload, config, AMPERE).contiguous
    assert_right_emulated(TEMPLATE, workload, config, AMPERE, ["late"])


@pytest.mark.parametrize("order", ["bhnk", "bhkn"])
@pytest.mark.parametrize("size", [1, 2])
def test_rows_of_a_tile_are_each_copied_once(order, size):
    kind = {1: "int8", 2: "float16"}[size]
    out = Epilogue("int32" if size == 1 else "float32")
    workload = BatchedGemm(1, 64, 64, 64, 1, kind, kind, "bhmk", order, epilogue=out)
    plan = BatchedSyncPlan(workload, BatchedSyncConfig(2, 2, 2, 4, 2, 2, False, 1), AMPERE)
    for operand in plan.operands:
        slots = [operand.row_of(slot) for slot in range(operand.rows)]
        assert sorted(slots) == list(range(operand.rows))
        targets = {operand.target(index) for index in range(operand.copies)}
        first = operand.start
        expected = range(first, first + operand.rows * operand.row_bytes, operand.piece)
        assert targets == set(expected)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("columns", [2, 4, 8, 16])
def test_turning_loads_meet_every_bank_once(size, columns):
    """The eight rows of each matrix lie in different 16-byte columns of shared memory."""
    kind = {1: "int8", 2: "float16"}[size]
    workload = BatchedGemm(
        1, 64, 256, 64, 1, kind, kind, other_order="bhkn", epilogue=Epilogue("float32")
    )
    config = BatchedSyncConfig(2, 1, 1, columns, 2, 2, False, 1)
    other = BatchedSyncPlan(workload, config, AMPERE).other
    for first_column in range(0, config.warp_n, 16):
        for k_tile in range(config.CHUNK):
            at = [other.matrix(lane, k_tile, first_column) for lane in range(32)]
            for matrix in range(4):
                banks = {byte % 128 for byte in at[8 * matrix : 8 * matrix + 8]}
                assert len(banks) == 8


def test_what_has_no_kernel_is_declined():
    assert not TEMPLATE.matches(BatchedGemm(1, 8, 8, 16, epilogue=Epilogue("int4")), AMPERE)
    floats = BatchedGemm(1, 8, 8, 16, 1, "bfloat16", "bfloat16", epilogue=Epilogue("float32"))
    assert not TEMPLATE.matches(floats, parse_target("cuda:sm_75"))
    huge = BatchedGemm(1 << 16, 256, 256, 64)
    assert not TEMPLATE.matches(huge, AMPERE)
    assert TEMPLATE.matches(dataclasses.replace(huge, batch=1 << 8), AMPERE)
    scores = BatchedGemm(8, 2048, 2048, 64, 16)
    assert TEMPLATE.matches(scores, AMPERE)
    assert not TEMPLATE.matches(dataclasses.replace(scores, epilogue=Epilogue("float32")), AMPERE)


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [*CASES, *attention("int8", "uint8"),
                                      *attention("float16", "float32")], ids=case_id)  # fmt: skip
def test_right_on_gpu(workload):
    target = gpu_target()
    configs = [TEMPLATE.default(workload, target)]
    configs += sampled(TEMPLATE, workload, target, seed=3, count=3)
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target, seed=9)
