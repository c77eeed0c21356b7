"""Matrix products with mma.sync over rows that no vector copy fits, copied to wider ones."""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.padded_product import (
    copy_first,
    takes_copy,
    whole,
    whole_constants,
)
from autoq.templates.cuda.mma_sync import conv2d_mma_sync
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants, Workload

# Bytes with fewer are left to conv2d_direct, which copies nothing; 4 bits it does not take.
_LEAST_K = 16


def matches(workload: Workload, target: Target) -> bool:
    """Gemm whose k is no multiple of 4 bytes: of bytes 16 at least, with 4 bits any."""
    if not isinstance(workload, Gemm) or conv2d_mma_sync.matches(workload, target):
        return False
    long = workload.has_four_bits or workload.k >= _LEAST_K
    return long and takes_copy(workload) and conv2d_mma_sync.matches(whole(workload), target)


def space(workload: Gemm, target: Target) -> Space[MmaSyncConfig]:
    """That of the product over padded rows."""
    return conv2d_mma_sync.space(whole(workload), target)


def default(workload: Gemm, target: Target) -> MmaSyncConfig:
    """That of the product over padded rows."""
    return conv2d_mma_sync.default(whole(workload), target)


def build(workload: Gemm, config: MmaSyncConfig, target: Target) -> Program:
    """The copy, then the product; parameters x and what else the product takes."""
    wide = whole(workload)
    product = conv2d_mma_sync.build(wide, config, target)
    return copy_first(workload, product, conv2d_mma_sync.packed(wide, config), target)


def pack(workload: Gemm, config: MmaSyncConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Constants of the product over padded rows."""
    return conv2d_mma_sync.pack(whole(workload), config, whole_constants(workload, constants))


def packed(workload: Gemm, config: MmaSyncConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return conv2d_mma_sync.packed(whole(workload), config)


TEMPLATE = Template(
    "gemm_mma_sync_padded",
    1,
    matches,
    space,
    default,
    build,
    pack,
    packed,
    keeps_nibbles=True,
    preference=10,
)
