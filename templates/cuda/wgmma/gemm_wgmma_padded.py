"""Matrix products with Hopper wgmma over rows that TMA cannot address, copied to wider ones."""

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
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants, Workload

# With fewer a row is mostly padding.
_LEAST_K = 16


def matches(workload: Workload, target: Target) -> bool:
    """Gemm of bytes with k above 16, no multiple of it."""
    if not isinstance(workload, Gemm) or workload.k < _LEAST_K:
        return False
    return takes_copy(workload) and gemm_wgmma.matches(whole(workload), target)


def space(workload: Gemm, target: Target) -> Space[WgmmaConfig]:
    """That of the product over padded rows."""
    return gemm_wgmma.space(whole(workload), target)


def default(workload: Gemm, target: Target) -> WgmmaConfig:
    """That of the product over padded rows."""
    return gemm_wgmma.default(whole(workload), target)


def build(workload: Gemm, config: WgmmaConfig, target: Target) -> Program:
    """The copy, then the product; parameters x and what else the product takes."""
    wide = whole(workload)
    product = gemm_wgmma.build(wide, config, target)
    return copy_first(workload, product, gemm_wgmma.packed(wide, config), target)


def pack(workload: Gemm, config: WgmmaConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Constants of the product over padded rows."""
    return gemm_wgmma.pack(whole(workload), config, whole_constants(workload, constants))


def packed(workload: Gemm, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return gemm_wgmma.packed(whole(workload), config)


TEMPLATE = Template(
    "gemm_wgmma_padded", 1, matches, space, default, build, pack, packed, preference=15
)
