"""Matrix products with Hopper wgmma over rows that TMA cannot address, copied to wider ones."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cuda.device.padded_product import PaddedProduct, takes_copy, whole
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Workload

# With fewer a row is mostly padding.
_LEAST_K = 16

_PADDED = PaddedProduct(gemm_wgmma.TEMPLATE)


def matches(workload: Workload, target: Target) -> bool:
    """Gemm of bytes with k above 16, no multiple of it."""
    if not isinstance(workload, Gemm) or workload.k < _LEAST_K:
        return False
    return takes_copy(workload) and gemm_wgmma.matches(whole(workload), target)


def build(workload: Gemm, config: WgmmaConfig, target: Target, ahead: int = 0) -> Program:
    """The copy, then the product; parameters x and what else the product takes."""
    return _PADDED.build(workload, config, target, ahead)


TEMPLATE = Template(
    "gemm_wgmma_padded", 1, matches, _PADDED.space, _PADDED.default, build, _PADDED.pack,
    _PADDED.packed, preference=15, looks_ahead=True,
)  # fmt: skip
