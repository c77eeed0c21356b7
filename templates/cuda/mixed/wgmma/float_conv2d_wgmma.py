"""Convolutions of 16-bit floats on Hopper's wgmma: products of patches that TMA gathers.

Groups share tiles: each tile of 64 filters multiplies the channels of all groups that its filters
belong to, with zeros among its weights. A value of x that is not finite makes the results of the
other groups in its tiles NaN.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.wgmma_workloads import im2col_reaches
from autoq.templates.cuda.mixed.wgmma.config import STEP_K, MixedConfig
from autoq.templates.cuda.mixed.wgmma.cost import estimate as estimate_product
from autoq.templates.cuda.mixed.wgmma.default import default as default_product
from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import program
from autoq.templates.cuda.mixed.wgmma.pack import pack as pack_plan
from autoq.templates.cuda.mixed.wgmma.pack import packed as packed_plan
from autoq.templates.cuda.mixed.wgmma.pack import packs_by as packs_by_plan
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.rows import PatchRows
from autoq.templates.cuda.mixed.wgmma.space import Rule
from autoq.templates.cuda.mixed.wgmma.space import space as space_of_product
from autoq.templates.cuda.mixed.wgmma.windows import TILE_FILTERS, Windows
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

_LEAST_CHANNELS = 8
"""Channels of a group: with four, 15 of 16 products of a tile are with zeros, and CUDA cores are
faster (10.1 us against 13.0 for 8 x 56x56x128 in groups of 4 on an H100)."""


def matches(workload: Workload, target: Target) -> bool:
    """One group, or several of 8 channels and more, pixels of whole 16 bytes, what im2col maps can
    reach, 32-bit places."""
    if not (isinstance(workload, FloatConv2d) and target.has_wgmma):
        return False
    if workload.groups > 1 and workload.c // workload.groups < _LEAST_CHANNELS:
        return False
    pixels = (spec.shape[-1] * spec.element.bytes for spec in (*workload.inputs, *workload.outputs))
    return (
        all(pixel_bytes % 16 == 0 for pixel_bytes in pixels)
        and im2col_reaches(workload)
        and max(math.prod(spec.shape) for spec in (*workload.inputs, *workload.outputs)) < 1 << 31
    )


def groups_have_tiles_of_their_own(config: MixedConfig) -> bool:
    """where a convolution has groups, a tile and the rows of x that it loads are of 64 filters"""
    return config.block_n == TILE_FILTERS and config.cluster == 1


def _product(workload: FloatConv2d) -> FloatGemm:
    return workload.product_of(Windows(workload, STEP_K).width)


def _rules(workload: FloatConv2d) -> tuple[Rule, ...]:
    return (groups_have_tiles_of_their_own,) if workload.groups > 1 else ()


def space(workload: FloatConv2d, target: Target) -> Space[MixedConfig]:
    """Legal tiles and pipelines of the product over patches."""
    return space_of_product(_product(workload), target, workload.bytes, _rules(workload))


def default(workload: FloatConv2d, target: Target) -> MixedConfig:
    """The configuration of the product with the least estimated time."""
    return default_product(
        _product(workload), target, workload.bytes, _rules(workload), turns=False
    )


def estimate(workload: FloatConv2d, config: MixedConfig, target: Target) -> float:
    """Roughly the seconds."""
    return estimate_product(_product(workload), config, target, workload.bytes)


def _plan(workload: FloatConv2d, config: MixedConfig) -> MixedPlan:
    return MixedPlan(_product(workload), config, PatchRows(workload, STEP_K))


def build(workload: FloatConv2d, config: MixedConfig, target: Target) -> Program:
    """The kernel of a configuration; split reductions have workspaces of their parts' sums."""
    return program(_plan(workload, config), workload.inputs, target)


def pack(
    workload: FloatConv2d, config: MixedConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Tiles of filters, whose taps have whole steps of channels, then the bias if there is one."""
    weight = Windows(workload, STEP_K).spread(np.asarray(constants["weight"]))
    flat: Mapping[str, Any] = {**constants, "weight": weight.reshape(workload.k, -1)}
    return pack_plan(_plan(workload, config), flat)


def packed(workload: FloatConv2d, config: MixedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_plan(_plan(workload, config))


def packs_by(workload: FloatConv2d, config: MixedConfig) -> Hashable:
    """What `pack` makes of a configuration."""
    return packs_by_plan(_plan(workload, config))


TEMPLATE = Template(
    "float_conv2d_wgmma", 1, matches, space, default, build, pack, packed, preference=90,
    estimate=estimate, packs_by=packs_by,
)  # fmt: skip
