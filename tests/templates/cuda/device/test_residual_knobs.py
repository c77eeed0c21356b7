"""What residual products choose untuned: panels that fit, and knobs that hide none of a product."""

from __future__ import annotations

import dataclasses

import pytest

from autoq.templates.cuda.device.residual.correction.panel import TILE_SUMS, panel_of
from autoq.templates.cuda.device.residual.knobs import ResidualKnobs, default_knobs
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import parse_target


@pytest.mark.parametrize("product", (WgmmaConfig, MmaSyncConfig))
def test_knobs_hide_nothing_of_a_product(product: type) -> None:
    names = {field.name for field in dataclasses.fields(ResidualKnobs)}
    assert not names & set(dir(product))


@pytest.mark.parametrize(
    "arch, k, rows, held",
    [
        ("sm_90a", 8192, 16, True),
        ("sm_90a", 16384, 8, True),
        ("sm_90a", 32768, 16, False),
        ("sm_86", 8192, 8, True),
        ("sm_86", 16384, 16, False),
    ],
)
def test_a_panel_takes_the_rows_that_fit(arch: str, k: int, rows: int, held: bool) -> None:
    target = parse_target(f"cuda:{arch}")
    chosen = default_knobs(ResidualGemm(8192, 8192, k), target)
    assert chosen["panel_rows"] == rows
    panel = panel_of(rows, k, target)
    assert panel.held == held
    assert panel.smem_bytes == held * rows * k + 4 * TILE_SUMS * panel.warps
    assert panel.together * panel.smem_bytes <= target.unit_smem_bytes
    assert panel.together * panel.warps * 32 * 128 <= target.register_file
