"""Products with tile-wise sparse weights on wgmma over x as it lies, with k inside.

Boxes of all k come by TMA, and serve the tiles that a block computes side by side. Each tile picks
the k that it keeps as it reads them into registers, where a PRMT makes neighbours of them; or it
multiplies all k, which leaves out pruned columns alone. Where x is turned first, a tile reads the
rows of k that it keeps by ldmatrix. Tile-wise sparsity is that of Guo et al.,
"Accelerating Sparse DNNs Based on Tiled GEMM" (arXiv:2402.10876).
"""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.device.memory.turn import turn_kernel
from autoq.templates.cuda.pruned.picked.config import PickedConfig, PickedTiling
from autoq.templates.cuda.pruned.picked.cost import estimated_seconds
from autoq.templates.cuda.pruned.picked.kernel import (
    build_kernel,
    pack_all,
    packed_all,
)
from autoq.templates.cuda.pruned.picked.operand import Picked, operand_of
from autoq.templates.cuda.pruned.picked.space import ROWS, WIDEST, picked_space
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def _tiling(workload: Picked, config: PickedConfig) -> PickedTiling:
    operand = operand_of(workload)
    assert operand is not None
    return PickedTiling(operand, config)


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of up to 256 columns a tile, of bytes or 16-bit floats, on wgmma.

    Rows of x are whole units of 16 bytes. Convolutions are those of which im2col loads have rows.
    """
    operand = operand_of(workload) if target.has_wgmma else None
    if operand is None or not operand.has_boxes(target):
        return False
    if operand.view.sparsity.granularity > WIDEST:
        return False
    tiling, view = PickedTiling(operand, PickedConfig(ROWS[0], 1, 1, 3, 2, 2)), operand.view
    arrays = ((view.m, operand.channels), (view.m, view.n), packed_all(tiling)[0].shape)
    return tiling.epilogue.supported and indexable(*arrays)


def space(workload: Picked, target: Target) -> Space[PickedConfig]:
    """`picked_space`, which rings and sums fit."""
    operand = operand_of(workload)
    assert operand is not None
    return picked_space(operand, target)


def default(workload: Picked, target: Target) -> PickedConfig:
    """The legal configuration of least estimated time."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: estimate(workload, config, target))


def estimate(workload: Picked, config: PickedConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Picked, config: PickedConfig, target: Target) -> Program:
    """One launch, behind that which turns x, if any; parameters x, further inputs, `packed`, y."""
    tiling = _tiling(workload, config)
    kernel, (y,) = build_kernel(tiling, target), workload.outputs
    x, *others = workload.inputs
    constants = (spec.name for spec in (*others, *packed(workload, config)))
    if not config.turned:
        return Program((Stage(kernel, (x.name, *constants), (y.name,)),))
    turned = tiling.operand.turned(tiling.pitch)
    turn = Stage(turn_kernel(x, turned, target), (x.name,), (turned.name,))
    product = Stage(kernel, (turned.name, *constants), (y.name,))
    return Program((turn, product), (Workspace(turned),))


def pack(workload: Picked, config: PickedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(_tiling(workload, config), constants)


def packed(workload: Picked, config: PickedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload, config))


TEMPLATE = Template(
    "gemm_tile_picked", 1, matches, space, default, build, pack, packed, estimate=estimate
)
