"""The 2:4 kernel on mma.sp: its packed weight against the weight, and its outputs emulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from form_cases import case_of_form
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.mma.registers import from_words
from autoq.templates.cuda.pruned.two_four.view import two_four_product
from autoq.templates.cuda.pruned.two_four_mma_sync.config import TwoFourMmaConfig, TwoFourMmaTiling
from autoq.templates.cuda.pruned.two_four_mma_sync.gemm_two_four_mma_sync import TEMPLATE
from autoq.templates.cuda.pruned.two_four_mma_sync.pack import pack_weight
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED, IS_READ, NEITHER
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.two_four import random_two_four
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_80")
BYTES = Gemm(100, 300, 512, sparsity=Sparsity.two_four())
FLOATS = FloatGemm(100, 300, 200, weight_dtype="float16", sparsity=Sparsity.two_four())
BRAIN = FloatGemm(
    70, 99, 72, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
    sparsity=Sparsity.two_four(),
)  # fmt: skip


def tiling_of(workload: Gemm | FloatGemm, config: TwoFourMmaConfig) -> TwoFourMmaTiling:
    view = two_four_product(workload, every_form=False)
    assert view is not None
    return TwoFourMmaTiling(view, config)


def spread(tiling: TwoFourMmaTiling, packed: np.ndarray) -> np.ndarray:
    """The weight of whole tiles, by what PTX says of each lane's registers, one after the other."""
    atom, size, words = tiling.atom, tiling.size, tiling.metadata_words
    dtype = element(tiling.view.workload.weight_dtype).dtype
    found = np.zeros((tiling.terms, tiling.k_stages * 2 * atom.k), dtype)
    for tile, stage, block in np.ndindex(*packed.shape[:2], 4 * tiling.config.weight_warps):
        own = packed[tile, stage].reshape(-1, tiling.block_bytes)[block]
        kept = own[:1024].view(np.uint32).reshape(2, 32, 4)
        metadata = own[1024:].view(np.uint32).reshape(words, 32)
        for step in range(2):
            stored = np.zeros((16, atom.stored_k), found.dtype)
            for lane in range(32):
                for register in range(4):
                    row, first = lane // 4 + register % 2 * 8, register // 2 * 16 + lane % 4 * 4
                    values = from_words(kept[step, lane, register], atom.a)
                    stored[row, first // size : first // size + 4 // size] = values
            for row in range(16):
                # Of bytes lanes 0 and 1 of four have the first halves of rows g and g + 8, of
                # floats a lane has four chunks of both, and its step is the half that it is of.
                for chunk in range(atom.k // 4):
                    if size == 1:
                        lane = row % 8 * 4 + row // 8 + chunk // 8 * 2
                        bits = metadata[step, lane] >> np.uint32(4 * (chunk % 8)) & 15
                    else:
                        lane = row % 8 * 4 + step * 2 + chunk // 4
                        bits = metadata[0, lane] >> np.uint32(4 * (row // 8 * 4 + chunk % 4)) & 15
                    first, second = int(bits) & 3, int(bits) >> 2
                    assert first < second, "places in order"
                    weight_row = tile * tiling.tile_weights + block // 4 * 64
                    weight_row += 8 * (row % 8) + 2 * (block % 4) + row // 8
                    column = (stage * 2 + step) * atom.k + 4 * chunk
                    found[weight_row, column + first] = stored[row, 2 * chunk]
                    found[weight_row, column + second] = stored[row, 2 * chunk + 1]
    return found


@pytest.mark.parametrize("workload", [BYTES, FLOATS, BRAIN], ids=str)
def test_stages_hold_the_weight(workload: Gemm | FloatGemm) -> None:
    tiling = tiling_of(workload, TwoFourMmaConfig(2, 2, 32, 3, 4, 1))
    _, constants = workload.random_case(np.random.default_rng(1))
    weight = np.asarray(constants["weight"])
    found = spread(tiling, pack_weight(tiling, constants))
    n, k = weight.shape
    np.testing.assert_array_equal(found[:n, :k], weight)
    assert not found[n:].any() and not found[:, k:].any()


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, TwoFourMmaConfig(2, 2, 32, 3, 4, 1)),
        (replace(BYTES, m=300, n=304), TwoFourMmaConfig(4, 2, 64, 4, 4, 1)),
        (replace(BYTES, m=200, k=1040, n=200), TwoFourMmaConfig(2, 2, 64, 2, 8, 2)),
        (
            replace(BYTES, m=300, n=200, k=208, in_dtype="uint8", epilogue=Epilogue("int32")),
            TwoFourMmaConfig(1, 4, 16, 2, 4, 3),
        ),
        (
            replace(BYTES, weight_dtype="uint8", epilogue=Epilogue("uint8", table=True)),
            TwoFourMmaConfig(2, 1, 64, 3, 16, 1),
        ),
        (
            replace(BYTES, n=202, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            TwoFourMmaConfig(1, 2, 16, 4, 8, 2),
        ),
        (
            replace(BYTES, n=92, epilogue=Epilogue("uint8", "int8", True)),
            TwoFourMmaConfig(2, 2, 16, 3, 8, 1),
        ),
        (
            replace(BYTES, n=92, epilogue=Epilogue("int8", "float32")),
            TwoFourMmaConfig(1, 2, 32, 3, 8, 1),
        ),
        (replace(FLOATS, bias=True), TwoFourMmaConfig(2, 4, 32, 3, 4, 1)),
        (replace(FLOATS, n=250, x_scale=True), TwoFourMmaConfig(4, 1, 64, 2, 4, 1)),
        (replace(FLOATS, residual=True, bias=True), TwoFourMmaConfig(1, 2, 16, 6, 4, 2)),
        (BRAIN, TwoFourMmaConfig(1, 2, 32, 2, 4, 2)),
        (replace(BRAIN, m=1, n=65, k=8), TwoFourMmaConfig(1, 2, 16, 2, 4, 1)),
    ],
    ids=[
        "bytes", "eight warps", "two blocks", "sums", "table", "row scales", "residual",
        "float residual", "floats", "scales of x", "residual of floats", "bfloat16", "one row",
    ],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TwoFourMmaConfig) -> None:
    assert TEMPLATE.matches(workload, TARGET)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


@needs_nvcc
@pytest.mark.parametrize(
    ("out_dtype", "bounds", "scale", "bias", "form"),
    [
        ("int8", (-128, 127, 0), 3e-4, 1 << 21, IS_CONVERTED),
        ("int8", (-138, 117, 10), 3e-4, 1 << 28, IS_READ),
        ("int8", (-100, 127, 0), 3e-4, 1 << 21, NEITHER),
        ("int8", (-138, 117, 10), 3e-5, 1 << 28, NEITHER),
    ],
    ids=["zero", "even", "narrow", "small scales"],
)
def test_the_form_that_operands_allow(
    out_dtype: str, bounds: tuple[int, int, int], scale: float, bias: int, form: float
) -> None:
    """Sums beyond what their bits can say as well, which the output clamps."""
    workload = replace(BYTES, m=64, n=128, k=256, epilogue=Epilogue(out_dtype))
    values, constants = case_of_form(workload, bounds, scale, bias)
    config = TwoFourMmaConfig(2, 2, 32, 2, 4, 1)
    view = two_four_product(workload, every_form=False)
    assert view is not None
    assert view.short_form(view.terms(constants)).numbers[0] == form
    assert_right_emulated(TEMPLATE, workload, config, TARGET, case=(values, constants))


def masked(
    workload: Gemm | FloatGemm, kept: float, rng: np.random.Generator
) -> tuple[Any, dict[str, Any]]:
    """A case whose weight keeps that share of what 2:4 may keep, and has no other zeros."""
    values, constants = workload.random_case(rng)
    weight = constants["weight"]
    mask = random_two_four(rng, np.ones(weight.shape, bool)) & (rng.random(weight.shape) < kept)
    one = np.ones((), weight.dtype)
    constants["weight"] = np.where(mask, np.where(weight == 0, one, weight), one - one)
    workload.check_constants(constants)
    return values, constants


def drawn(seed: int, most: int) -> tuple[np.random.Generator, Gemm | FloatGemm]:
    """A product of random extents up to so many, of bytes by even seeds and of floats by odd."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(extent) for extent in rng.integers(1, most, 3))
    sparsity = Sparsity.two_four()
    if seed % 2:
        of = ("float16", "bfloat16")[seed // 2 % 2]
        k = -(-k // 8) * 8
        return rng, FloatGemm(m, 2 * n, k, of, of, of, bias=True, sparsity=sparsity)
    k = -(-k // 16) * 16
    return rng, Gemm(m, 4 * n, k, ("int8", "uint8")[seed // 2 % 2], sparsity=sparsity)


@needs_nvcc
@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_and_sizes(seed: int, kept: float) -> None:
    """Of nothing but zeros, of groups of four with fewer than two weights, and of full ones."""
    rng, workload = drawn(seed + 4 * int(10 * kept), 150)
    case = masked(workload, kept, rng)
    (config,) = TEMPLATE.space(workload, TARGET).sample(rng, 1)
    assert_right_emulated(TEMPLATE, workload, config, TARGET, case=case)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(6))
def test_random_masks_on_a_gpu(seed: int) -> None:
    """Kernels for sm_80, on whatever GPU is there."""
    _, workload = drawn(seed, 700)
    configs = [TEMPLATE.default(workload, TARGET), *sampled(TEMPLATE, workload, TARGET, seed, 2)]
    assert_right(TEMPLATE, workload, [(one, TARGET) for one in configs], gpu_target(), seed)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "workload",
    [
        replace(BYTES, m=515, n=776, k=1040),
        replace(BYTES, m=515, n=780, k=528, epilogue=Epilogue("uint8", "int8", True)),
        replace(BYTES, m=130, n=202, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
        replace(FLOATS, m=515, n=776, k=1000, bias=True),
        replace(FLOATS, m=130, residual=True),
        BRAIN,
    ],
    ids=["bytes", "residual", "row scales", "floats", "residual of floats", "bfloat16"],
)  # fmt: skip
def test_outputs_on_a_gpu(workload: Gemm | FloatGemm) -> None:
    """Defaults, and configurations that are drawn."""
    configs = [TEMPLATE.default(workload, TARGET), *sampled(TEMPLATE, workload, TARGET, 5, 2)]
    assert_right(TEMPLATE, workload, [(one, TARGET) for one in configs], gpu_target())


def test_what_it_declines() -> None:
    for arch in ("sm_80", "sm_86", "sm_89"):
        assert TEMPLATE.matches(BYTES, parse_target(f"cuda:{arch}"))
        assert TEMPLATE.matches(FLOATS, parse_target(f"cuda:{arch}"))
    others = (
        BYTES.dense, replace(BYTES, k=200), replace(BYTES, n=301),
        replace(BYTES, n=302, epilogue=Epilogue("float16", "int8")),
        replace(BYTES, epilogue=Epilogue("int4")),
        Gemm(100, 300, 512, "float32", "float32", Epilogue("float32"),
             sparsity=Sparsity.two_four()),
    )  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)
    for arch in ("sm_75", "sm_90a"):  # which has none, and which has wgmma
        assert not TEMPLATE.matches(BYTES, parse_target(f"cuda:{arch}"))


def test_defaults_follow_what_a_multiprocessor_holds() -> None:
    large = replace(BYTES, m=4096, n=4096, k=4096)
    ampere = TEMPLATE.default(large, TARGET)
    assert (ampere.weight_warps * ampere.row_warps, ampere.warp_rows) == (8, 64)
    small = parse_target("cuda:sm_86")
    tiling = tiling_of(large, TEMPLATE.default(large, small))
    assert tiling.smem_bytes <= small.smem_bytes < tiling_of(large, ampere).smem_bytes
    assert TEMPLATE.default(replace(large, m=16), TARGET).warp_rows == 16
