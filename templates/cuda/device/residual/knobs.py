"""Knobs of what runs beside the product of the integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoq.templates.cuda.device.launch.occupancy import smem_margin
from autoq.templates.cuda.device.residual.correct import COLUMNS
from autoq.templates.cuda.device.residual.weighted_sums import WeightedSums
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import Target

_BLOCKS_A_UNIT = 4
"""Of the pass over the product, which waits for memory: on a multiprocessor at least."""


@dataclass(frozen=True)
class ResidualKnobs:
    """What a configuration has beside that of the product.

    lanes: threads that quantise a row.
    sum_rows: rows of a block of the pass over the product that finds what matters.
    tile_rows: rows of a tile of the correction.
    raster: tiles of the correction side by side that run before those below them.
    share: of a side's values, for which its lists have room; beyond it a product is faster.
    """

    lanes: int = field(default=256, kw_only=True)
    sum_rows: int = field(default=64, kw_only=True)
    tile_rows: int = field(default=64, kw_only=True)
    raster: int = field(default=32, kw_only=True)
    share: float = field(default=1 / 128, kw_only=True)

    @property
    def nibbles(self) -> bool:
        """Whether the product takes integers of 4 bits two a byte."""
        return False


def knob_values(workload: ResidualGemm) -> dict[str, Sequence[Any]]:
    """The values of these knobs that make a difference to the workload."""
    sparse, corrected = workload.correction == "sparse", workload.correction != "none"
    many = workload.m > 64
    return {
        "lanes": tuple(n for n in (32, 128, 256, 512) if n == 32 or 4 * n < 2 * workload.k),
        "sum_rows": (16, 32, 64, 128) if sparse and many else (16,),
        "tile_rows": (32, 64, 128) if corrected and many else (32,),
        "raster": (8, 16, 32) if corrected and workload.n > 8 * COLUMNS else (8,),
        "share": (1 / 256, 1 / 128, 1 / 64, 1 / 16, 1 / 4) if sparse else (1 / 256,),
    }


def rules(target: Target) -> list[Callable[[Any], bool]]:
    """What the knobs have to keep to."""

    def tile_fits(config: ResidualKnobs) -> bool:
        """a tile of the correction fits the shared memory of a block"""
        return 4 * config.tile_rows * COLUMNS + smem_margin(target) <= target.smem_bytes

    return [tile_fits]


def default_knobs(workload: ResidualGemm, target: Target) -> dict[str, Any]:
    """The values that are used untuned: blocks of few rows where these are few."""
    values = knob_values(workload)
    vectors = -(-workload.k // 4)
    lanes = next((n for n in values["lanes"] if vectors <= 8 * n), values["lanes"][-1])

    def blocks(rows: int) -> int:
        return WeightedSums(workload.m, workload.n, rows).blocks

    enough = [n for n in values["sum_rows"] if blocks(n) >= _BLOCKS_A_UNIT * target.units]
    sum_rows = min(max(enough, default=values["sum_rows"][0]), 64)
    middle = {"tile_rows": 64, "raster": 32, "share": 1 / 128}
    chosen = {name: one if one in values[name] else values[name][0] for name, one in middle.items()}
    return {"lanes": lanes, "sum_rows": sum_rows, **chosen}
