"""Products of one matrix with several others, in one launch of the wgmma pipeline.

Each product has a grid of its own, side by side: together they fill the multiprocessors where one
of a transformer's queries, keys or values takes a third of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.default import default_config
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.plan import Extras, PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def matches(workload: Workload, target: Target) -> bool:
    """What `gemm_wgmma` computes each of."""
    return isinstance(workload, SharedGemm) and gemm_wgmma.matches(workload.one, target)


def _problem(product: Gemm, target: Target) -> Problem:
    """A product whose blocks finish their tiles themselves."""
    work = product.as_conv2d()
    return Problem(
        work, target, lambda config: MatrixLoad(work, config.layout(work), config.block_m)
    )


def space(workload: SharedGemm, target: Target) -> Space[WgmmaConfig]:
    """Legal tiles, pipelines and schedules of one of the products."""
    return make_space(_problem(workload.one, target), WgmmaConfig)


def default(workload: SharedGemm, target: Target) -> WgmmaConfig:
    """The configuration with the least estimated time for a product of as much work."""
    whole = replace(_problem(workload.whole, target), products=workload.products)
    return default_config(whole, space(workload, target))


def build(workload: SharedGemm, config: WgmmaConfig, target: Target, ahead: int = 0) -> PrimFunc:
    """The kernel of a configuration; parameters as `build_pipeline` says."""
    work = workload.one.as_conv2d()
    load = MatrixLoad(work, config.layout(work), config.block_m)
    plan = PipelinePlan(
        work, config, load.layout, load, target, workload.products, Extras(ahead=ahead)
    )
    return build_pipeline(plan, workload.one.x_shape, workload.one.y_shape)


def pack(workload: SharedGemm, config: WgmmaConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What one product has of each array, and behind it what the next ones have."""
    packs = (
        gemm_wgmma.pack(workload.one, config, of_one)
        for of_one in workload.constants_of_each(constants)
    )
    return tuple(np.concatenate(arrays) for arrays in zip(*packs, strict=True))


def packed(workload: SharedGemm, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""

    def repeated(spec: TensorSpec) -> TensorSpec:
        first, *rest = spec.shape
        shape: tuple[Any, ...] = (workload.products * first, *rest)
        return TensorSpec(spec.name, shape, spec.dtype)

    return tuple(repeated(spec) for spec in gemm_wgmma.packed(workload.one, config))


def packs_by(workload: SharedGemm, config: WgmmaConfig) -> Hashable:
    """What `pack` makes of a configuration."""
    return gemm_wgmma.packs_by(workload.one, config)


TEMPLATE = Template(
    "shared_gemm_wgmma", 1, matches, space, default, build, pack, packed, preference=90,
    dynamic=True, looks_ahead=True, packs_by=packs_by,
)  # fmt: skip
