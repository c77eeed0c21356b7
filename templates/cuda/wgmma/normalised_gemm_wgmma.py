"""Products whose rows are normalised by the cluster that computes them, with Hopper wgmma.

A cluster's blocks hold all columns of their rows in registers, tell each other the sums of each row
through distributed shared memory, and write normalised bytes: what is normalised never lies in
memory, and no second kernel is launched for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.weights import MOST_CHANNELS
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import (
    Grid,
    PipelineConfig,
    Shared,
    SplitTeam,
    WgmmaConfig,
)
from autoq.templates.cuda.wgmma.cost import untuned_seconds
from autoq.templates.cuda.wgmma.default import reduction
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.norm_memory import norm_bytes
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.epilogue.cuda.fragments.norm_rows import NORM_WORDS, RowNorm, norm_numbers
from autoq.templates.epilogue.cuda.parameters.epilogue_table import epilogue_table
from autoq.templates.epilogue.cuda.values.requantisation import boundable
from autoq.templates.operators.normalised_gemm import NormalisedGemm
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants, Workload

_CLUSTERS = (2, 3, 4, 5, 6, 8)
# Consumers share a tile, or two of them its reduction, whose epilogue then takes each half as long.
_TEAMS = (*(SplitTeam(n, True) for n in (1, 2, 3)), SplitTeam(2, True, k_groups=2))
_LONGEST_ROW = 8192
"""Of which the squares of bytes add up to less than 2^31."""


def _grids(n: int, widths: tuple[int, ...]) -> tuple[Grid, ...]:
    """Clusters whose blocks have all of a row."""
    shared = (Shared.ROWS, Shared.ACTIVATIONS)
    return tuple(
        Grid(False, cluster, each)
        for cluster in _CLUSTERS
        if n % cluster == 0 and n // cluster in widths
        for each in shared
    )


_WIDTHS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 256)


def matches(workload: Workload, target: Target) -> bool:
    """Products of `gemm_wgmma` whose rows are whole tiles of a cluster, of bytes added to bytes."""
    if not isinstance(workload, NormalisedGemm) or workload.n > _LONGEST_ROW:
        return False
    if not boundable(workload.epilogue) or not _grids(workload.n, _WIDTHS):
        return False
    return gemm_wgmma.matches(workload.product, target)


def _problem(workload: NormalisedGemm, target: Target) -> Problem:
    work = workload.product.as_conv2d()
    return Problem(
        work, target, lambda config: MatrixLoad(work, config.layout(work), config.block_m)
    )


def _rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def clusters_hold_rows(config: PipelineConfig) -> bool:
        """a cluster has all columns of its rows, and no others"""
        return config.block_n * config.grid.cluster == problem.workload.k

    def tiles_stay_whole(config: PipelineConfig) -> bool:
        """a block has one whole tile, in registers until the others have theirs"""
        whole = config.cooperative and not config.tail_stages
        return whole and not config.stream_k and not config.weights_stay

    def parts_have_one_block(config: PipelineConfig) -> bool:
        """parts of a reduction are of 64 rows each, whose columns they divide"""
        return config.parts == 1 or config.m_blocks == 1

    def sums_fit(config: PipelineConfig) -> bool:
        """what is normalised with fits the shared memory behind all else"""
        layout = config.layout(problem.workload)
        target = problem.target
        each = target.unit_smem_bytes // config.blocks_per_unit - target.reserved_smem_bytes
        needed = config.smem_bytes(layout) + norm_bytes(config)
        return needed <= min(each, target.smem_bytes)

    return [clusters_hold_rows, tiles_stay_whole, parts_have_one_block, sums_fit]


def space(workload: NormalisedGemm, target: Target) -> Space[WgmmaConfig]:
    """Legal tiles and pipelines."""
    problem = _problem(workload, target)
    knobs = {"team": _TEAMS, "grid": _grids(workload.n, _WIDTHS), "weights_stay": (False,),
             "stream_k": (False,), "tail_stages": (0,)}  # fmt: skip
    return make_space(problem, WgmmaConfig, knobs, _rules(problem))


def default(workload: NormalisedGemm, target: Target) -> WgmmaConfig:
    """The one with the least estimated time, of those whose blocks load for themselves."""
    problem, whole = _problem(workload, target), space(workload, target)
    row_bytes, per_stage = reduction(problem, whole.knobs)
    tried = whole.restricted({
        "m_blocks": (1,), "row_bytes": (row_bytes,), "per_stage": (per_stage,),
        "team": [team for team in whole.knobs["team"] if team.cooperative and team.k_groups == 1],
        "blocks_per_unit": (1,), "group": (8,), "channels_outer": (True,),
        "grid": [grid for grid in whole.knobs["grid"] if grid.shared is Shared.ROWS],
        "residual_early": whole.knobs["residual_early"][:1], "residual_ahead": (False,),
        "input_once": (False,), "most_channels": (MOST_CHANNELS,), "weights_once": (False,),
        "early_loads": (2,), "turns_back": (False,),
    })  # fmt: skip
    best = min(
        tried.enumerate(),
        key=lambda config: (untuned_seconds(problem, config), -config.stages),
        default=None,
    )
    return best or next(whole.enumerate())


def build(workload: NormalisedGemm, config: WgmmaConfig, target: Target) -> PrimFunc:
    """The kernel of a configuration; parameters as `build_pipeline` says."""
    work = workload.product.as_conv2d()
    load = MatrixLoad(work, config.layout(work), config.block_m)
    norm = RowNorm(workload.out_dtype)
    plan = PipelinePlan(work, config, load.layout, load, target, norm=norm)
    return build_pipeline(plan, workload.product.x_shape, workload.product.y_shape)


def pack(
    workload: NormalisedGemm, config: WgmmaConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What the product has, and a table of factors, offsets and numbers for each n tile."""
    names = {spec.name for spec in workload.product.constants}
    own = {name: array for name, array in constants.items() if name in names}
    factor, offset, numbers = (
        np.asarray(constants[f"norm_{name}"], np.float32)
        for name in ("factor", "offset", "numbers")
    )
    columns = [
        epilogue_table(one, None, config.block_n, config.channels).view(np.float32)
        for one in (factor, offset)
    ]
    all_rows = norm_numbers(RowNorm(workload.out_dtype), numbers, factor, offset)
    tables = [*columns, np.tile(all_rows, (len(columns[0]), 1))]
    norm = np.ascontiguousarray(np.concatenate(tables, axis=1))
    return (*gemm_wgmma.pack(workload.product, config, own), norm)


def packed(workload: NormalisedGemm, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    shape = (workload.n // config.block_n, 2 * config.block_n + NORM_WORDS)
    norm = TensorSpec("norm", shape, "float32")
    return (*gemm_wgmma.packed(workload.product, config), norm)


TEMPLATE = Template(
    "normalised_gemm_wgmma", 1, matches, space, default, build, pack, packed, preference=90
)
