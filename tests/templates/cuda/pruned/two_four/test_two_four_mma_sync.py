"""The 2:4 kernel on mma.sp: its packed weight against the weight, and its outputs emulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.mma.registers import from_words
from autoq.templates.cuda.pruned.two_four_mma_sync.config import TwoFourMmaConfig, TwoFourMmaTiling
from autoq.templates.cuda.pruned.two_four_mma_sync.gemm_two_four_mma_sync import TEMPLATE
from autoq.templates.cuda.pruned.two_four_mma_sync.pack import pack_weight
from autoq.templates.cuda.pruned.two_four_mma_sync.view import two_four_product
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED, IS_READ, NEITHER
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_80")
BYTES = Gemm(100, 300, 512, sparsity=Sparsity.two_four())
FLOATS = FloatGemm(100, 300, 200, weight_dtype="float16", sparsity=Sparsity.two_four())
BRAIN = FloatGemm(
    70, 99, 72, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
    sparsity=Sparsity.two_four(),
)  # fmt: skip


def tiling_of(workload: Gemm | FloatGemm, config: TwoFourMmaConfig) -> TwoFourMmaTiling:
    view = two_four_product(workload)
    assert view is not None
    return TwoFourMmaTiling(view, config)


def spread(tiling: TwoFourMmaTiling, packed: np.ndarray) -> np.ndarray:
    """The weight of whole tiles, by what PTX says of each lane's registers, one after the other."""
    atom, size, words = tiling.atom, tiling.size, tiling.metadata_words
    found = np.zeros((tiling.terms, tiling.k_stages * 2 * atom.k), tiling.view.workload.weight_dtype)
    for (tile, stage, block), _ in np.ndenumerate(np.empty((*packed.shape[:2], 4 * tiling.config.weight_warps))):
        own = packed[tile, stage].reshape(-1, tiling.block_bytes)[block]
        kept = own[:1024].view(np.uint32).reshape(2, 32, 4)
        metadata = own[1024:].view(np.uint32).reshape(32, words)
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
                        bits = metadata[lane, step] >> np.uint32(4 * (chunk % 8)) & 15
                    else:
                        lane = row % 8 * 4 + step * 2 + chunk // 4
                        bits = metadata[lane, 0] >> np.uint32(4 * (row // 8 * 4 + chunk % 4)) & 15
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
        (replace(BYTES, m=200, k=1040, n=200), TwoFourMmaConfig(2, 2, 96, 2, 8, 1)),
        (FLOATS, TwoFourMmaConfig(1, 2, 16, 6, 4, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TwoFourMmaConfig) -> None:
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, TARGET)
