"""Float32 products through int8 with Hopper wgmma, compensated for what quantising loses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoq.templates.cuda.device.residual.knobs import ResidualKnobs
from autoq.templates.cuda.device.residual.product import CompensatedProduct
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.operators.gemm import Gemm

_MOST_IN_TURN = 1 << 25


@dataclass(frozen=True)
class ResidualWgmmaConfig(ResidualKnobs, WgmmaConfig):
    """Knobs of the product and of what runs beside it.

    The product's are those of `WgmmaConfig`, the others those of `ResidualKnobs`.
    """


def weight_layout(product: Gemm, config: WgmmaConfig) -> WeightLayout:
    """Where the product has its weights."""
    layout = config.layout(product.as_conv2d())
    sub_tiles = layout.total // layout.row_channels
    return WeightLayout(config.block_n, config.row_bytes, sub_tiles, config.channels, True)


def preferred(product: Gemm) -> Mapping[str, Any]:
    """Tiles that an H200 takes least time for.

    Up to 2^25 outputs two consumers take tiles of 128 x 128 in turn, so that one stores while one
    multiplies: 12% less for sums int32 [2048, 2048] and [4096, 4096]. For more both share a tile of
    128 x 256, and two blocks the weights: [8192, 8192] takes 31 of 874 us less in the direct form.
    These leave rough sums, and lists are of bands: on an H100 43 us less of 1527 each.
    """
    if product.m * product.n > _MOST_IN_TURN:
        pair = Grid(True, 2, Shared.WEIGHTS)
        return {"block_n": 256, "m_blocks": 1, "team": SplitTeam(2, True), "stages": 4,
                "grid": pair, "rough_sums": True, "bands": True}  # fmt: skip
    return {"block_n": 128, "m_blocks": 2, "team": SplitTeam(2, False), "stages": 6}


def columns_are_alike(config: ResidualWgmmaConfig) -> bool:
    """kernels that write weights know groups of columns that are alike"""
    return config.last_columns == 0


# A block that keeps weights, or asks early for the first ones, reads them before the kernels that
# write them are done.
_PRODUCT = CompensatedProduct(
    gemm_wgmma.TEMPLATE, ResidualWgmmaConfig, weight_layout,
    lambda product: {"weights_stay": (False,), "early_loads": (0,)}, preferred,
    lambda product, config, target, ahead: gemm_wgmma.weighed(
        product, config, target, config.rough_sums, ahead
    ),
    rough=True, rules=(columns_are_alike,),
)  # fmt: skip

TEMPLATE = _PRODUCT.template("residual_gemm_wgmma", 5, __name__, preference=90)
