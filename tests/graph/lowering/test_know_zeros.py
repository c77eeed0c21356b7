"""Layers with pruned weights know their zeros, whatever the pattern, and kernels that use them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from workloads.pruned import PATTERNS, knowing, pruned_case

from autoq.pruning.pattern import Pattern
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import TILE_WISE, TWO_FOUR_TILES
from autoq.templates.target import parse_target

BYTES = Gemm(64, 256, 320)
HALVES = FloatGemm(64, 256, 320, weight_dtype="float16")
SINGLE = Gemm(64, 256, 320, "float32", "float32", Epilogue("float32"))
EXPECTED = {
    "tw-16": "gemm_tile_wise", "tw-64": "gemm_tile_wise", "trw-32 runs of 8": "gemm_tile_wise",
    "bw-16": "gemm_spmm_panel", "bw-32": "gemm_spmm_wgmma", "vw-4": "gemm_two_four",
    "tew-32 delta 0.02": "gemm_tiles_and_elements", "tvw-32 2:4": "gemm_tile_wise",
    "ew": "gemm_elements",
}  # fmt: skip
"""A kernel that makes use of the zeros of bytes at a sparsity of 0.75, and of 0.5 of 2:4."""
IN_TILES = ["gemm_tile_picked", "gemm_tile_wise"]
"""All that make use of tiles of 16-bit floats on Hopper."""


def kernels(dense: Gemm | FloatGemm, pattern: Pattern, sparsity: float, target: str) -> list[str]:
    """Templates of the layer that do not take the dense one."""
    _, constants = pruned_case(np.random.default_rng(1), dense, pattern, sparsity)
    on = parse_target(target)
    workload = knowing(dense, constants, on)
    workload.check_constants(constants)
    known = {template.name for template in matching(dense, on)}
    found = [template.name for template in matching(workload, on)]
    assert known <= set(found), "dense kernels stay candidates"
    return [name for name in found if name not in known]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_every_pattern_has_kernels_on_hopper(pattern: Pattern) -> None:
    sparsity = 0.5 if pattern.kind == "vw" else 0.75
    assert EXPECTED[str(pattern)] in kernels(BYTES, pattern, sparsity, "cuda:sm_90a")
    if pattern.kind not in ("bw", "ew"):
        expected = EXPECTED[str(pattern)]
        alike = IN_TILES if expected in IN_TILES else [expected]
        assert kernels(HALVES, pattern, sparsity, "cuda:sm_90a") == alike
    if pattern.kind != "vw":
        assert kernels(SINGLE, pattern, sparsity, "cuda:sm_90a") == ["gemm_elements"]


def test_2_4_weights_have_kernels_wherever_sparse_tensor_cores_are() -> None:
    pattern = Pattern.make("vw", 4)
    for dense in (BYTES, HALVES):
        for arch in ("sm_80", "sm_86", "sm_89"):
            assert kernels(dense, pattern, 0.5, f"cuda:{arch}") == ["gemm_two_four_mma_sync"]
        assert "gemm_two_four_mma_sync" not in kernels(dense, pattern, 0.5, "cuda:sm_75")


def test_2_4_inside_tiles_is_known_where_a_kernel_makes_use_of_it() -> None:
    """Elsewhere, with other vectors inside tiles and without any, the class is that of tiles."""
    of_tiles = {"gemm_tile_picked_mma_sync"}
    for dense in (BYTES, HALVES):
        for granularity in (16, 64):
            pattern = Pattern.make("tvw", granularity)
            for arch in ("sm_80", "sm_86", "sm_89"):
                found = kernels(dense, pattern, 0.75, f"cuda:{arch}")
                assert set(found) == of_tiles | {"gemm_tile_two_four_mma_sync"}
            others = (Pattern.make("tvw", granularity, "8:16"), Pattern.make("tw", granularity))
            for other in others:
                found = kernels(dense, other, 0.75, "cuda:sm_80")
                assert "gemm_tile_two_four_mma_sync" not in found
            _, constants = pruned_case(np.random.default_rng(1), dense, pattern, 0.75)
            expected = {"cuda:sm_80": TWO_FOUR_TILES, "cuda:sm_90a": TILE_WISE}
            if dense is BYTES:  # a CPU has no kernel of 16-bit floats
                expected["cpu"] = TILE_WISE
            for target, name in expected.items():
                known = knowing(dense, constants, parse_target(target)).sparsity
                assert known.pattern == name


def test_blocks_of_16_bit_floats_are_tiles_and_few_values_single_ones() -> None:
    for granularity in (16, 32, 64):
        found = kernels(HALVES, Pattern.make("bw", granularity), 0.75, "cuda:sm_90a")
        assert found == IN_TILES
    assert kernels(HALVES, Pattern.make("ew"), 0.9, "cuda:sm_90a") == ["gemm_elements"]


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p.kind != "vw"], ids=str)
def test_every_pattern_has_kernels_on_a_cpu(pattern: Pattern) -> None:
    names = kernels(SINGLE, pattern, 0.75, "cpu")
    expected = {"ew": "gemm_elements_cpu", "tew": "gemm_tiles_and_elements_direct"}
    assert expected.get(pattern.kind, "gemm_tile_wise_direct") in names
    assert kernels(BYTES, pattern, 0.75, "cpu")


def test_dense_weights_and_those_of_few_zeros_stay_what_they_are() -> None:
    for sparsity in (0.0, 0.04, 0.15, 0.24):
        assert kernels(BYTES, Pattern.make("ew"), sparsity, "cuda:sm_90a") == []
    assert kernels(BYTES, Pattern.make("ew"), 0.5, "cuda:sm_90a") == []


def test_single_values_in_poorly_filled_vectors_have_both_kinds_of_kernels() -> None:
    found = kernels(BYTES, Pattern.make("ew"), 0.97, "cuda:sm_90a")
    assert {"gemm_elements", "gemm_spmm_panel"} <= set(found)


@pytest.mark.parametrize(
    ("conv", "as_product"),
    [
        (Conv2d(2, 7, 9, 64, 128, 3, 3, padding=(1, 1, 1, 1)), Gemm(126, 128, 576)),
        (
            FloatConv2d(2, 7, 9, 64, 128, 3, 3, padding=(1, 1, 1, 1)),
            FloatGemm(126, 128, 576, weight_dtype="float16"),
        ),
    ],
    ids=["bytes", "floats"],
)
def test_convolutions_know_tiles_of_their_taps(
    conv: Conv2d | FloatConv2d, as_product: Gemm | FloatGemm
) -> None:
    """A weight [k, r, s, c] is one of r * s * c rows; groups and other patterns stay dense."""
    target = parse_target("cuda:sm_90a")
    for pattern, known in [(Pattern.make("tw", 32), True), (Pattern.make("ew"), False)]:
        _, constants = pruned_case(np.random.default_rng(1), as_product, pattern, 0.75)
        weight = constants["weight"]
        constants = {**constants, "weight": weight.reshape(conv.weight_shape)}
        workload = knowing(conv, constants, target)
        assert (workload != conv) == known and workload.dense == conv
        workload.check_constants(constants)
        if known:
            names = {template.name for template in matching(workload, target)}
            dense = {template.name for template in matching(conv, target)}
            assert names == dense | {"gemm_tile_picked"}
            assert knowing(conv, constants, parse_target("cuda:sm_80")) == conv
            grouped = replace(conv, c=128, groups=2)
            assert knowing(grouped, constants, target) == grouped
