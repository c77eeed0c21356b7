"""Float32 products through int8 with mma.sync, compensated for what quantising loses."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.base import Template
from autoq.templates.cuda.device.residual.knobs import ResidualKnobs
from autoq.templates.cuda.device.residual.product import ResidualProduct
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.cuda.device.weights import channels_per_thread
from autoq.templates.cuda.mma_sync import conv2d_mma_sync
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling
from autoq.templates.operators.gemm import Gemm


@dataclass(frozen=True)
class ResidualMmaSyncConfig(ResidualKnobs, MmaSyncConfig):
    """Knobs of the product and of what runs beside it.

    The product's are those of `MmaSyncConfig`, the others those of `ResidualKnobs`.
    """


def weight_layout(product: Gemm, config: MmaSyncConfig) -> WeightLayout:
    """Where the product has its weights: rows of bytes that are multiplied as they are."""
    tiling = MmaSyncTiling(product.as_conv2d(), config)
    channels = channels_per_thread(config.warp_n) if config.packing == "weights" else 0
    return WeightLayout(config.block_n, config.block_k, tiling.steps, channels, False)


_PRODUCT = ResidualProduct(
    conv2d_mma_sync.TEMPLATE, ResidualMmaSyncConfig, weight_layout, {}, lambda product: {}
)

TEMPLATE = Template(
    "residual_gemm_mma_sync", 1, _PRODUCT.matches, _PRODUCT.space, _PRODUCT.default,
    _PRODUCT.build, _PRODUCT.pack, _PRODUCT.packed, estimate=_PRODUCT.estimate, preference=20,
)  # fmt: skip
