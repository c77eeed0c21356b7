"""Products of floats with weights of their own type or of narrow integers, on mma.sync."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.mixed.mma_sync.add_up import add_up
from autoq.templates.cuda.mixed.mma_sync.config import MixedSyncConfig
from autoq.templates.cuda.mixed.mma_sync.cost import estimate
from autoq.templates.cuda.mixed.mma_sync.default import default
from autoq.templates.cuda.mixed.mma_sync.kernel import build_kernel
from autoq.templates.cuda.mixed.mma_sync.pack import pack as pack_tiling
from autoq.templates.cuda.mixed.mma_sync.pack import packed as packed_tiling
from autoq.templates.cuda.mixed.mma_sync.pack import packs_by as packs_by_tiling
from autoq.templates.cuda.mixed.mma_sync.plan import MixedSyncPlan
from autoq.templates.cuda.mixed.mma_sync.space import indexable, space
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.program import Program, Stage, Workspace, alone
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

# Compute capability from which on mma.sync multiplies a type, or cvt makes it.
_LEAST = {"bfloat16": 80, "float8_e4m3fn": 89}
# What the second kernel of a split reduction reads, not the first.
_SECOND = ("x_scale", "residual", "scale", "bias")


def matches(workload: Workload, target: Target) -> bool:
    """Any m, n and k; groups of 32, 64, 128 ...; bfloat16 from sm_80 on, float8_e4m3fn from sm_89.

    float32 is not multiplied. Groups are 32 or multiples of 64 values.
    """
    if not isinstance(workload, FloatGemm) or target.kind != "cuda":
        return False
    group = workload.group
    least = max(_LEAST.get(dtype, 75) for dtype in (workload.in_dtype, workload.out_dtype))
    return (
        workload.in_dtype != "float32"
        and target.compute_capability >= least
        and (group == 0 or group == 32 or group % 64 == 0)
        and indexable(workload)
    )


def build(workload: FloatGemm, config: MixedSyncConfig, target: Target) -> Program:
    """One kernel, or two with sums float32 `[split_k, *y_shape]` between them."""
    plan = MixedSyncPlan(workload, config, target)
    kernel, specs = build_kernel(plan), packed(workload, config)
    if config.split_k == 1:
        return alone(kernel, workload.inputs, specs, workload.outputs)
    sums = TensorSpec("sums", (config.split_k, *workload.y_shape), "float32")
    arrays = (*workload.inputs, *specs)
    first = tuple(spec.name for spec in arrays if spec.name not in _SECOND)
    second = tuple(spec for spec in arrays if spec.name in _SECOND)
    adds = add_up(plan, (sums, *second, *workload.outputs), target)
    stages = (
        Stage(kernel, first, ("sums",)),
        Stage(adds, ("sums", *(spec.name for spec in second)), ("y",)),
    )
    return Program(stages, (Workspace(sums),))


def pack(
    workload: FloatGemm, config: MixedSyncConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Weights, what groups need or is taken from each row, scales and bias, as there are."""
    return pack_tiling(MixedSyncTiling(workload, config), constants)


def packed(workload: FloatGemm, config: MixedSyncConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_tiling(MixedSyncTiling(workload, config))


def packs_by(workload: FloatGemm, config: MixedSyncConfig) -> Hashable:
    """What `pack` makes of a configuration."""
    return packs_by_tiling(MixedSyncTiling(workload, config))


TEMPLATE = Template(
    "float_gemm_mma_sync", 1, matches, space, default, build, pack, packed, preference=20,
    estimate=estimate, keeps_nibbles=True, packs_by=packs_by,
)  # fmt: skip
