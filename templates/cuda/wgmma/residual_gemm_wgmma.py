"""Float32 products through int8 with Hopper wgmma, compensated for what quantising loses."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoq.templates.base import Template
from autoq.templates.cuda.device.residual.knobs import ResidualKnobs
from autoq.templates.cuda.device.residual.product import ResidualProduct
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.operators.gemm import Gemm


@dataclass(frozen=True)
class ResidualWgmmaConfig(ResidualKnobs, WgmmaConfig):
    """Knobs of the product and of what runs beside it.

    The product's are those of `WgmmaConfig`, the others those of `ResidualKnobs`.

    narrow: a thread stores 4 neighbouring columns, so that four lanes fill two sectors, and not as
        many as it can have.
    """

    narrow: bool = field(default=True, kw_only=True)

    @property
    def channels(self) -> int:
        """Consecutive columns of a thread."""
        return 4 if self.narrow else super().channels


def weight_layout(product: Gemm, config: WgmmaConfig) -> WeightLayout:
    """Where the product has its weights."""
    layout = config.layout(product.as_conv2d())
    sub_tiles = layout.total // layout.row_channels
    return WeightLayout(config.block_n, config.row_bytes, sub_tiles, config.channels, True)


# A block that keeps weights reads them before the kernels that write them are done.
_PRODUCT = ResidualProduct(
    gemm_wgmma.TEMPLATE, ResidualWgmmaConfig, weight_layout,
    {"weights_stay": (False,), "narrow": (True, False)},
)  # fmt: skip

TEMPLATE = Template(
    "residual_gemm_wgmma", 1, _PRODUCT.matches, _PRODUCT.space, _PRODUCT.default, _PRODUCT.build,
    _PRODUCT.pack, _PRODUCT.packed, preference=90,
)  # fmt: skip
