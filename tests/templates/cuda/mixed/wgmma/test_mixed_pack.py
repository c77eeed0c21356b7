"""Packed weights, widened as the kernel's registers are, are the weights again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.emulate import Memory, Mode, launch, ptx_of
from with_nvcc import needs_nvcc

from autoq.runtime.kernel import Buffer, Launch
from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.cuda.device.mma.fragments import scatter
from autoq.templates.cuda.mixed.conversion import GroupScale
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CONFIG = MixedConfig(
    block_m=16, consumers=1, k_groups=1, row_blocks=2, steps=1, stages=4, cluster=1, group_m=1
)  # fmt: skip
THREADS = np.arange(128)
ROWS = THREADS // 32 * 16 + THREADS % 32 // 4
_KERNEL = """
extern "C" __global__ void widen_tiles(const unsigned char* tiles, const unsigned* taken,
                                       unsigned* result) {
  const unsigned row = blockIdx.x / STEPS * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const unsigned rows[4] = {taken[row], taken[row + 8], 0, 0};
  unsigned a[16];
  FUNCTION(a, tiles + blockIdx.x * BYTES, rows, threadIdx.x);
  for (int i = 0; i < 16; ++i) result[(blockIdx.x * 128 + threadIdx.x) * 16 + i] = a[i];
}
"""


def widened(plan: MixedPlan, tiles: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """What `convert` makes of tiles, on the emulator: float32 [tiles, 128 threads, 16, 2]."""
    function = plan.conversion.function()
    source = function.source + _KERNEL
    for name, value in {
        "STEPS": plan.k_steps, "FUNCTION": function.name, "BYTES": plan.tile_bytes,
    }.items():  # fmt: skip
        source = source.replace(name, str(value))
    count = len(tiles)
    result = np.zeros((count, 128, 16), np.uint32)
    memories = [Memory(tiles, False), Memory(taken, False), Memory(result, True)]
    item = Launch(
        "widen_tiles", (count, 1, 1), (128, 1, 1), (1, 1, 1), 0, (Buffer(0), Buffer(1), Buffer(2))
    )
    launch(ptx_of(source, "sm_90a"), item, memories, Mode())
    halves = memories[2].bytes.view(element(plan.workload.in_dtype).dtype)
    return halves.astype(np.float32).reshape(count, 128, 16, 2)


def scales_of_sums(plan: MixedPlan, tiles: np.ndarray) -> np.ndarray:
    """What multiplies the products of each widened value: float32 [tiles, 128 threads, 16, 1]."""
    conversion = plan.conversion
    if not conversion.scales_sums:
        return np.ones((1, 1, 1, 1), np.float32)
    words = np.ascontiguousarray(tiles[:, conversion.sum_scales_at :]).view(np.float32)
    groups = words.reshape(len(tiles), conversion.groups, 64)
    registers = np.arange(16)
    group = registers // 4 * conversion.groups // 4
    return groups[:, group, ROWS[:, None] + 8 * (registers % 2)][..., None]


WEIGHT, SUM = GroupScale
PERMUTE, CONVERT, TABLE, FOLD, MASK, SUBNORMAL = Widening
FORMS = [
    *(
        (dtype, weight_dtype, PERMUTE, *groups)
        for dtype in ("float16", "bfloat16")
        for weight_dtype in INTEGER_RANGE
        for groups in (
            (0, False, WEIGHT), (0, True, WEIGHT), (32, True, WEIGHT), (128, False, WEIGHT),
            (32, False, SUM), (128, True, SUM),
        )
    ),
    *(
        (dtype, weight_dtype, widening, *groups)
        for dtype in ("float16", "bfloat16")
        for weight_dtype in INTEGER_RANGE
        for widening in (CONVERT, TABLE)
        if widening is CONVERT or weight_dtype.endswith("t4")
        for groups in ((0, False, WEIGHT), (64, True, WEIGHT))
    ),
    *(
        ("float16", weight_dtype, SUBNORMAL, group, False, WEIGHT)
        for weight_dtype in ("int4", "uint4")
        for group in (32, 128)
    ),
    *(
        ("bfloat16", weight_dtype, widening, *groups)
        for weight_dtype in ("int8", "uint8")
        for widening in (FOLD, MASK)
        for groups in (
            (0, False, WEIGHT), (0, True, WEIGHT), (64, True, WEIGHT), (32, False, SUM),
            (128, True, SUM),
        )
    ),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("dtype, weight_dtype, widening, group, zeros, scaled", FORMS)
def test_registers_hold_the_weights(
    dtype: str, weight_dtype: str, widening: Widening, group: int, zeros: bool, scaled: GroupScale
) -> None:
    workload = FloatGemm(
        16, 200, 384, dtype, weight_dtype, dtype, group=group, zero_points=zeros
    )  # fmt: skip
    config = replace(CONFIG, group_scale=scaled, widening=widening)
    plan = MixedPlan(workload, config)
    _, constants = workload.random_case(np.random.default_rng(3))
    names = [spec.name for spec in TEMPLATE.packed(workload, config)]
    arrays = dict(zip(names, TEMPLATE.pack(workload, config, constants), strict=True))
    tiles = arrays["weight"].reshape(-1, plan.tile_bytes)
    taken = arrays.get("taken", np.zeros(plan.padded_n, np.uint32))
    registers = widened(plan, tiles, taken) * scales_of_sums(plan, tiles)
    found = np.empty((plan.padded_n, plan.padded_k), np.float32)
    fragment = plan.atom.a_fragment()
    for number, of_tile in enumerate(registers):
        block, step = divmod(number, plan.k_steps)
        for i in range(4):
            at = 64 * step + 16 * i
            of_instruction = scatter(of_tile[:, 4 * i : 4 * i + 4], fragment)
            found[64 * block : 64 * block + 64, at : at + 16] = of_instruction
    if "scale" in arrays:
        found *= arrays["scale"][:, None]
    found = found[: workload.n, : workload.k]
    expected = workload.dequantised(constants)
    if group and scaled is WEIGHT:  # a scale of a group is rounded to 16 bits
        unit = 2.0**-11 if dtype == "float16" else 2.0**-8
        np.testing.assert_allclose(found, expected, rtol=unit, atol=unit * np.abs(expected).max())
    else:
        np.testing.assert_array_equal(found, expected)


def test_weights_of_floats_are_swizzled_rows() -> None:
    workload = FloatGemm(16, 100, 200, weight_dtype="float16")
    plan = MixedPlan(workload, CONFIG)
    _, constants = workload.random_case(np.random.default_rng(3))
    (weight,) = TEMPLATE.pack(workload, CONFIG, constants)
    chunks = weight.view(np.float16).reshape(plan.padded_n // 64, plan.k_steps, 64, 8, 8)
    row = np.arange(64)[:, None]
    plain = chunks[:, :, row, np.arange(8) ^ (row % 8)]
    found = plain.transpose(0, 2, 1, 3, 4).reshape(plan.padded_n, plan.padded_k)
    np.testing.assert_array_equal(found[:100, :200], constants["weight"])


def test_a_row_whose_groups_have_no_scale_is_zero() -> None:
    workload = FloatGemm(16, 64, 128, group=128)
    _, constants = workload.random_case(np.random.default_rng(3))
    constants["scale"][5] = 0
    names = [spec.name for spec in TEMPLATE.packed(workload, CONFIG)]
    arrays = dict(zip(names, TEMPLATE.pack(workload, CONFIG, constants), strict=True))
    plan = MixedPlan(workload, CONFIG)
    tiles = arrays["weight"].reshape(-1, plan.tile_bytes)[: plan.k_steps]
    shares = tiles[:, plan.conversion.values_bytes :].view(np.uint32) & 0xFFFF
    assert (shares[:2, 5] == 0).all() and (shares[:2, 4] != 0).all()
    assert np.isfinite(arrays["scale"]).all()
