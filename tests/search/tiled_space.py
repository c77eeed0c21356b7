"""A recorded space without a device: a tiled GEMM on an analytic GPU, with interactions."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from autoq.search.space import Space
from autoq.search.trial import Trial

M, N, K = 3136, 320, 1152  # ragged against every larger tile
PROCESSORS = 132
SMEM_BYTES = 98304


@dataclass(frozen=True)
class TileConfig:
    """Knobs of the analytic kernel."""

    tile_m: int
    tile_n: int
    tile_k: int
    stages: int
    warps: int
    swizzle: bool
    order: str


def smem_bytes(config: TileConfig) -> int:
    """Shared memory of one block, in bytes."""
    return config.stages * (config.tile_m + config.tile_n) * config.tile_k


def smem_fits(config: TileConfig) -> bool:
    """the pipeline's buffers fit into the shared memory of a block"""
    return smem_bytes(config) <= SMEM_BYTES


def warps_cover_tile(config: TileConfig) -> bool:
    """a warp computes at least 16 by 16 and at most 64 by 128 outputs"""
    share = config.tile_m * config.tile_n // config.warps
    return 256 <= share <= 8192


def tile_space() -> Space[TileConfig]:
    """4458 legal configurations of 5184."""
    return Space(
        TileConfig,
        {
            "tile_m": (32, 64, 96, 128, 192, 256),
            "tile_n": (32, 64, 80, 160),
            "tile_k": (32, 64, 128),
            "stages": (1, 2, 3, 4),
            "warps": (2, 4, 8),
            "swizzle": (False, True),
            "order": ("row", "column", "hilbert"),
        },
        constraints=(smem_fits, warps_cover_tile),
        features=lambda config: {"smem_bytes": smem_bytes(config)},
    )


def tile_seconds(config: TileConfig) -> float:
    """Analytic time: ragged waste, whole waves, occupancy, bank conflicts, latency hiding."""
    blocks = ceil(M / config.tile_m) * ceil(N / config.tile_n)
    resident = max(1, min(SMEM_BYTES // smem_bytes(config), 16 // config.warps))
    waves = ceil(blocks / (PROCESSORS * resident))
    share = config.tile_m * config.tile_n / config.warps
    intensity = config.tile_m * config.tile_n / (config.tile_m + config.tile_n)
    compute = config.tile_m * config.tile_n * (1 + 4 * abs(share / 2048 - 1) ** 0.5 / 4)
    memory = config.tile_m * config.tile_n * 48 / intensity
    if not config.swizzle:
        memory *= 1.8 if config.tile_k >= 64 else 1.2
    if config.order == "column":
        memory *= 1.15 if config.tile_n > config.tile_m else 0.9
    if config.order == "hilbert":
        memory *= 0.85 if blocks > 400 else 1.05
    overlap = min(1.0, (config.stages * resident * config.tile_k / 64) / 4)
    step = max(compute, memory) + (1 - overlap) * min(compute, memory)
    latency = 800 * K / config.tile_k
    return waves * (resident * step * K / 512 + latency) * 1e-9


def measure(config: TileConfig) -> Trial[TileConfig]:
    """The trial of a configuration; a corner of the space fails as a compiler's would."""
    if config.stages == 4 and config.warps == 8:
        return Trial(config, failure="compile")
    return Trial(config, seconds=tile_seconds(config))


def recorded() -> dict[TileConfig, Trial[TileConfig]]:
    """Every legal configuration, measured."""
    return {config: measure(config) for config in tile_space().enumerate()}
