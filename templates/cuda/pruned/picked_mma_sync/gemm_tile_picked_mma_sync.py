"""Products with tile-wise sparse weights on mma.sync over x as it lies, with k inside.

A block computes one tile of some rows of y. All k of these rows pass through shared memory, and a
warp picks what the tile keeps as it reads them into registers, as `gemm_tile_picked` does; the
weights are packed in the same way. Tile-wise sparsity is that of Guo et al., "Accelerating Sparse
DNNs Based on Tiled GEMM" (arXiv:2402.10876).
"""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.picked.kernel import pack_all, packed_all
from autoq.templates.cuda.pruned.picked.operand import operand_of
from autoq.templates.cuda.pruned.picked_mma_sync.config import PickedMmaConfig, PickedMmaTiling
from autoq.templates.cuda.pruned.picked_mma_sync.cost import estimated_seconds, features
from autoq.templates.cuda.pruned.picked_mma_sync.kernel import build_kernel
from autoq.templates.cuda.pruned.picked_mma_sync.pack import stages_of
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LEAST_COMPUTE_CAPABILITY = 80
_ROWS = (64, 128, 256)
_WARPS = (4, 8)
_X_STAGES = (2, 3, 4, 6)
_STAGES = (3, 4, 6)
_JOINED = (1, 2)
_WIDEST = 256
_REGISTERS = 250
_LEAST = PickedMmaConfig(rows=_ROWS[0], warps=_WARPS[0], x_stages=_X_STAGES[0], stages=_STAGES[0])
"""What takes the least of a multiprocessor."""


def _tiling(workload: Gemm | FloatGemm, config: PickedMmaConfig) -> PickedMmaTiling:
    operand = operand_of(workload)
    assert operand is not None
    return PickedMmaTiling(operand, config)


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of up to 256 columns a tile, of bytes or 16-bit floats, without wgmma.

    Rows of x are whole units of 16 bytes, and a block fits a multiprocessor.
    """
    capable = target.compute_capability >= _LEAST_COMPUTE_CAPABILITY and not target.has_wgmma
    if not capable or not isinstance(workload, Gemm | FloatGemm):
        return False
    operand = operand_of(workload)
    if operand is None or operand.view.sparsity.granularity > _WIDEST:
        return False
    view, tiling = operand.view, _tiling(workload, _LEAST)
    cut = tiling.cut
    arrays = ((view.m, view.k), (view.m, view.n), packed_all(cut)[0].shape)
    return cut.epilogue.supported and indexable(*arrays) and tiling.resident(target) > 0


def space(workload: Gemm | FloatGemm, target: Target) -> Space[PickedMmaConfig]:
    """Rings and sums that fit a multiprocessor."""
    view = _tiling(workload, _LEAST).operand.view
    knobs = {
        "rows": _ROWS, "warps": _WARPS, "x_stages": _X_STAGES, "stages": _STAGES,
        "joined": _JOINED,
    }  # fmt: skip

    def warps_share_rows(config: PickedMmaConfig) -> bool:
        """Each warp has 16 rows, or a multiple of them."""
        return config.rows % (16 * config.warps) == 0

    def rows_are_there(config: PickedMmaConfig) -> bool:
        """No tile is twice as high as y, unless it is the lowest."""
        return config.rows == _ROWS[0] or config.rows < 2 * view.m

    def tiles_are_there(config: PickedMmaConfig) -> bool:
        """Joined tiles are as wide as a block's at most."""
        return config.joined == 1 or view.sparsity.granularity * config.joined <= _WIDEST

    def a_block_fits(config: PickedMmaConfig) -> bool:
        """A multiprocessor has shared memory and registers for a block."""
        tiling = _tiling(workload, config)
        return tiling.registers <= _REGISTERS and tiling.resident(target) > 0

    constraints = (warps_share_rows, rows_are_there, tiles_are_there, a_block_fits)
    return Space(
        PickedMmaConfig, knobs, constraints, lambda c: features(_tiling(workload, c), target)
    )


def default(workload: Gemm | FloatGemm, target: Target) -> PickedMmaConfig:
    """The legal configuration of least estimated time, with the most stages."""
    legal = space(workload, target).enumerate()

    def preference(config: PickedMmaConfig) -> tuple[float, int, int]:
        return estimate(workload, config, target), -config.x_stages, -config.stages

    return min(legal, key=preference)


def estimate(workload: Gemm | FloatGemm, config: PickedMmaConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Gemm | FloatGemm, config: PickedMmaConfig, target: Target) -> Program:
    """One launch; parameters x, further inputs, `packed`, y."""
    kernel = build_kernel(_tiling(workload, config), target)
    names = tuple(spec.name for spec in (*workload.inputs, *packed(workload, config)))
    return Program((Stage(kernel, names, (workload.outputs[0].name,)),))


def pack(
    workload: Gemm | FloatGemm, config: PickedMmaConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(_tiling(workload, config).cut, constants, stages_of)


def packed(workload: Gemm | FloatGemm, config: PickedMmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload, config).cut)


TEMPLATE = Template(
    "gemm_tile_picked_mma_sync", 2, matches, space, default, build, pack, packed, estimate=estimate
)
