"""mma.sync products of floats with narrow weights: spills, instructions, and what is taken."""

from __future__ import annotations

import pytest
from opcode_counts import ARITHMETIC, IMAD, instructions
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.cuda.mixed.mma_sync.config import Conform
from autoq.templates.cuda.mixed.mma_sync.float_gemm_mma_sync import TEMPLATE
from autoq.templates.cuda.mixed.mma_sync.fragments import Fragments
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")
LARGE = FloatGemm(3456, 4096, 2048, bias=True, activation="gelu")
DEFAULTS = [
    (LARGE, "sm_75"),
    (LARGE, "sm_80"),
    (FloatGemm(4096, 4096, 4096, "float8_e4m3fn", "float8_e4m3fn", x_scale=True), "sm_90a"),
    (FloatGemm(64, 8192, 8192, weight_dtype="int4", group=128), "sm_90a"),
    (FloatGemm(201, 263, 327, out_dtype="float32", weight_left=True), "sm_89"),
    (FloatGemm(700, 512, 512, "bfloat16", "uint8", "bfloat16", zero_points=True), "sm_86"),
    (FloatGemm(1024, 1024, 512, activation="gelu", x_scale=True, residual=True), "sm_80"),
    (FloatGemm(201, 264, 327, "float8_e4m3fn", "float8_e4m3fn", x_scale=True, batch=2), "sm_89"),
]


def targets() -> list[Target]:
    return [parse_target(f"cuda:{arch}") for arch in ARCHS]


@needs_nvcc
@pytest.mark.parametrize(("workload", "arch"), DEFAULTS, ids=str)
def test_defaults_compile_without_spills(workload: FloatGemm, arch: str) -> None:
    target = parse_target(f"cuda:{arch}")
    config = TEMPLATE.default(workload, target)
    first = TEMPLATE.program(workload, config, target).stages[0]
    kernel = compile_kernel(first.function, target)
    assert kernel.spill_bytes == 0
    (launch,) = kernel.launches
    assert launch.block == (config.threads, 1, 1)
    assert launch.smem_bytes == MixedSyncTiling(workload, config).smem_bytes


@needs_nvcc
@pytest.mark.parametrize(
    "dtype, weight_dtype, zeros, most",
    [
        ("float16", "int8", True, 4), ("float16", "uint8", True, 4), ("bfloat16", "int8", False, 8),
        ("bfloat16", "uint8", False, 8), ("bfloat16", "uint8", True, 10),
        ("float16", "int4", True, 5), ("bfloat16", "uint4", True, 6),
    ],
)  # fmt: skip
def test_conversion_takes_few_instructions(
    dtype: str, weight_dtype: str, zeros: bool, most: int
) -> None:
    """most: of machine code for four values."""
    workload = FloatGemm(16, 64, 64, dtype, weight_dtype, dtype, zero_points=zeros)
    fragments = Fragments(workload, Widening.PERMUTE, Conform.OFFLINE)
    function = fragments.function(fused=True)
    source = f"""{function.source}
extern "C" __global__ void kernel(const uint4* from, uint4* to, const unsigned* state) {{
  const uint4 words = from[threadIdx.x];
  const unsigned raw[4] = {{words.x, words.y, words.z, words.w}};
  unsigned d[{16 // fragments.words}];
  for (int i = 0; i < {4 // fragments.words}; ++i)
    {function.name}(d + 4 * i, raw + {fragments.words} * i, state, 0);
  for (int i = 0; i < {4 // fragments.words}; ++i)
    to[i * 32 + threadIdx.x] = make_uint4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]);
}}
"""
    counted = instructions(source, "sm_80", ARITHMETIC | {IMAD})
    fours = 8 // fragments.words
    # Addresses and constants that are put into registers are a few more.
    assert fours * (most - 1) < counted <= fours * most + 8


def test_what_it_takes() -> None:
    odd = FloatGemm(3, 5, 7)
    brain = FloatGemm(8, 8, 64, "bfloat16", "int4", "bfloat16", group=32)
    eight = FloatGemm(8, 8, 63, "float8_e4m3fn", "float8_e4m3fn", residual=True)
    for target in targets():
        assert TEMPLATE.matches(odd, target)
        assert TEMPLATE.matches(brain, target) == (target.arch != "sm_75")
        assert TEMPLATE.matches(eight, target) == (target.compute_capability >= 89)
        assert not TEMPLATE.matches(FloatGemm(8, 8, 96, group=48), target)
        assert not TEMPLATE.matches(FloatGemm(1 << 16, 8, 1 << 15), target)
        assert TEMPLATE.matches(FloatGemm(8, 1 << 15, 1 << 15), target)
        assert not TEMPLATE.matches(FloatGemm(8, 1 << 15, 1 << 15, batch=2), target)
        assert not TEMPLATE.matches(FloatGemm(1 << 14, 8, 1 << 15, batch=4), target)
        assert not TEMPLATE.matches(FloatGemm(8, 1 << 15, 1 << 15, weight_dtype="float16"), target)


@pytest.mark.parametrize(("arch", "values"), [("sm_80", (False, True)), ("sm_90a", (False,))])
def test_copies_have_a_policy_where_ptxas_can_encode_it(
    arch: str, values: tuple[bool, ...]
) -> None:
    space = TEMPLATE.space(FloatGemm(64, 256, 512), parse_target(f"cuda:{arch}"))
    assert tuple(space.knobs["weights_once"]) == values


def test_wgmma_comes_first_where_there_is_one() -> None:
    names = [[t.name for t in matching(LARGE, target)] for target in targets()]
    assert names == [["float_gemm_mma_sync"]] * 4 + [["float_gemm_wgmma", "float_gemm_mma_sync"]]
