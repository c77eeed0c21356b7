"""Attention of float32 on mma.sync, with float32's accuracy: factors are sums of two of tf32.

Any lengths and masks; a row of scores is never in memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.attention.tf32.config import Tf32AttentionConfig
from autoq.templates.cuda.attention.tf32.cost import estimate
from autoq.templates.cuda.attention.tf32.plan import Tf32AttentionPlan
from autoq.templates.cuda.attention.tf32.space import blocks_meet, default, space
from autoq.templates.cuda.device.launch.grid_range import range_words
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_LEAST_COMPUTE_CAPABILITY = 80
_DEEPEST = 192
# Indices count values in 32 bits; tiles that overhang count on.
_MOST = (1 << 31) - (1 << 24)


def matches(workload: object, target: Target) -> bool:
    """float32 from sm_80 on: heads of up to 192 values, whose arrays have 31-bit indices.

    What is quantised by its range has no more blocks than run at once.
    """
    return (
        isinstance(workload, Attention)
        and target.kind == "cuda"
        and target.compute_capability >= _LEAST_COMPUTE_CAPABILITY
        and workload.q_dtype == "float32"
        and workload.depth <= _DEEPEST
        and all(
            math.prod(array.shape) < _MOST
            for array in (*workload.inputs, *workload.outputs, *workload.constants)
        )
        and (not workload.quantises or blocks_meet(workload, target))
    )


def build(workload: Attention, config: Tf32AttentionConfig, target: Target) -> PrimFunc | Program:
    """The kernel of q, k, v, mask?, scalars, mask? and y, and what `build_kernel` says."""
    from autoq.templates.cuda.attention.tf32.kernel import build_kernel

    plan, constants = Tf32AttentionPlan(workload, config, target), packed(workload, config)
    kernel = build_kernel(plan, constants)
    if not workload.quantises:
        return kernel
    words = range_words(plan.blocks, "words")
    reads = tuple(spec.name for spec in (*workload.inputs, *constants))
    writes = tuple(spec.name for spec in (*workload.outputs, words.spec))
    return Program((Stage(kernel, reads, writes),), (words,))


def pack(
    workload: Attention, config: Tf32AttentionConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The scalars, and a mask that is a constant."""
    names = ("scalars", "mask") if workload.constant_mask else ("scalars",)
    return tuple(np.ascontiguousarray(constants[name], np.float32) for name in names)


def packed(workload: Attention, config: Tf32AttentionConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    scalars = TensorSpec("scalars", (len(ATTENTION_SCALARS),), "float32")
    mask = TensorSpec("mask", workload.mask_shape, "float32")
    return (scalars, mask) if workload.constant_mask else (scalars,)


TEMPLATE = Template(
    "attention_tf32", 1, matches, space, default, build, pack, packed, preference=20,
    estimate=estimate,
)  # fmt: skip
