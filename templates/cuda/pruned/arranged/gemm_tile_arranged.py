"""Tile-wise products on sparse tensor cores: k in an order in which the weight is 2:4.

A tile keeps some of all k, the same for all of its columns, so that a weight has few sets of k.
Where each has about half of all or less there are orders of k in which every set has two of every
four neighbours at most: sparse tensor cores skip the rest, and nothing is gathered. Activations are
put in that order first.
"""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.arranged.config import ArrangedTiling
from autoq.templates.cuda.pruned.arranged.cost import estimated_seconds
from autoq.templates.cuda.pruned.arranged.order_kernel import order_kernel, rows_of_block
from autoq.templates.cuda.pruned.arranged.pack import pack_all, packed_all
from autoq.templates.cuda.pruned.product import pruned_product
from autoq.templates.cuda.pruned.two_four.config import TwoFourConfig
from autoq.templates.cuda.pruned.two_four.kernel import epilogue_of
from autoq.templates.cuda.pruned.two_four.space import COLUMNS, two_four_space
from autoq.templates.cuda.pruned.two_four.view import takes_constants_alone
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.sparse.sparsity import TILE_WISE
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_MOST_K = np.iinfo(np.uint16).max + 1
"""Places of k are named by 16 bits."""
_BESIDE_SUMS = 64
"""Registers of those who put words of y together."""


def _tiling(workload: Gemm | FloatGemm, config: TwoFourConfig) -> ArrangedTiling:
    view = pruned_product(workload, TILE_WISE)
    assert view is not None
    return ArrangedTiling(view, config)


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of bytes or 16-bit floats, on wgmma; rows of x of whole 16 bytes.

    Rows of y are whole words, and no residual and no scales of rows follow the sums.
    """
    view = pruned_product(workload, TILE_WISE)
    if view is None or view.value.bytes == 4 or not target.has_wgmma:
        return False
    if not takes_constants_alone(view.workload) or view.k > _MOST_K:
        return False
    tiling = ArrangedTiling(view, TwoFourConfig(COLUMNS[-1], 1, 1, 2, 4))
    x, (y,) = view.workload.inputs[0], view.workload.outputs
    whole = view.k * view.value.bytes % 16 == 0 and view.n * y.element.bytes % 4 == 0
    if not whole or rows_of_block(x, target) is None:
        return False
    arrays = (tiling.arranged.shape, y.shape, (tiling.sparse.terms, tiling.depth))
    return epilogue_of(tiling.sparse).supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TwoFourConfig]:
    """Those of the 2:4 product."""
    return two_four_space(lambda config: _tiling(workload, config).sparse, target, _BESIDE_SUMS)


def default(workload: Gemm | FloatGemm, target: Target) -> TwoFourConfig:
    """The legal configuration of least estimated time, with the most stages."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: (estimate(workload, config, target), -config.stages))


def estimate(workload: Gemm | FloatGemm, config: TwoFourConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Gemm | FloatGemm, config: TwoFourConfig, target: Target) -> Program:
    """x in order, then the product; parameters x, `packed`, y."""
    from autoq.templates.cuda.pruned.arranged.kernel import product_kernel

    tiling = _tiling(workload, config)
    x, (y,), arranged = workload.inputs[0], workload.outputs, tiling.arranged
    order = tiling.order_spec
    first = Stage(order_kernel(x, order, arranged, target), (x.name, order.name), (arranged.name,))
    names = (spec.name for spec in packed(workload, config))
    product = Stage(product_kernel(tiling, target), (arranged.name, *names), (y.name,))
    return Program((first, product), (Workspace(arranged),))


def pack(
    workload: Gemm | FloatGemm, config: TwoFourConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(_tiling(workload, config), constants)


def packed(workload: Gemm | FloatGemm, config: TwoFourConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload, config))


TEMPLATE = Template(
    "gemm_tile_arranged", 1, matches, space, default, build, pack, packed, estimate=estimate
)
