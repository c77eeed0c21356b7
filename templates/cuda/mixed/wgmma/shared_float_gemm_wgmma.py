"""Products of one matrix of 16-bit floats with several weights, in one launch on Hopper's wgmma.

They are a batch whose products read the same x and write arrays of their own.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.mixed.wgmma import float_gemm_wgmma
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.cost import estimate as estimate_product
from autoq.templates.cuda.mixed.wgmma.default import default as default_product
from autoq.templates.cuda.mixed.wgmma.pack import pack as pack_plan
from autoq.templates.cuda.mixed.wgmma.pack import packed as packed_plan
from autoq.templates.cuda.mixed.wgmma.pack import packs_by as packs_by_plan
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.rows import SharedRows
from autoq.templates.cuda.mixed.wgmma.space import space as space_of_product
from autoq.templates.operators.shared.shared_float_gemm import SharedFloatGemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def matches(workload: Workload, target: Target) -> bool:
    """What `float_gemm_wgmma` computes each of."""
    return isinstance(workload, SharedFloatGemm) and float_gemm_wgmma.matches(workload.one, target)


def space(workload: SharedFloatGemm, target: Target) -> Space[MixedConfig]:
    """Legal tiles and pipelines of the batch."""
    return space_of_product(workload.batched, target, workload.bytes)


def default(workload: SharedFloatGemm, target: Target) -> MixedConfig:
    """The configuration of the batch with the least estimated time."""
    return default_product(workload.batched, target, workload.bytes, turns=False)


def estimate(workload: SharedFloatGemm, config: MixedConfig, target: Target) -> float:
    """Roughly the seconds."""
    return estimate_product(workload.batched, config, target, workload.bytes)


def _plan(workload: SharedFloatGemm, config: MixedConfig) -> MixedPlan:
    rows = SharedRows(workload.one, workload.bytes)
    return MixedPlan(workload.batched, config, rows, apart=True)


def build(workload: SharedFloatGemm, config: MixedConfig, target: Target) -> Program:
    """The kernel of a configuration; split reductions have workspaces of their parts' sums."""
    return float_gemm_wgmma.program(_plan(workload, config), workload.inputs, target)


def pack(
    workload: SharedFloatGemm, config: MixedConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Tiles of all weights, then what is taken from each row, scales and biases, if there are."""
    return pack_plan(_plan(workload, config), constants)


def packed(workload: SharedFloatGemm, config: MixedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_plan(_plan(workload, config))


def packs_by(workload: SharedFloatGemm, config: MixedConfig) -> Hashable:
    """What `pack` makes of a configuration."""
    return packs_by_plan(_plan(workload, config))


TEMPLATE = Template(
    "shared_float_gemm_wgmma", 1, matches, space, default, build, pack, packed, preference=90,
    estimate=estimate, packs_by=packs_by,
)  # fmt: skip
