"""Matrix products with mma.sync over rows that no vector copy fits, copied to wider ones."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cuda.device.padded_product import PaddedProduct, takes_copy, whole
from autoq.templates.cuda.mma_sync import conv2d_mma_sync
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Workload

# Bytes with fewer are left to conv2d_direct, which copies nothing; 4 bits it does not take.
_LEAST_K = 16

_PADDED = PaddedProduct(conv2d_mma_sync.TEMPLATE)


def matches(workload: Workload, target: Target) -> bool:
    """Gemm whose k is no multiple of 4 bytes: of bytes 16 at least, with 4 bits any."""
    if not isinstance(workload, Gemm) or conv2d_mma_sync.matches(workload, target):
        return False
    long = workload.has_four_bits or workload.k >= _LEAST_K
    return long and takes_copy(workload) and conv2d_mma_sync.matches(whole(workload), target)


def build(workload: Gemm, config: MmaSyncConfig, target: Target) -> Program:
    """The copy, then the product; parameters x and what else the product takes."""
    return _PADDED.build(workload, config, target)


TEMPLATE = Template(
    "gemm_mma_sync_padded", 1, matches, _PADDED.space, _PADDED.default, build, _PADDED.pack,
    _PADDED.packed, keeps_nibbles=True, preference=10,
)  # fmt: skip
