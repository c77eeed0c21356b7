"""Mixed-input products on mma.sync on the emulator: every way of weights to the tensor cores."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated, run_program
from with_nvcc import needs_nvcc

from autoq.templates.cuda.mixed.mma_sync.config import (
    Conform,
    MixedSyncConfig,
)
from autoq.templates.cuda.mixed.mma_sync.float_gemm_mma_sync import TEMPLATE
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

pytestmark = needs_nvcc


def config(
    tile: tuple[int, int, int, int, int],
    widening: Widening,
    layout: Conform,
    stages: int = 3,
    split_k: int = 1,
    once: bool = False,
) -> MixedSyncConfig:
    return MixedSyncConfig(*tile, stages, split_k, 4, widening, layout, once, 1)


E4M3 = "float8_e4m3fn"
NARROW_TILE, WIDE_TILE = (8, 32, 64, 1, 2), (32, 64, 128, 2, 2)
CASES = {
    "f16 s8, permuted offline, odd n": (
        "sm_80", FloatGemm(37, 69, 456, bias=True, activation="gelu"),
        config(WIDE_TILE, Widening.PERMUTE, Conform.OFFLINE),
    ),
    "bf16 u8, permuted and shuffled, zero points, even k": (
        "sm_86", FloatGemm(9, 40, 134, "bfloat16", "uint8", "bfloat16", zero_points=True),
        config(NARROW_TILE, Widening.PERMUTE, Conform.SHUFFLE, 2),
    ),
    "f16 u4, permuted offline, groups, weight on the left": (
        "sm_89", FloatGemm(33, 72, 192, "float16", "uint4", "float16", 32, True, weight_left=True),
        config(WIDE_TILE, Widening.PERMUTE, Conform.OFFLINE, 2, once=True),
    ),
    "bf16 s4, permuted and shuffled, groups, split": (
        "sm_80", FloatGemm(17, 40, 384, "bfloat16", "int4", "float16", 128, bias=True),
        config(WIDE_TILE, Widening.PERMUTE, Conform.SHUFFLE, 2, 2),
    ),
    "f16 s4, table and narrow loads, odd k": (
        "sm_89", FloatGemm(7, 33, 67, "float16", "int4", "float32", zero_points=True),
        config(NARROW_TILE, Widening.TABLE, Conform.NARROW, 2),
    ),
    "f16 u4, converted offline, split, weight on the left": (
        "sm_75", FloatGemm(19, 35, 320, "float16", "uint4", "float16", 64, True, weight_left=True),
        config(NARROW_TILE, Widening.CONVERT, Conform.OFFLINE, 2, 2),
    ),
    "bf16 s8, converted and narrow loads, float32": (
        "sm_80", FloatGemm(33, 64, 130, "bfloat16", "int8", "float32", weight_left=True),
        config(WIDE_TILE, Widening.CONVERT, Conform.NARROW, 2),
    ),
    "f16 f16, odd k": (
        "sm_75", FloatGemm(9, 40, 75, weight_dtype="float16", activation="silu"),
        config(NARROW_TILE, Widening.PERMUTE, Conform.NONE, 2),
    ),
    "f16 s8, scales of x, residual": (
        "sm_80", FloatGemm(37, 69, 456, bias=True, activation="gelu", x_scale=True, residual=True),
        config(WIDE_TILE, Widening.PERMUTE, Conform.OFFLINE),
    ),
    "f16 u4, groups, split, weight on the left, every input, batch": (
        "sm_75", FloatGemm(
            19, 35, 320, "float16", "uint4", "float16", 64, True, True, weight_left=True,
            x_scale=True, residual=True, batch=3,
        ),
        config(NARROW_TILE, Widening.CONVERT, Conform.OFFLINE, 2, 2),
    ),
    "bf16 s8, shuffled, split, every input, batch": (
        "sm_86", FloatGemm(
            19, 33, 324, "bfloat16", "int8", "bfloat16", bias=True, x_scale=True, residual=True,
            batch=2,
        ),
        config(NARROW_TILE, Widening.PERMUTE, Conform.SHUFFLE, 2, 2),
    ),
    "bf16 u4, groups, float32 and residual, batch": (
        "sm_90a", FloatGemm(
            9, 40, 128, "bfloat16", "uint4", "float32", 32, True, residual=True, batch=3
        ),
        config(NARROW_TILE, Widening.PERMUTE, Conform.OFFLINE, 2),
    ),
    "e4m3, scales of x": (
        "sm_89", FloatGemm(37, 69, 456, E4M3, E4M3, x_scale=True, bias=True),
        config(WIDE_TILE, Widening.PERMUTE, Conform.NONE),
    ),
    "e4m3, odd k, float32 and residual, batch": (
        "sm_89", FloatGemm(9, 40, 75, E4M3, E4M3, "float32", residual=True, batch=2),
        config(NARROW_TILE, Widening.PERMUTE, Conform.NONE, 2),
    ),
    "e4m3, even k, weight on the left, split, batch": (
        "sm_90a", FloatGemm(9, 40, 134, E4M3, E4M3, "bfloat16", weight_left=True, batch=2),
        config(NARROW_TILE, Widening.PERMUTE, Conform.NONE, 2, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arch", "workload", "config"), CASES.values(), ids=CASES)
def test_every_element_is_right(arch: str, workload: FloatGemm, config: MixedSyncConfig) -> None:
    target = parse_target(f"cuda:{arch}")
    assert TEMPLATE.space(workload, target).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, target)


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_an_activation_of_infinities_is_its_limit(activation: str) -> None:
    workload = FloatGemm(8, 32, 64, out_dtype="float32", bias=True, activation=activation)
    target = parse_target("cuda:sm_80")
    (x,), constants = workload.random_case(np.random.default_rng(6))
    constants["bias"][:3] = -np.inf, np.inf, np.nan
    chosen = TEMPLATE.default(workload, target)
    names = [spec.name for spec in TEMPLATE.packed(workload, chosen)]
    packed = zip(names, TEMPLATE.pack(workload, chosen, constants), strict=True)
    program = TEMPLATE.program(workload, chosen, target)
    (y,) = run_program(
        program, target, {"x": x, **dict(packed)}, {"y": workload.outputs[0].stored}
    ).values()
    np.testing.assert_array_equal(y[:, :3], np.tile([0, np.inf, np.nan], (8, 1)))
