"""Float32 products through int8 or int4 with mma.sync, compensated for what quantising loses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoq.templates.cuda.device.residual.knobs import ResidualKnobs
from autoq.templates.cuda.device.residual.product import CompensatedProduct
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

    @property
    def nibbles(self) -> bool:
        return self.compute == "s4"


def weight_layout(product: Gemm, config: MmaSyncConfig) -> WeightLayout:
    """Where the product has its weights: rows of values that are multiplied as they are."""
    tiling = MmaSyncTiling(product.as_conv2d(), config)
    channels = channels_per_thread(config.warp_n) if config.packing == "weights" else 0
    values = config.block_k * (2 if config.compute == "s4" else 1)
    return WeightLayout(config.block_n, values, tiling.steps, channels, False)


def own_values(product: Gemm) -> Mapping[str, tuple[Any, ...]]:
    """Values of 4 bits are in bytes already where they are not multiplied two a byte."""
    return {"compute": ("s4",)} if product.in_dtype == "int4" else {}


_PRODUCT = CompensatedProduct(
    conv2d_mma_sync.TEMPLATE, ResidualMmaSyncConfig, weight_layout, own_values, lambda product: {},
    four_bits=True,
)  # fmt: skip

TEMPLATE = _PRODUCT.template("residual_gemm_mma_sync", 4, __name__, preference=20)
