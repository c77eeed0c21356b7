"""Float32 products through int8 with Hopper wgmma, compensated for what quantising loses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoq.templates.base import Template
from autoq.templates.cuda.device.residual.knobs import ResidualKnobs
from autoq.templates.cuda.device.residual.product import ResidualProduct
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import SplitTeam, WgmmaConfig
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


def in_turn(product: Gemm) -> Mapping[str, Any]:
    """Two consumers that take tiles of 128 x 128 in turn, so that one stores while one multiplies.

    On an H200 that takes 12% less time for sums int32 [2048, 2048] and [4096, 4096], and more than
    all sharing a tile for [8192, 8192].
    """
    if product.m * product.n > _MOST_IN_TURN:
        return {}
    return {"block_n": 128, "m_blocks": 2, "team": SplitTeam(2, False), "stages": 6}


# A block that keeps weights reads them before the kernels that write them are done.
_PRODUCT = ResidualProduct(
    gemm_wgmma.TEMPLATE, ResidualWgmmaConfig, weight_layout,
    lambda product: {"weights_stay": (False,)}, in_turn,
)  # fmt: skip

TEMPLATE = Template(
    "residual_gemm_wgmma", 1, _PRODUCT.matches, _PRODUCT.space, _PRODUCT.default, _PRODUCT.build,
    _PRODUCT.pack, _PRODUCT.packed, preference=90,
)  # fmt: skip
