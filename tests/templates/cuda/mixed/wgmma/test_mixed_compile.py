"""The mixed-input kernels pass nvcc without spills, with as few instructions as they promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gpu_kernels import kernel_store
from opcode_counts import ARITHMETIC, instructions
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.templates.cuda.mixed.conversion import Conversion, GroupScale
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOADS = [
    FloatGemm(200, 264, 328),
    FloatGemm(3456, 4096, 2048, bias=True, activation="gelu"),
    FloatGemm(1, 1000, 1024, "bfloat16", "uint8", "bfloat16", zero_points=True),
    FloatGemm(64, 512, 512, weight_dtype="int4", group=32, weight_left=True),
    FloatGemm(700, 512, 512, "bfloat16", "uint4", "bfloat16", group=128, zero_points=True),
    FloatGemm(3456, 4096, 2048, weight_dtype="float16", activation="silu", residual=True, batch=2),
    FloatGemm(1024, 4096, 2048, "float8_e4m3fn", "float8_e4m3fn", x_scale=True, activation="gelu"),
    FloatGemm(216, 512, 512, out_dtype="float32", activation="gelu"),
    FloatGemm(3456, 4096, 2048, "bfloat16", out_dtype="float32", weight_left=True),
]


@needs_nvcc
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_defaults_compile_without_spills(workload: FloatGemm) -> None:
    config = TEMPLATE.default(workload, TARGET)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    kernel = kernel_store().kernel(TEMPLATE, workload, config, TARGET)
    assert kernel.spill_bytes == 0
    (launch,) = kernel.launches
    assert launch.block == (config.threads, 1, 1)
    assert launch.smem_bytes == MixedPlan(workload, config).smem_bytes
    budget = config.registers
    asked = budget.producer + config.consumers * budget.consumer
    assert asked <= kernel.registers * (config.consumers + 1)


@needs_nvcc
@pytest.mark.parametrize("workload", WORKLOADS[:4], ids=str)
def test_sampled_configurations_compile_without_spills(workload: FloatGemm) -> None:
    for config in TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(5), 1):
        kernel = kernel_store().kernel(TEMPLATE, workload, config, TARGET)
        assert kernel.spill_bytes == 0, config


SMALL = MixedConfig(
    block_m=32, consumers=2, k_groups=1, row_blocks=1, steps=1, stages=4, cluster=1, group_m=1
)  # fmt: skip
GROUPS = FloatGemm(72, 200, 512, weight_dtype="int4", group=128, zero_points=True)


def test_a_consumer_that_waits_holds_not_all_its_stages() -> None:
    config = replace(SMALL, consumers=4, k_groups=4, stages=4, block_m=16)
    assert "two for each" in str(TEMPLATE.space(WORKLOADS[0], TARGET).rejection(config))


@needs_nvcc
@pytest.mark.parametrize(
    "workload, knobs",
    [
        (GROUPS, {"group_scale": GroupScale.SUM}),
        (replace(GROUPS, group=32), {"group_scale": GroupScale.SUM, "k_groups": 2}),
        (GROUPS, {"group_scale": GroupScale.SUM, "split_k": 3}),
        (GROUPS, {"stream_k": True, "k_groups": 2, "cluster": 2}),
        (GROUPS, {"widening": Widening.TABLE, "weights_once": True}),
        (
            FloatGemm(64, 8192, 8192, weight_dtype="int4", group=128),
            {
                "consumers": 4,
                "block_m": 64,
                "k_groups": 2,
                "split_k": 2,
                "stages": 12,
                "split_cluster": True,
                "widening": Widening.SUBNORMAL,
            },
        ),
        (WORKLOADS[1], {"teams": 2, "block_m": 128}),
        (
            FloatGemm(64, 8192, 8192, weight_dtype="int4", group=128),
            {"consumers": 4, "block_m": 64, "split_k": 4, "stages": 8},
        ),
        (
            FloatGemm(3456, 4096, 2048, "bfloat16", "uint8", "bfloat16", weight_left=True),
            {"consumers": 3, "block_m": 192, "widening": Widening.MASK},
        ),
        (
            FloatGemm(3456, 4096, 2048, weight_dtype="int4", out_dtype="float32"),
            {"consumers": 3, "block_m": 192, "stages": 3},
        ),
        (WORKLOADS[8], {"teams": 2, "block_m": 112, "row_blocks": 2, "cluster": 2, "stages": 3}),
    ],
    ids=repr,
)
def test_each_knob_compiles_without_spills(workload: FloatGemm, knobs: dict[str, object]) -> None:
    config = replace(SMALL, **knobs)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    kernel = kernel_store().kernel(TEMPLATE, workload, config, TARGET)
    assert kernel.spill_bytes == 0


def test_three_consumers_of_192_rows_are_for_plain_results() -> None:
    config = replace(SMALL, consumers=3, block_m=192)
    plain = FloatGemm(3456, 4096, 2048)
    for workload, legal in ((plain, True), (replace(plain, bias=True), False)):
        rejection = TEMPLATE.space(workload, TARGET).rejection(config)
        assert rejection is None if legal else "fit a consumer's registers" in str(rejection)


def test_products_of_three_consumers_fit_what_threads_are_launched_with() -> None:
    """ptxas has 128 registers a thread there, and asks for 134 where a tile has 216 rows of x."""
    space = TEMPLATE.space(FloatGemm(3456, 4096, 2048, weight_dtype="float16"), TARGET)
    wide = replace(SMALL, block_m=216, stages=3, widening=Widening.PERMUTE)
    assert space.rejection(replace(wide, consumers=2)) is None
    assert "launched with" in str(space.rejection(replace(wide, consumers=3)))
    assert space.rejection(replace(wide, consumers=3, block_m=192)) is None


@needs_nvcc
@pytest.mark.parametrize(
    "dtype, weight_dtype, widening, most",
    [
        ("float16", "int8", Widening.PERMUTE, 4), ("float16", "uint8", Widening.PERMUTE, 4),
        ("bfloat16", "int8", Widening.PERMUTE, 8), ("bfloat16", "uint8", Widening.PERMUTE, 10),
        ("float16", "int4", Widening.PERMUTE, 5), ("bfloat16", "int4", Widening.PERMUTE, 6),
        ("bfloat16", "int8", Widening.FOLD, 8), ("bfloat16", "uint8", Widening.FOLD, 8),
        ("bfloat16", "int8", Widening.MASK, 7), ("bfloat16", "uint8", Widening.MASK, 7),
        ("float16", "int4", Widening.SUBNORMAL, 5), ("float16", "uint4", Widening.SUBNORMAL, 5),
    ],
)  # fmt: skip
def test_conversion_takes_few_instructions(
    dtype: str, weight_dtype: str, widening: Widening, most: int
) -> None:
    """most: of machine code for four values."""
    scaled = widening is Widening.SUBNORMAL
    workload = FloatGemm(16, 64, 64, dtype, weight_dtype, dtype, group=64 * scaled)
    function = Conversion(workload, widening=widening).function()
    source = f"""{function.source}
