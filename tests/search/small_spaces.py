"""Small spaces that the search tests share."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.search.space import Space
from autoq.search.union import UnionSpace


@dataclass(frozen=True)
class SmallConfig:
    """Five knobs of five kinds."""

    tile: int
    stages: int
    async_copy: bool
    layout: str
    cluster: tuple[int, int]


def tile_fits(config: SmallConfig) -> bool:
    """tile times stages must stay within 256 elements"""
    return config.tile * config.stages <= 256


def cluster_needs_async(config: SmallConfig) -> bool:
    """a cluster larger than one block copies asynchronously"""
    return config.async_copy or config.cluster == (1, 1)


def small_space() -> Space[SmallConfig]:
    return Space(
        SmallConfig,
        {
            "tile": (16, 32, 64, 128),
            "stages": (1, 2, 3, 4),
            "async_copy": (False, True),
            "layout": ("nhwc", "nchw", "nchw32c"),
            "cluster": ((1, 1), (1, 2), (2, 1)),
        },
        constraints=(tile_fits, cluster_needs_async),
        features=lambda config: {"elements": config.tile * config.stages},
    )


@dataclass(frozen=True)
class OtherConfig:
    """Knobs of a second template; it shares one name with the first."""

    tile: int
    split: int


def split_divides(config: OtherConfig) -> bool:
    """split must divide the tile"""
    return config.tile % config.split == 0


def other_space() -> Space[OtherConfig]:
    return Space(
        OtherConfig, {"tile": (24, 48, 96), "split": (1, 5, 8)}, constraints=(split_divides,)
    )


def union_space() -> UnionSpace:
    return UnionSpace({"direct": small_space(), "split": other_space()})
