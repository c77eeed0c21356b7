"""Tiles whose last columns have fewer channels a thread: every element right, nothing spilled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gpu_kernels import kernel_store
from ptx.kernels import FENCED, assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.templates.base import Template
from autoq.templates.cuda.device.weights import channels_per_thread, last_columns, row_channels
from autoq.templates.cuda.wgmma import conv2d_im2col, gemm_wgmma, residual_gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.residual_gemm import ResidualGemm

CONFIG = WgmmaConfig(
    block_n=144, row_bytes=64, per_stage=1, stages=4, team=SplitTeam(2, False), blocks_per_unit=1,
    grid=PERSISTENT, group=3, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=1,
)  # fmt: skip
UNIFORM = Epilogue(uniform=True)

# Template, workload, knobs other than those of CONFIG, multiprocessors. Some rows end before the
# last columns of a tile, and some within them.
CASES: list[tuple[Template, Gemm | Conv2d, dict[str, Any], int]] = [
    (gemm_wgmma.TEMPLATE, Gemm(300, 283, 192, epilogue=UNIFORM), {}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(400, 144, 208, epilogue=UNIFORM),
     {"m_blocks": 2, "tail_stages": 2, "team": SplitTeam(1, True)}, 3),
    (gemm_wgmma.TEMPLATE, Gemm(300, 260, 192, "uint8"), {"channels_outer": False}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(300, 288, 192, epilogue=EPILOGUES["u8+s8 requantised"]),
     {"m_blocks": 2, "tail_stages": 2}, 1),
    (gemm_wgmma.TEMPLATE, Gemm(200, 134, 192, epilogue=EPILOGUES["s32"]),
     {"most_channels": 4, "grid": Grid(True, 2, Shared.WEIGHTS), "team": SplitTeam(1, True)}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(300, 280, 192, epilogue=Epilogue("float16", float_bias=True)),
     {"most_channels": 8}, 2),
    (conv2d_im2col.TEMPLATE,
     Conv2d(2, 9, 9, 64, 200, 3, 3, (1, 1), (1, 1, 1, 1), zero_point_border=True), {}, 1),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize(
    "template, workload, knobs, units", CASES, ids=lambda one: getattr(one, "name", str(one))
)
def test_every_element_is_right(
    template: Template, workload: Gemm | Conv2d, knobs: dict[str, Any], units: int
) -> None:
    target, config = TARGET.of_units(units), replace(CONFIG, **knobs)
    assert template.space(workload, target).rejection(config) is None
    assert kernel_store().kernel(template, workload, config, target).spill_bytes == 0
    assert_right_emulated(template, workload, config, target, FENCED)


def test_other_columns_keep_their_channels() -> None:
    assert [n for n in range(16, 273, 16) if last_columns(n)] == [144, 176, 208, 240, 272]
    assert [channels_per_thread(n) for n in (144, 176, 208)] == [16, 8, 16]
    assert (CONFIG.channels, CONFIG.groups) == (16, 2)
    order = row_channels(144)
    assert np.array_equal(order[:128], row_channels(128))
    assert np.array_equal(order[128:], 128 + row_channels(16))


@pytest.mark.parametrize(
    "epilogue, knobs",
    [
        (Epilogue(), {"team": SplitTeam(2, True, 2)}),
        (Epilogue(), {"stream_k": True}),
        (EPILOGUES["s8+s8"], {"residual_early": True}),
        (Epilogue("float16", scale_group=64), {}),
    ],
    ids=str,
)
def test_what_takes_alike_groups_is_declined(epilogue: Epilogue, knobs: dict[str, Any]) -> None:
    space = gemm_wgmma.TEMPLATE.space(Gemm(3000, 720, 1024, epilogue=epilogue), TARGET)
    assert "few columns at their end" in str(space.rejection(replace(CONFIG, **knobs)))


def test_products_whose_weights_a_kernel_writes_have_none() -> None:
    workload = ResidualGemm(512, 512, 512)
    space = residual_gemm_wgmma.TEMPLATE.space(workload, TARGET)
    config = replace(residual_gemm_wgmma.TEMPLATE.default(workload, TARGET), block_n=144)
    assert "groups of columns that are alike" in str(space.rejection(config))
