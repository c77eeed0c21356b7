"""Products of few rows: packed weights against fragments, and outputs on the emulator and a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.mma.catalogue import largest
from autoq.templates.cuda.few_rows.config import LANES, PIECE_K, FewRowsConfig, FewRowsTiling
from autoq.templates.cuda.few_rows.gemm_few_rows import TEMPLATE
from autoq.templates.cuda.few_rows.pack import pack_weight
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

HOPPER, AMPERE = parse_target("cuda:sm_90a"), parse_target("cuda:sm_80")
ONE, MANY = Gemm(1, 64, 256), Gemm(16, 100, 1000)
EPILOGUES = (
    Epilogue("int32"),
    Epilogue("uint8", table=True),
    Epilogue("int8", uniform=True),
    Epilogue("int8", "uint8", requantize_before_add=True),
    Epilogue("float16", float_bias=True, row_scale=True),
    Epilogue("float32", "float32", activation="gelu"),
    Epilogue("bfloat16", row_scale=True),
)


@pytest.mark.parametrize("tiles", [1, 2])
def test_lanes_hold_the_fragments_of_their_values_of_x(tiles: int) -> None:
    """What an instruction multiplies is the product, in whatever order its k are."""
    work = Gemm(1, 40, 150)
    tiling = FewRowsTiling(work, FewRowsConfig(tiles, 1, 1, 1))
    _, constants = work.random_case(np.random.default_rng(3))
    weight = np.asarray(constants["weight"])
    packed = pack_weight(tiling, weight)
    atom = largest(HOPPER, "int8", "int8", "int32")
    of_a, of_b = atom.a_fragment(), atom.b_fragment()
    outputs = np.zeros((tiling.groups * tiling.outputs, tiling.pieces * PIECE_K), np.int8)
    for group, piece, tile, half, lane in np.ndindex(*packed.shape[:5]):
        first = group * tiling.outputs + tile * atom.m
        values = packed[group, piece, tile, half, lane].reshape(atom.a_registers, -1)
        for register, word in enumerate(values):
            for value, (row, k) in zip(word, of_a[lane, register], strict=True):
                # The word of B with the same k, in a lane that shares the row of x.
                found = [
                    (other, b)
                    for other in range(4)
                    for b in range(atom.b_registers)
                    if (of_b[other, b, :, 1] == k).any()
                ]
                ((quarter, b),) = found
                byte = int(np.flatnonzero(of_b[quarter, b, :, 1] == k)[0])
                at = piece * PIECE_K + quarter * 16 + (2 * half + b) * 4 + byte
                outputs[first + row, at] = value
    assert packed.shape[4] == LANES
    np.testing.assert_array_equal(outputs[:40, :150], weight)
    assert not outputs[40:].any() and not outputs[:, 150:].any()


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (ONE, FewRowsConfig(1, 2, 1, 2)),
        (ONE, FewRowsConfig(4, 1, 4, 1)),
        (MANY, FewRowsConfig(2, 4, 3, 3)),
        (MANY, FewRowsConfig(1, 16, 1, 3)),
        (replace(MANY, m=8, n=33), FewRowsConfig(1, 2, 2, 4)),
        (Gemm(9, 37, 300, "uint8"), FewRowsConfig(1, 1, 3, 1)),
        (Gemm(3, 50, 516, "uint8", "uint8"), FewRowsConfig(2, 2, 2, 2)),
        (Gemm(2, 6, 4), FewRowsConfig(1, 1, 1, 1)),
        *((Gemm(5, 52, 520, epilogue=e), FewRowsConfig(1, 2, 2, 2)) for e in EPILOGUES),
        *((Gemm(5, 52, 520, epilogue=e), FewRowsConfig(2, 4, 1, 1)) for e in EPILOGUES),
    ],
    ids=str,
)
def test_outputs_are_right(workload: Gemm, config: FewRowsConfig) -> None:
    for target in (HOPPER, AMPERE):
        space = TEMPLATE.space(workload, target)
        assert config in space, space.rejection(config)
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@needs_nvcc
def test_older_gpus_do_not_wait_for_predecessors() -> None:
    assert_right_emulated(TEMPLATE, MANY, FewRowsConfig(1, 4, 2, 2), AMPERE)


@pytest.mark.gpu
@pytest.mark.parametrize("epilogue", [Epilogue(), *EPILOGUES], ids=str)
@pytest.mark.parametrize("extents", [(1, 1000, 2048), (16, 333, 1000), (7, 4096, 516)], ids=str)
def test_right_on_a_gpu(extents: tuple[int, int, int], epilogue: Epilogue) -> None:
    target = gpu_target()
    workload = Gemm(*extents, epilogue=epilogue)
    configs = [TEMPLATE.default(workload, target), *sampled(TEMPLATE, workload, target, 5, 2)]
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target)


def test_it_is_preferred_but_for_short_reductions_of_many_rows() -> None:
    for extents, first in (
        ((1, 1000, 512), True),
        ((16, 1000, 2048), True),
        ((16, 99, 768), False),
    ):
        found = [template.name for template in matching(Gemm(*extents), HOPPER)]
        assert (found[0] == TEMPLATE.name) == first and TEMPLATE.name in found


def test_the_untuned_choice_streams_large_weights() -> None:
    """As many bytes are under way as an H200 takes to be fed, in one round of blocks."""
    for work in (Gemm(1, 4096, 25088), Gemm(8, 4096, 4096), Gemm(16, 4096, 4096)):
        tiling = FewRowsTiling(work, TEMPLATE.default(work, HOPPER))
        rounds = tiling.blocks / (HOPPER.units * tiling.resident(HOPPER))
        assert tiling.config.splits == 1 and 0.5 < rounds <= 1


def test_every_block_and_warp_has_pieces() -> None:
    work = Gemm(1, 40, 5 * PIECE_K)
    space = TEMPLATE.space(work, HOPPER)
    rejected = {
        FewRowsConfig(1, 1, 4, 1): "blocks_have_work",
        FewRowsConfig(1, 8, 1, 1): "warps_have_work",
        FewRowsConfig(4, 1, 1, 8): "a_block_fits",
    }
    for config, rule in rejected.items():
        assert (space.rejection(config) or "").startswith(rule), config
    for config in space.enumerate():
        tiling = FewRowsTiling(work, config)
        starts = range(0, config.splits * tiling.split_pieces, tiling.split_pieces)
        assert all(start < tiling.pieces for start in starts)


def test_what_it_cannot_compute() -> None:
    for work in (
        Gemm(17, 64, 256),
        Gemm(1, 64, 255),
        Gemm(1, 64, 256, "int4"),
        Gemm(1, 64, 256, weight_dtype="int4"),
        Gemm(1, 64, 256, "float32", "float32", Epilogue("float32")),
        Gemm(1, 64, 256, epilogue=Epilogue("float32", scale_group=64)),
        Gemm(1, 64, 256, epilogue=Epilogue("float32", dynamic=True)),
    ):
        assert not TEMPLATE.matches(work, HOPPER), work
    assert not TEMPLATE.matches(ONE, parse_target("cuda:sm_75"))
