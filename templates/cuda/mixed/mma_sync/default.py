"""The untuned configuration of the mma.sync product."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from autoq.errors import ConfigError
from autoq.templates.cuda.mixed.mma_sync.config import MixedSyncConfig
from autoq.templates.cuda.mixed.mma_sync.cost import estimate
from autoq.templates.cuda.mixed.mma_sync.space import layouts, space, widenings
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

# (block_m, block_n, warps_m, warps_n) from large tiles to small ones.
_TILES = (
    (256, 128, 4, 2), (128, 256, 2, 4), (128, 128, 2, 2), (128, 128, 1, 4), (128, 128, 2, 4),
    (64, 256, 1, 4), (64, 128, 2, 4),
    (64, 128, 1, 4), (64, 128, 2, 2), (64, 64, 1, 4), (64, 64, 2, 2), (32, 128, 1, 4),
    (32, 64, 1, 4), (32, 64, 2, 2), (16, 128, 1, 4), (16, 64, 1, 4), (16, 32, 1, 2),
    (8, 256, 1, 8), (8, 128, 1, 8), (8, 128, 1, 4), (8, 64, 1, 4), (8, 32, 1, 2),
)  # fmt: skip

# Estimates that differ by less do not tell candidates apart.
_ABOUT = 1.03


def default(workload: FloatGemm, target: Target) -> MixedSyncConfig:
    """A candidate of the most stages among those of about the least estimated time.

    Raises ConfigError where nothing is legal.
    """
    legal = space(workload, target)
    candidates = [config for config in _candidates(workload) if config in legal]
    if candidates:
        seconds = {config: estimate(workload, config, target) for config in candidates}
        most = _ABOUT * min(seconds.values())
        near = [config for config in candidates if seconds[config] <= most]
        return max(near, key=lambda config: (config.stages, -seconds[config]))
    found = next(legal.enumerate(), None)
    if found is None:
        raise ConfigError(f"no legal configuration for {workload}")
    return found


def _candidates(workload: FloatGemm) -> Iterator[MixedSyncConfig]:
    """Tiles whose weights were arranged offline, with as many stages as there may be."""
    widening = widenings(workload)[0]
    layout = layouts(workload)[0]
    pipelines = itertools.product((64, 128), (4, 3, 2), (1, 2, 4, 8))
    for tile, (block_k, stages, split_k) in itertools.product(_TILES, pipelines):
        block_m, block_n, warps_m, warps_n = tile
        yield MixedSyncConfig(
            block_m, block_n, block_k, warps_m, warps_n, stages, split_k, 8, widening, layout,
            False, 1,
        )  # fmt: skip
