"""Attention of 16-bit floats on wgmma.

Any lengths and masks; a row of scores is never in memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autoq.templates.base import Template
from autoq.templates.cuda.attention.attention_mma_sync import pack, packed
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.attention.wgmma.cost import estimate
from autoq.templates.cuda.attention.wgmma.plan import WgmmaAttentionPlan
from autoq.templates.cuda.attention.wgmma.space import default, space
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_DEEPEST = 192
_PITCH_BYTES = 16
"""What a tensor map's strides are multiples of."""


def takes(workload: Attention, target: Target) -> bool:
    """On sm_90a: heads of up to 192 values, whose rows are whole 16-byte units."""
    return (
        target.has_wgmma
        and workload.depth <= _DEEPEST
        and workload.depth * workload.inputs[0].element.bytes % _PITCH_BYTES == 0
        and all(
            math.prod(array.shape) < 1 << 31
            for array in (*workload.inputs, *workload.outputs, *workload.constants)
        )
    )


def matches(workload: object, target: Target) -> bool:
    """16-bit floats that `takes` allows."""
    return (
        isinstance(workload, Attention)
        and workload.q_dtype in ("float16", "bfloat16")
        and takes(workload, target)
    )


def build(workload: Attention, config: WgmmaAttentionConfig, target: Target) -> PrimFunc:
    """PrimFunc (q, k, v, mask?, scalars, zero_points?, mask?, y); see `build_kernel`."""
    from autoq.templates.cuda.attention.wgmma.kernel import build_kernel

    return build_kernel(WgmmaAttentionPlan(workload, config, target), packed(workload, config))


TEMPLATE = Template(
    "attention_wgmma", 2, matches, space, default, build, pack, packed, preference=90,
    estimate=estimate,
)  # fmt: skip
