"""Knobs of what runs beside the product of the integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.device.residual.correction.by_bands import band_shape
from autoq.templates.cuda.device.residual.correction.panel import Panel, panel_of
from autoq.templates.cuda.device.residual.quantise.panels import panels_of
from autoq.templates.cuda.device.residual.weighted_sums import WeightedSums
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import Target

_BLOCKS_A_UNIT = 4
"""The least blocks a multiprocessor of the pass over the product, which waits for memory."""

_PANEL_ROWS = (16, 8)
_PARTS = (1, 2, 4, 8, 16)
_LONGEST_NARROW = 2048
"""Values of columns that narrow panels hold untuned. With wide ones an H200 quantises b in 114 us
instead of 149 at 8192 cubed and in 34 instead of 43 at 4096, but in 16 instead of 15 at 2048, where
all narrow panels are there at once."""
_LEAST_WIDTH = 256
"""Columns of a part: a panel that is read for fewer costs more than its gain."""


@dataclass(frozen=True)
class ResidualKnobs:
    """What a configuration has beside that of the product.

    lanes: threads that quantise a row.
    wide_panels: whether clusters that quantise columns take 32 of them together instead of 16, by
        blocks of half as many rows.
    sum_rows: rows of a block of the pass over the product that finds what matters.
    rough_sums: whether a product whose consumers share tiles leaves weighed sums in single
        precision, from which most cuts follow, instead of a pass over it.
    panel_rows: rows of y that a block of the correction takes.
    bands: whether tensor cores multiply lists, those of 16 rows or columns together; panels then
        have 16 rows whatever `panel_rows` is.
    pieces_ahead: whether what bands gather from memory is brought to the L2 before, in whole lines.
    column_parts: blocks of the correction that share these rows.
    share: of a side's values, for which its lists have room; beyond it a product is faster.
    """

    lanes: int = field(default=256, kw_only=True)
    wide_panels: bool = field(default=False, kw_only=True)
    sum_rows: int = field(default=64, kw_only=True)
    rough_sums: bool = field(default=False, kw_only=True)
    panel_rows: int = field(default=16, kw_only=True)
    bands: bool = field(default=False, kw_only=True)
    pieces_ahead: bool = field(default=False, kw_only=True)
    column_parts: int = field(default=1, kw_only=True)
    share: float = field(default=1 / 128, kw_only=True)

    @property
    def nibbles(self) -> bool:
        """Whether the product takes integers of 4 bits two a byte."""
        return False


def knob_values(workload: ResidualGemm, target: Target) -> dict[str, Sequence[Any]]:
    """The values of these knobs that make a difference to the workload."""
    sparse = workload.correction == "sparse"
    most_parts = workload.n // _LEAST_WIDTH if sparse else 1
    many = workload.m > 64
    in_columns = workload.b_order == "kn" and not workload.constant_b
    panels = in_columns and panels_of(workload.n, workload.k, target, True) is not None
    banded = sparse and band_shape(_filled(workload), target) is not None
    return {
        "lanes": tuple(n for n in (32, 128, 256, 512) if n == 32 or 4 * n < 2 * workload.k),
        "wide_panels": (False, True) if panels else (False,),
        "sum_rows": (16, 32, 64, 128) if sparse and many else (16,),
        "rough_sums": (False, True) if sparse else (False,),
        "panel_rows": _PANEL_ROWS if sparse else (16,),
        "bands": (False, True) if banded else (False,),
        "pieces_ahead": (False, True) if banded else (False,),
        "column_parts": tuple(n for n in _PARTS if n == 1 or n <= most_parts),
        "share": (1 / 256, 1 / 128, 1 / 64, 1 / 16, 1 / 4) if sparse else (1 / 256,),
    }


def _filled(workload: ResidualGemm) -> int:
    """Residuals of a row."""
    return blocks_for(workload.k, 16) * 16


def default_knobs(workload: ResidualGemm, target: Target) -> dict[str, Any]:
    """The values that are used untuned: blocks of few rows where these are few."""
    values = knob_values(workload, target)
    vectors = -(-workload.k // 4)
    lanes = next((n for n in values["lanes"] if vectors <= 8 * n), values["lanes"][-1])

    def blocks(rows: int) -> int:
        return WeightedSums(workload.m, workload.n, rows).blocks

    enough = [n for n in values["sum_rows"] if blocks(n) >= _BLOCKS_A_UNIT * target.units]
    sum_rows = min(max(enough, default=values["sum_rows"][0]), 64)
    panels = [panel_of(rows, _filled(workload), target) for rows in _PANEL_ROWS]
    panel = next((one for one in panels if one.held), panels[0])
    parts = _default_parts(workload, panel, target)
    middle = {"panel_rows": panel.rows, "column_parts": parts, "share": 1 / 128,
              "wide_panels": workload.k > _LONGEST_NARROW}  # fmt: skip
    chosen = {name: one if one in values[name] else values[name][0] for name, one in middle.items()}
    return {"lanes": lanes, "sum_rows": sum_rows, **chosen}


def _default_parts(workload: ResidualGemm, panel: Panel, target: Target) -> int:
    """As few as make three quarters of the blocks that run together: each reads its panel."""
    slots = target.units * panel.together
    panels, width = blocks_for(workload.m, panel.rows), panel.warps * panel.columns
    wide = [parts for parts in _PARTS if parts == 1 or parts * width <= workload.n]
    return next((parts for parts in wide if 4 * panels * parts >= 3 * slots), wide[-1])
