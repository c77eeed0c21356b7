"""Products that are 2:4 inside tiles on mma.sp: outputs on the emulator and on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target
from mma_sync_matches import assert_takes_tiles_alone
from ptx.kernels import assert_right_emulated
from tile_two_four_cases import BRAIN, BYTES, CLASS, FEW, FLOATS, TARGET, apart, drawn, masked
from with_nvcc import needs_nvcc

from autoq.templates.cuda.pruned.tile_two_four.config import TileTwoFourConfig
from autoq.templates.cuda.pruned.tile_two_four.gemm_tile_two_four_mma_sync import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(BYTES, m=300, k=2080), TileTwoFourConfig(256, 1, 8, 4, 3, False)),
        (replace(BYTES, m=300, k=2080), TileTwoFourConfig(128, 2, 4, 4, 3)),
        (replace(FLOATS, m=70, k=1040), TileTwoFourConfig(64, 2, 4, 2, 4, False)),
        (replace(BYTES, m=70, k=32), TileTwoFourConfig(64, 2, 4, 2, 3)),
        (replace(BYTES, k=4096, in_dtype="uint8", sparsity=FEW), TileTwoFourConfig(64, 2, 4, 3, 4)),
        (replace(BYTES, k=48, epilogue=Epilogue("int32")), TileTwoFourConfig(128, 1, 8, 2, 6)),
        (
            replace(BYTES, weight_dtype="uint8", epilogue=Epilogue("uint8", table=True)),
            TileTwoFourConfig(64, 1, 4, 2, 3),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            TileTwoFourConfig(128, 1, 4, 2, 3),
        ),
        (
            replace(BYTES, n=92, epilogue=Epilogue("uint8", "int8", True)),
            TileTwoFourConfig(64, 1, 4, 6, 3),
        ),
        (replace(FLOATS, m=200, k=1040), TileTwoFourConfig(128, 1, 4, 4, 4, False)),
        (replace(FLOATS, residual=True, bias=True), TileTwoFourConfig(64, 1, 4, 2, 4)),
        (replace(FLOATS, n=250, x_scale=True), TileTwoFourConfig(128, 1, 8, 3, 3)),
        (BRAIN, TileTwoFourConfig(64, 1, 4, 2, 3)),
    ],
    ids=[
        "long", "sides", "sides of floats", "narrow rows", "few", "sums", "table", "row scales",
        "residual", "floats", "residual of floats", "scales of x", "bfloat16",
    ],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TileTwoFourConfig) -> None:
    assert TEMPLATE.matches(workload, TARGET)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


@needs_nvcc
@pytest.mark.parametrize("x_stages", [2, 3, 4])
@pytest.mark.parametrize("of_first", [0.0, 0.4, 1.0])
def test_sides_that_keep_other_rows_wait_for_each_other(of_first: float, x_stages: int) -> None:
    known, case = apart(of_first)
    config = TileTwoFourConfig(64, 2, 4, x_stages, 3)
    assert config in TEMPLATE.space(known, TARGET)
    assert_right_emulated(TEMPLATE, known, config, TARGET, case=case)


@needs_nvcc
@pytest.mark.parametrize(("x_stages", "stages"), [(2, 3), (3, 6), (6, 4)])
def test_stages_that_a_tile_keeps_nothing_of_are_left_out(x_stages: int, stages: int) -> None:
    """Those of x that are under way arrive before others take their places."""
    known, case = apart(0.4)
    config = TileTwoFourConfig(64, 1, 4, x_stages, stages)
    assert config in TEMPLATE.space(known, TARGET)
    assert_right_emulated(TEMPLATE, known, config, TARGET, case=case)


@pytest.mark.gpu
def test_sides_that_keep_other_rows_on_a_gpu() -> None:
    known, case = apart(0.4)
    configs = [TileTwoFourConfig(64, 2, 4, x_stages, 3) for x_stages in (2, 3, 6)]
    assert_right(TEMPLATE, known, [(one, TARGET) for one in configs], gpu_target(), case=case)


@needs_nvcc
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_and_sizes(seed: int, sparsity: float) -> None:
    seed += 4 * int(10 * sparsity)
    workload, case = masked(*drawn(seed, 220), sparsity, seed)
    (config,) = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(seed), 1)
    assert_right_emulated(TEMPLATE, workload, config, TARGET, case=case)


@pytest.mark.gpu
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_on_a_gpu(seed: int, sparsity: float) -> None:
    """Kernels for sm_80, on whatever GPU is there."""
    workload, case = masked(*drawn(seed + 20, 900), sparsity, seed)
    some = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(seed), 2)
    configs = [TEMPLATE.default(workload, TARGET), *some]
    assert_right(TEMPLATE, workload, [(one, TARGET) for one in configs], gpu_target(), case=case)


def test_what_it_declines() -> None:
    assert_takes_tiles_alone(TEMPLATE, BYTES, FLOATS)
    assert not TEMPLATE.matches(replace(BYTES, sparsity=CLASS.tiles_alone), TARGET)
