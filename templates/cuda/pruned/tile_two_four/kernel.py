"""The kernel on mma.sp of weights that are 2:4 inside tiles: a block for a tile and rows of y."""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.templates.cuda.pruned.picked.kernel import pack_all as pack_picked
from autoq.templates.cuda.pruned.picked_mma_sync.kernel import kernel_of
from autoq.templates.cuda.pruned.tile_two_four.config import TileTwoFourTiling
from autoq.templates.cuda.pruned.tile_two_four.pack import stages_of
from autoq.templates.cuda.pruned.tile_two_four.source import EVERY_WORD, STAGE
from autoq.templates.cuda.pruned.two_four_mma_sync.source import PRODUCT
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def _product(tiling: TileTwoFourTiling) -> str:
    """CUDA of one instruction, whose sums are anywhere among a thread's."""
    source = PRODUCT.replace("SUM (&d)[4]", "SUM* d")
    source = source.replace("INSTRUCTION", tiling.cut.atom.instruction)
    return source.replace("KIND", "f" if tiling.operand.view.floating else "r")


def build_kernel(tiling: TileTwoFourTiling, target: Target) -> PrimFunc:
    """The kernel; parameters x, further inputs, those of `packed_all`, y."""
    cut = tiling.cut
    sizes = {"SHARED": cut.size, "PLACES_AT": cut.places_at, "LAG": int(tiling.config.ahead)}
    return kernel_of(tiling, target, EVERY_WORD, _product(tiling), STAGE, sizes)


def pack_all(tiling: TileTwoFourTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The schedule of a weight's tiles, and what the epilogue reads."""
    return pack_picked(tiling.cut, constants, stages_of)
