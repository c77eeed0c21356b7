"""What residual products choose untuned: panels that fit, and knobs that hide none of a product."""

from __future__ import annotations

import dataclasses

import pytest

from autoq.templates.cuda.device.residual.correction.by_bands import band_shape
from autoq.templates.cuda.device.residual.correction.panel import TILE_SUMS, panel_of
from autoq.templates.cuda.device.residual.knobs import (
    ResidualKnobs,
    default_knobs,
    knob_values,
)
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.wgmma import residual_gemm_wgmma
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


@pytest.mark.parametrize(
    "arch, k, shape",
    [
        ("sm_90a", 8192, (16, 1)),
        ("sm_90a", 4096, (8, 2)),
        ("sm_90a", 16384, None),
        ("sm_80", 8192, (4, 1)),
        ("sm_75", 512, None),
    ],
)
def test_bands_are_taken_where_a_panel_of_theirs_fits(
    arch: str, k: int, shape: tuple[int, int] | None
) -> None:
    target = parse_target(f"cuda:{arch}")
    assert band_shape(k, target) == shape
    values = knob_values(ResidualGemm(8192, 8192, k), target)["bands"]
    assert (True in values) == (shape is not None)
    assert knob_values(ResidualGemm(64, 64, k, correction="full"), target)["bands"] == (False,)


def test_large_products_leave_rough_sums_and_lists_of_bands_untuned() -> None:
    target, template = parse_target("cuda:sm_90a"), residual_gemm_wgmma.TEMPLATE
    for size, k, correction, expected in (
        (8192, 8192, "sparse", (256, True, True, False)),
        (8192, 16384, "sparse", (256, True, False, False)),
        (8192, 8192, "none", (256, False, False, False)),
        (4096, 4096, "sparse", (128, False, False, False)),
    ):
        workload = ResidualGemm(size, size, k, correction=correction)
        config = template.default(workload, target)
        found = config.block_n, config.rough_sums, config.bands, config.foresees
        assert found == expected, workload
        assert config in template.space(workload, target)


def test_lists_of_bands_have_room_for_their_last_steps() -> None:
    for vectors in (1, 16, 17, 300):
        plain, bands = (Sides(vectors, 5, 64, 1 / 8, one).listed(vectors) for one in (False, True))
        assert bands % 32 == 0 and bands >= plain + 32 * -(-vectors // 16)
