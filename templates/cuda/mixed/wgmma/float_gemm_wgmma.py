"""Products of 16-bit floats with weights of floats or narrow integers, on Hopper's wgmma."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.cost import estimate
from autoq.templates.cuda.mixed.wgmma.default import default
from autoq.templates.cuda.mixed.wgmma.kernel import build_kernel
from autoq.templates.cuda.mixed.wgmma.pack import pack as pack_plan
from autoq.templates.cuda.mixed.wgmma.pack import packed as packed_plan
from autoq.templates.cuda.mixed.wgmma.pack import packs_by as packs_by_plan
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.space import space
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def matches(workload: Workload, target: Target) -> bool:
    """Rows of x and y of whole 16 bytes, groups of 32, 64 or more, 32-bit places of residuals.

    float32 is not multiplied.
    """
    if not (isinstance(workload, FloatGemm) and target.has_wgmma):
        return False
    if workload.in_dtype == "float32":
        return False
    rows = tuple(
        spec.shape[-1] * spec.element.bytes for spec in (workload.inputs[0], *workload.outputs)
    )
    group = workload.group
    whole = group == 0 or group == 32 or group % 64 == 0
    placed = not workload.residual or math.prod(workload.y_shape) < 1 << 31
    return all(row_bytes % 16 == 0 for row_bytes in rows) and whole and placed


def build(workload: FloatGemm, config: MixedConfig, target: Target) -> Program:
    """The kernel of a configuration; split reductions have workspaces of their parts' sums."""
    return program(MixedPlan(workload, config), workload.inputs, target)


def program(plan: MixedPlan, inputs: tuple[TensorSpec, ...], target: Target) -> Program:
    """The kernel of a plan over some inputs, and what it needs."""
    grid = plan.grid(target)
    spaces = plan.parts.workspaces(grid) if plan.config.parts_in_memory else ()
    kernel = build_kernel(plan, spaces, grid)
    reads = tuple(spec.name for spec in (*inputs, *packed_plan(plan)))
    names = tuple(space.spec.name for space in spaces)
    ys = tuple(f"y{i}" for i in range(plan.ys)) if plan.apart else ("y",)
    return Program((Stage(kernel, (*reads, *names[:1]), (*names, *ys)),), spaces)


def pack(workload: FloatGemm, config: MixedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Tiles of weights, then what is taken from each row, scales and bias, as far as there are."""
    return pack_plan(MixedPlan(workload, config), constants)


def packed(workload: FloatGemm, config: MixedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_plan(MixedPlan(workload, config))


def packs_by(workload: FloatGemm, config: MixedConfig) -> Hashable:
    """What `pack` makes of a configuration."""
    return packs_by_plan(MixedPlan(workload, config))


TEMPLATE = Template(
    "float_gemm_wgmma", 1, matches, space, default, build, pack, packed, preference=90,
    estimate=estimate, packs_by=packs_by,
)  # fmt: skip
