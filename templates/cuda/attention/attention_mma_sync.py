"""Attention on mma.sync: 16-bit floats with an online softmax, and bytes as quantised models mean.

Any lengths and masks; a row of scores is never in memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.cost import estimate
from autoq.templates.cuda.attention.plan import LEAST_PIECE, AttentionPlan
from autoq.templates.cuda.attention.space import default, space
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_LEAST_COMPUTE_CAPABILITY = 80
_DEEPEST, _DEEPEST_OF_FLOATS = 192, 256
# Indices count bytes in 32 bits; tiles that overhang count on.
_MOST = (1 << 31) - (1 << 24)
_ZERO_POINTS = 4


def matches(workload: object, target: Target) -> bool:
    """Bytes and 16-bit floats from sm_80 on: heads of up to 192 values, 256 of floats without mask.

    Indices must fit 31 bits.
    """
    if not isinstance(workload, Attention) or target.kind != "cuda":
        return False
    plain = workload.floating and not (workload.mask_axes or workload.causal)
    arrays = (*workload.inputs, *workload.outputs, *workload.constants)
    return (
        workload.q_dtype != "float32"
        and target.compute_capability >= _LEAST_COMPUTE_CAPABILITY
        and workload.depth <= (_DEEPEST_OF_FLOATS if plain else _DEEPEST)
        and workload.depth * workload.inputs[0].element.bytes % LEAST_PIECE == 0
        and all(math.prod(array.shape) * array.element.bytes < _MOST for array in arrays)
    )


def build(workload: Attention, config: AttentionConfig, target: Target) -> PrimFunc:
    """PrimFunc (q, k, v, mask?, scalars, zero_points?, mask?, y); see `build_kernel`."""
    from autoq.templates.cuda.attention.kernel import build_kernel

    return build_kernel(AttentionPlan(workload, config, target), packed(workload, config))


def pack(
    workload: Attention, config: AttentionConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The scalars, the zero points of bytes, and a mask that is a constant."""
    arrays = [np.ascontiguousarray(constants["scalars"], np.float32)]
    if not workload.floating:
        zero_points = [int(constants.get(f"{name}_zero_point", 0)) for name in "qkv"]
        arrays.append(np.array([*zero_points, 0], np.int32))
    if workload.constant_mask:
        arrays.append(np.ascontiguousarray(constants["mask"], np.float32))
    return tuple(arrays)


def packed(workload: Attention, config: AttentionConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    specs = [TensorSpec("scalars", (len(ATTENTION_SCALARS),), "float32")]
    if not workload.floating:
        specs.append(TensorSpec("zero_points", (_ZERO_POINTS,), "int32"))
    if workload.constant_mask:
        specs.append(TensorSpec("mask", workload.mask_shape, "float32"))
    return tuple(specs)


TEMPLATE = Template(
    "attention_mma_sync", 1, matches, space, default, build, pack, packed, preference=20,
    estimate=estimate,
)  # fmt: skip