extern "C" __global__ void kernel(const uint4* from, uint4* to, const unsigned* rows) {{
  unsigned a[16];
  {function.name}(a, from, rows, threadIdx.x);
  for (int i = 0; i < 4; ++i)
    to[i * 128 + threadIdx.x] = make_uint4(a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]);
}}
"""
    counted = instructions(source, "sm_90a", ARITHMETIC)
    # 32 values, and constants that are put into registers.
    assert 8 * (most - 1) < counted <= 8 * most + 4


def test_what_no_kernel_takes_is_declined() -> None:
    for workload in (
        FloatGemm(8, 8, 12), FloatGemm(8, 12, 8), FloatGemm(8, 8, 48, group=16),
        FloatGemm(8, 2, 8, out_dtype="float32"),
    ):  # fmt: skip
        assert not TEMPLATE.matches(workload, TARGET)
    assert not TEMPLATE.matches(FloatGemm(8, 8, 8), parse_target("cuda:sm_80"))


FORMS = [{"batch": 2}, {"residual": True}, {"x_scale": True}, {"in_dtype": "float8_e4m3fn"}]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_gpu_takes_what_is_not_plain(form: dict[str, Any]) -> None:
    workload = FloatGemm(8, 16, 64, **{"weight_dtype": form.get("in_dtype", "int8"), **form})
    names = {
        arch: [template.name for template in matching(workload, parse_target(f"cuda:{arch}"))]
        for arch in ("sm_75", "sm_80", "sm_89", "sm_90a")
    }
    older = [] if workload.in_dtype == "float8_e4m3fn" else ["float_gemm_mma_sync"]
    assert names["sm_75"] == names["sm_80"] == older
    assert names["sm_89"] == ["float_gemm_mma_sync"]
    assert names["sm_90a"] == ["float_gemm_wgmma", "float_gemm_mma_sync"]


@pytest.mark.parametrize(
    "fields, complaint",
    [
        ({"in_dtype": "int8"}, "in_dtype"), ({"weight_dtype": "float32"}, "weight_dtype"),
        ({"out_dtype": "int8"}, "out_dtype"), ({"activation": "tanh"}, "activation"),
        ({"group": 48}, "group 48 does not divide"), ({"group": -8}, "group = -8"),
        ({"m": 0}, "extents"),
        ({"weight_dtype": "float16", "zero_points": True}, "neither groups nor zero points"),
        ({"in_dtype": "float8_e4m3fn"}, "float8_e4m3fn is multiplied with its own type alone"),
        ({"batch": 0}, "batch = 0"),
    ],
)  # fmt: skip
def test_impossible_products_are_refused_in_one_line(
    fields: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as raised:
        FloatGemm(**{"m": 8, "n": 8, "k": 64, **fields})
    assert "\n" not in str(raised.value)
