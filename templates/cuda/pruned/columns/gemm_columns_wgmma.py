"""Tile-wise products over all of k: the dense wgmma pipeline of the columns that are left.

What tiles leave out of k is multiplied as zeros, and columns of zeros are not multiplied. Rows of
outputs become those of y by way of shared memory, with what pruned columns are between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.columns.compact import CompactProduct
from autoq.templates.cuda.pruned.product import pruned_product
from autoq.templates.cuda.pruned.two_four.view import takes_constants_alone
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.default import default_config, untuned_seconds
from autoq.templates.cuda.wgmma.expansion import staged_bytes
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage
from autoq.templates.sparse.sparsity import TILE_WISE
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def _compact(workload: Gemm) -> CompactProduct:
    view = pruned_product(workload, TILE_WISE)
    assert view is not None
    return CompactProduct(view)


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of bytes whose columns that are left are a product of `gemm_wgmma`.

    Rows of y are whole words, and no residual and no scales of rows follow the sums.
    """
    view = pruned_product(workload, TILE_WISE)
    if view is None or view.floating or not takes_constants_alone(view.workload):
        return False
    compact, (y,) = CompactProduct(view), view.workload.outputs
    words = not is_four_bit(y.dtype) and view.n * y.element.bytes % 4 == 0
    return words and indexable(y.shape) and gemm_wgmma.matches(compact.dense, target)


def _problem(compact: CompactProduct, target: Target) -> Problem:
    work = compact.dense.as_conv2d()
    return Problem(work, target, lambda config: _load(compact, config), streams=True, alone=True)


def _load(compact: CompactProduct, config: WgmmaConfig) -> MatrixLoad:
    work = compact.dense.as_conv2d()
    return MatrixLoad(work, config.layout(work), config.block_m)


def _rules(compact: CompactProduct, target: Target) -> list[Callable[[Any], bool]]:
    work = compact.dense.as_conv2d()

    def rows_fit_beside(config: WgmmaConfig) -> bool:
        """rows that become those of y fit beside all stages of all resident blocks"""
        each = target.unit_smem_bytes // config.blocks_per_unit - target.reserved_smem_bytes
        needed = config.smem_bytes(config.layout(work)) + staged_bytes(config, compact.out_bytes)
        return needed <= min(each, target.smem_bytes)

    def tiles_are_whole(config: WgmmaConfig) -> bool:
        """whoever multiplies a tile multiplies all of it"""
        return config.parts == 1

    return [rows_fit_beside, tiles_are_whole]


def space(workload: Gemm, target: Target) -> Space[WgmmaConfig]:
    """Those of `gemm_wgmma` whose tiles are whole."""
    compact = _compact(workload)
    return make_space(_problem(compact, target), WgmmaConfig, None, _rules(compact, target))


def default(workload: Gemm, target: Target) -> WgmmaConfig:
    """The configuration with the least estimated time."""
    return default_config(_problem(_compact(workload), target), space(workload, target))


def estimate(workload: Gemm, config: WgmmaConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return untuned_seconds(_problem(_compact(workload), target), config)


def build(workload: Gemm, config: WgmmaConfig, target: Target) -> Program:
    """The kernel; parameters x, `packed`, what blocks share tiles through, y."""
    compact = _compact(workload)
    work, load = compact.dense.as_conv2d(), _load(compact, config)
    plan = PipelinePlan(
        work, config, load.layout, load, target, expansion=compact.expansion(config)
    )
    kernel = build_pipeline(plan, workload.x_shape, workload.y_shape)
    reads = tuple(spec.name for spec in (*workload.inputs, *packed(workload, config)))
    spaces = tuple(space.spec.name for space in plan.workspaces)
    return Program((Stage(kernel, (*reads, *spaces[:1]), (*spaces, "y")),), plan.workspaces)


def pack(workload: Gemm, config: WgmmaConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `gemm_wgmma` has of the columns that are left, and which of y they are."""
    compact = _compact(workload)
    columns = compact.columns_left(constants)
    dense = gemm_wgmma.pack(compact.dense, config, compact.constants(constants, columns))
    words = compact.words(config, columns, compact.view.of_no_weight(constants))
    return (*dense, *words)


def packed(workload: Gemm, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    compact = _compact(workload)
    return (*gemm_wgmma.packed(compact.dense, config), *compact.specs(config))


TEMPLATE = Template(
    "gemm_columns_wgmma", 1, matches, space, default, build, pack, packed, estimate=estimate
)
