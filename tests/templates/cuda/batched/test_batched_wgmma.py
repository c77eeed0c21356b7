"""Products of two activations on wgmma: right on the emulator and a GPU, without spills."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiled_defaults import compiled_default
from gpu_kernels import assert_right, hopper_target, sampled
from ptx.kernels import assert_right_emulated, run
from with_nvcc import needs_nvcc
from workloads.batched_products import case_id

from autoq.measure.arrays import stored_activations
from autoq.templates.cuda.batched.batched_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.batched.config import BatchedWgmmaConfig
from autoq.templates.cuda.batched.cost import registers
from autoq.templates.cuda.batched.plan import BatchedWgmmaPlan
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
SCORES, VALUES = ("bmhk", "bnhk", "bhmn"), ("bhmk", "bkhn", "bmhn")


def random_workload(seed: int) -> BatchedGemm:
    """Of random extents and orders that the template takes: odd rows of y among them."""
    rng = np.random.default_rng(seed)
    floating = rng.random() < 0.5
    unit = 8 if floating else 16
    m, n, k = (int(rng.integers(1, most)) for most in (150, 150, 300))
    orders = [str(rng.choice(names)) for names in (
        ("bhmk", "bmhk"), ("bhnk", "bhkn", "bnhk", "bkhn"), ("bhmn", "bmhn"))]  # fmt: skip
    k = -(-k // unit) * unit
    if orders[1].endswith("n") or orders[2] == "bmhn":
        n = -(-n // unit) * unit
    if floating:
        x = other = str(rng.choice(("float16", "bfloat16")))
        out = str(rng.choice(("float16", "bfloat16")))
    else:
        x, other, out = (str(rng.choice(("int8", "uint8"))) for _ in range(3))
    pairs = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    return BatchedGemm(pairs[0], m, n, k, pairs[1], x, other, *orders, Epilogue(out))


def attention(kind: str, length: int, depth: int = 64, pairs: tuple[int, int] = (8, 12)):
    """Scores and values of attention, of one dtype."""
    one = {"batch": pairs[0], "heads": pairs[1], "in_dtype": kind, "other_dtype": kind,
           "epilogue": Epilogue(kind)}  # fmt: skip
    orders = dict(zip(("x_order", "other_order", "y_order"), SCORES, strict=True))
    scores = BatchedGemm(m=length, n=length, k=depth, **one, **orders)
    orders = dict(zip(("x_order", "other_order", "y_order"), VALUES, strict=True))
    return scores, BatchedGemm(m=length, n=depth, k=length, **one, **orders)


def emulated(workload: BatchedGemm, values, constants) -> np.ndarray:
    """What the default gives for a case."""
    config = TEMPLATE.default(workload, HOPPER)
    inputs = [*stored_activations(workload, values), *TEMPLATE.pack(workload, config, constants)]
    function = TEMPLATE.build(workload, config, HOPPER)
    (y,) = run(function, HOPPER, inputs, [workload.outputs[0].stored])
    return y


@needs_nvcc
@pytest.mark.parametrize("seed", range(6))
def test_random_products_on_wgmma_are_right(seed: int) -> None:
    workload = random_workload(seed)
    assert TEMPLATE.matches(workload, HOPPER)
    rng = np.random.default_rng(seed)
    (config,) = TEMPLATE.space(workload, HOPPER).sample(rng, 1)
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize("kind", ["int8", "float16"])
@pytest.mark.parametrize("order", ["bhkn", "bhnk"])
def test_stages_come_again(kind: str, order: str) -> None:
    """Two stages for the steps of a long reduction, of more than are unrolled."""
    k = 128 * 11 if kind == "int8" else 64 * 11
    workload = BatchedGemm(1, 70, 64, k, 1, kind, kind, "bhmk", order, epilogue=Epilogue(kind))
    config = BatchedWgmmaConfig(1, 1, 2, 48, 2, 1, 1)
    assert BatchedWgmmaPlan(workload, config, HOPPER).steps == 11
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize(
    ("columns", "passes", "row_groups", "rows", "n", "kind"),
    [(2, 2, 2, 16, 197, "int8"), (1, 4, 1, 32, 197, "float16"), (2, 3, 1, 32, 368, "int8"),
     (1, 6, 2, 16, 368, "float16"), (3, 2, 1, 16, 368, "int8"), (4, 1, 1, 48, 77 * 3, "float16")],
)  # fmt: skip
def test_warpgroups_go_on_to_other_columns(
    columns: int, passes: int, row_groups: int, rows: int, n: int, kind: str
) -> None:
    """Of rows of y that are boxes, of which two have room, and of such that are runs."""
    workload = BatchedGemm(1, 37, n, 64, 3, kind, kind, *SCORES, Epilogue(kind))
    config = BatchedWgmmaConfig(columns, passes, row_groups, rows, 1, 1, 1)
    assert config in TEMPLATE.space(workload, HOPPER)
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize(
    ("orders", "kind", "n", "k", "config"),
    [
        (VALUES, "int8", 64, 368, BatchedWgmmaConfig(1, 1, 1, 32, 3, 2, 1)),
        (VALUES, "uint8", 64, 208, BatchedWgmmaConfig(1, 1, 1, 32, 2, 2, 1)),
        (VALUES, "float16", 64, 200, BatchedWgmmaConfig(1, 1, 1, 32, 4, 2, 1)),
        (SCORES, "float16", 200, 64, BatchedWgmmaConfig(2, 2, 1, 16, 1, 2, 1)),
        (SCORES, "int8", 197, 64, BatchedWgmmaConfig(2, 2, 1, 16, 1, 2, 1)),
    ],
    ids=str,
)
def test_clusters_share_other(
    orders: tuple[str, str, str], kind: str, n: int, k: int, config: BatchedWgmmaConfig
) -> None:
    workload = BatchedGemm(1, 60, n, k, 2, kind, kind, *orders, Epilogue(kind))
    assert config in TEMPLATE.space(workload, HOPPER)
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize("k", [64, 80])
@pytest.mark.parametrize("x", [0, 255])
def test_sums_of_the_largest_factors(x: int, k: int) -> None:
    """Of 64 values the largest sums are just small enough for the shorter way to floats."""
    workload = BatchedGemm(1, 16, 16, k, 1, "uint8", "int8", *SCORES, Epilogue("int8"))
    plan = BatchedWgmmaPlan(workload, TEMPLATE.default(workload, HOPPER), HOPPER)
    assert plan.small_sums == (k == 64)
    values, constants = workload.random_case(np.random.default_rng(1))
    values[0][...], values[1][...] = x, -128
    values[1][0, 5:9, 0, ::3] = 127
    scale = np.array([100 / (k * 255 * 255)], np.float32)
    constants |= {"x_zero_point": 255 - x, "other_zero_point": 127, "scale": scale,
                  "scalars": pack_scalars(low=-128, high=127)}  # fmt: skip
    (expected,) = workload.reference(values, constants)
    assert np.abs(expected).max() == 100
    np.testing.assert_array_equal(emulated(workload, values, constants), expected)


@needs_nvcc
@pytest.mark.parametrize("orders", [SCORES, VALUES], ids=str)
def test_zero_points_on_wgmma_are_of_the_run(orders: tuple[str, str, str]) -> None:
    workload = BatchedGemm(1, 37, 48, 144, 2, "uint8", "int8", *orders)
    values, constants = workload.random_case(np.random.default_rng(1))
    config = BatchedWgmmaConfig(1, 1, 1, 48, 2, 1, 1)
    function, given = TEMPLATE.build(workload, config, HOPPER), stored_activations(workload, values)
    for zero_points in ((0, 0), (3, 0), (0, -5), (255, 127)):
        constants |= dict(zip(("x_zero_point", "other_zero_point"), zero_points, strict=True))
        inputs = [*given, *TEMPLATE.pack(workload, config, constants)]
        (y,) = run(function, HOPPER, inputs, [workload.outputs[0].stored])
        np.testing.assert_array_equal(y, workload.reference(values, constants)[0])


@needs_nvcc
@pytest.mark.parametrize("zero_point", [0, -7])
def test_bounds_of_bytes(zero_point: int) -> None:
    """Those of the type, with values far beyond what bytes hold."""
    workload = BatchedGemm(1, 33, 33, 64, 2, epilogue=Epilogue("int8"))
    values, constants = workload.random_case(np.random.default_rng(2))
    numbers = {"low": -128 - zero_point, "high": 127 - zero_point, "zero_point": zero_point}
    constants |= {"scalars": pack_scalars(**numbers), "scale": np.array([0.37], np.float32)}
    (expected,) = workload.reference(values, constants)
    assert {-128, 127} <= set(np.unique(expected))
    np.testing.assert_array_equal(emulated(workload, values, constants), expected)


@needs_nvcc
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("bounds", [{}, {"low": 0.0}, {"low": -0.3, "high": 0.7}], ids=str)
def test_bounds_of_floats(kind: str, bounds: dict[str, float]) -> None:
    """Rounded numbers are bounded; what is no number stays one, and what is too large infinite."""
    workload = BatchedGemm(1, 33, 33, 64, 2, kind, kind, epilogue=Epilogue(kind))
    (x, other), constants = workload.random_case(np.random.default_rng(2))
    x[0, 1, 5, 3], x[0, 0, 7, 1], x[0, 1, 9] = np.nan, np.inf, 6e4
    constants |= {"scalars": pack_scalars(**bounds), "scale": np.array([3.0], np.float32)}
    with np.errstate(over="ignore", invalid="ignore"):
        (expected,) = workload.reference((x, other), constants)
    expected = expected.astype(np.float32)
    y = emulated(workload, (x, other), constants).astype(np.float32)
    assert np.isnan(expected[0, 1, 5]).all() and np.isinf(expected).any() == (len(bounds) < 2)
    np.testing.assert_allclose(y, expected, rtol=1e-2, atol=2e-2)


@needs_nvcc
@pytest.mark.parametrize("kind", ["int8", "float16"])
@pytest.mark.parametrize("length", [197, 384])
def test_defaults_on_wgmma_compile_without_spills(kind: str, length: int) -> None:
    for workload in filter(lambda one: TEMPLATE.matches(one, HOPPER), attention(kind, length)):
        kernel, plan = compiled_default(TEMPLATE, workload, HOPPER, BatchedWgmmaPlan)
        assert kernel.registers <= registers(plan, HOPPER) + 16


def test_what_batched_wgmma_declines() -> None:
    scores, values = attention("int8", 197)[0], attention("int8", 384)[1]
    for workload in (scores, values):
        assert TEMPLATE.matches(workload, HOPPER)
        assert not TEMPLATE.matches(workload, parse_target("cuda:sm_80"))
        for out in (Epilogue("int32"), Epilogue("float32"), Epilogue("int8", table=True),
                    Epilogue("int8", "int8", True)):  # fmt: skip
            assert not TEMPLATE.matches(dataclasses.replace(workload, epilogue=out), HOPPER)
    # Rows of operands that are no whole units, rows of y with others between them, and wide ones.
    assert not TEMPLATE.matches(dataclasses.replace(scores, k=65), HOPPER)
    assert not TEMPLATE.matches(dataclasses.replace(values, n=65), HOPPER)
    assert not TEMPLATE.matches(dataclasses.replace(values, k=197), HOPPER)
    assert not TEMPLATE.matches(dataclasses.replace(scores, y_order="bmhn"), HOPPER)
    assert not TEMPLATE.matches(dataclasses.replace(scores, n=257), HOPPER)
    assert TEMPLATE.matches(dataclasses.replace(scores, n=272), HOPPER)
    assert TEMPLATE.matches(dataclasses.replace(values, k=4096), HOPPER)


@pytest.mark.parametrize("seed", range(40))
def test_every_workload_has_a_default(seed: int) -> None:
    workload = random_workload(seed)
    assert TEMPLATE.default(workload, HOPPER) in TEMPLATE.space(workload, HOPPER)


_GPU_CASES = [random_workload(seed) for seed in range(200, 216)]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "workload",
    [*_GPU_CASES, attention("int8", 197)[0], attention("float16", 197)[0], *attention("int8", 384)],
    ids=case_id,
)
def test_batched_wgmma_is_right_on_gpu(workload: BatchedGemm) -> None:
    target = hopper_target()
    configs = [TEMPLATE.default(workload, target)]
    configs += sampled(TEMPLATE, workload, target, seed=3, count=3)
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target, seed=9)
