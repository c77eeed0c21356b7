"""Rules of products whose outputs are quantised by the range of all of them, in the wgmma pipeline.

A block holds its outputs in registers until all blocks have found theirs: it has one tile, and all
of them run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoq.search.lanes import choose
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.config import PERSISTENT, PipelineConfig
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.epilogue.cuda.fragments.range_rows import RANGE_BYTES
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

_TILES = ((64, 64), (128, 64), (128, 128), (128, 192), (128, 256), (256, 96), (256, 128))
"""Some tiles that are legal wherever their shared memory and registers are."""


def tiles_meet(workload: Gemm, target: Target) -> bool:
    """Whether each multiprocessor has one tile of the outputs at most, of some size."""
    return any(
        ceil_div(workload.m, m) * ceil_div(workload.n, n) <= target.units
        and (n == 64 or 2 * ceil_div(workload.n, n) * n <= 3 * workload.n)
        and (m == 64 or 2 * ceil_div(workload.m, m) * m <= 3 * workload.m)
        for m, n in _TILES
    )


def range_bytes(problem: Problem, config: PipelineConfig) -> Any:
    """Shared memory behind everything else, with 16 bytes of padding."""
    each = RANGE_BYTES if problem.workload.epilogue.by_range else 0
    return choose(each > 0, 16 + each * config.consumers, 0)


def range_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    """Rules of a legal configuration where outputs are quantised by their range."""
    if not problem.workload.epilogue.by_range:
        return []

    def blocks_hold_tiles(config: PipelineConfig) -> bool:
        """outputs of an unknown range stay in registers: one whole tile a block, all at once"""
        whole = config.parts == 1 and config.cooperative and not config.stream_k
        whole = whole and not config.tail_stages and config.grid == PERSISTENT
        return whole and problem.tiles(config) <= problem.resident(config)

    return [blocks_hold_tiles]
