"""Attention of bytes that computes its own queries, keys and values, on wgmma.

A block has a head of a batch: all its rows, and the head's channels of the three weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.attention.projected.config import ProjectedAttentionConfig
from autoq.templates.cuda.attention.projected.pack import pack, packed
from autoq.templates.cuda.attention.projected.plan import ProjectedPlan
from autoq.templates.cuda.device.launch.occupancy import shared_memory_fits
from autoq.templates.operators.projected_attention import ProjectedAttention
from autoq.templates.target import Target
from autoq.templates.workload import Workload

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_DEPTHS = (32, 64)
_MOST_ROWS = 128
_PITCH_BYTES = 16
_STAGES = (2, 3, 4, 5, 6)


def matches(workload: Workload, target: Target) -> bool:
    """On sm_90a: heads of 32 or 64 values, and up to 128 rows, which two consumers hold."""
    return (
        isinstance(workload, ProjectedAttention)
        and target.has_wgmma
        and workload.depth in _DEPTHS
        and workload.rows <= _MOST_ROWS
        and workload.columns % _PITCH_BYTES == 0
        and all(
            math.prod(array.shape) < 1 << 31
            for array in (*workload.inputs, *workload.outputs, *workload.constants)
        )
    )


def space(
    workload: ProjectedAttention, target: Target
) -> Space[ProjectedAttentionConfig]:  # fmt: skip
    """Rings that fit shared memory, no longer than there are stages."""

    def fits_shared_memory(config: ProjectedAttentionConfig) -> bool:
        return shared_memory_fits(ProjectedPlan(workload, config, target).smem_bytes, 1, target)

    def all_stages_are_used(config: ProjectedAttentionConfig) -> bool:
        return ProjectedPlan(workload, config, target).stages == config.stages

    rules = [fits_shared_memory, all_stages_are_used]
    return Space(ProjectedAttentionConfig, {"stages": _STAGES}, rules)


def default(workload: ProjectedAttention, target: Target) -> ProjectedAttentionConfig:
    """The longest ring."""
    return max(space(workload, target).enumerate(), key=lambda config: config.stages)


def build(
    workload: ProjectedAttention, config: ProjectedAttentionConfig, target: Target
) -> PrimFunc:
    """PrimFunc (x, weights, table, scalars, zero_points, y); see `build_kernel`."""
    from autoq.templates.cuda.attention.projected.kernel import build_kernel

    return build_kernel(ProjectedPlan(workload, config, target))


TEMPLATE = Template(
    "attention_projected", 1, matches, space, default, build, pack, packed, preference=90
)
