"""The tile-wise kernel that picks on mma.sync: outputs on the emulator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mma_sync_matches import assert_takes_tiles_alone
from ptx.kernels import assert_right_emulated
from tile_two_four_cases import apart
from with_nvcc import needs_nvcc

from autoq.templates.cuda.pruned.picked_mma_sync.config import PickedMmaConfig
from autoq.templates.cuda.pruned.picked_mma_sync.gemm_tile_picked_mma_sync import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_80")
CLASS = Sparsity("tw", 64, 160, Structure(512, 192, 320))
FEW = Sparsity("tw", 64, 100, Structure(40, 20, 24))
BYTES = Gemm(100, 300, 416, sparsity=CLASS)
FLOATS = FloatGemm(100, 300, 416, weight_dtype="float16", sparsity=CLASS)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(BYTES, m=300, k=2080), PickedMmaConfig(256, 8, 4, 3)),
        (replace(BYTES, k=4096, in_dtype="uint8", sparsity=FEW), PickedMmaConfig(64, 4, 3, 4, 2)),
        (
            FloatGemm(70, 100, 80, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
                      sparsity=Sparsity("tw", 24, 60, Structure(96, 32, 64))),
            PickedMmaConfig(64, 4, 2, 3),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            PickedMmaConfig(128, 4, 2, 3),
        ),
    ],
    ids=["long", "few", "bfloat16", "row scales"],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: PickedMmaConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


@needs_nvcc
@pytest.mark.parametrize(("x_stages", "stages"), [(2, 3), (3, 6), (6, 4)])
def test_stages_that_a_tile_keeps_nothing_of_are_left_out(x_stages: int, stages: int) -> None:
    """Those of x that are under way arrive before others take their places."""
    given, case = apart(0.4)
    assert given.sparsity is not None
    known = replace(given, sparsity=given.sparsity.tiles_alone)
    config = PickedMmaConfig(64, 4, x_stages, stages)
    assert config in TEMPLATE.space(known, TARGET)
    assert_right_emulated(TEMPLATE, known, config, TARGET, case=case)


@pytest.mark.parametrize(
    "dense", [Gemm(4096, 4096, 4096), FloatGemm(4096, 4096, 4096, weight_dtype="float16")], ids=str
)
def test_untuned_warps_of_a_multiprocessor_are_in_two_blocks(dense: Gemm | FloatGemm) -> None:
    """All warps of a block wait at the same barriers: an H200, as a GPU without wgmma."""
    work = replace(dense, sparsity=Sparsity("tw", 128, 3072, Structure(81920, 3072, 3072)))
    config = TEMPLATE.default(work, replace(parse_target("cuda:sm_90a"), arch="sm_90"))
    assert (config.rows, config.warps) == (128, 4)


def test_what_it_declines() -> None:
    assert_takes_tiles_alone(TEMPLATE, BYTES, FLOATS)
    wide = replace(
        BYTES, m=3072, n=768, k=2176, in_dtype="uint8", epilogue=Epilogue("uint8", "uint8", True),
        sparsity=Sparsity("tw", 256, 640, Structure(7168, 2560, 2560)),
    )  # fmt: skip
    assert TEMPLATE.matches(wide, TARGET)
    assert not TEMPLATE.matches(wide, parse_target("cuda:sm_86"))  # whose blocks have 99 KiB
