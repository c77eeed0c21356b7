"""Tile-wise products on any CPU, of bytes and of float32: one row of a tile at a time."""

from __future__ import annotations

from autoq.templates.cpu.dot import Dot, multiply_add
from autoq.templates.cpu.tile_wise.template import is_tile_wise, tile_wise_template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

# Vectors of several registers where a CPU has narrower ones, so that packing knows no CPU.
_LANES = 16


def matches(workload: object, target: Target) -> bool:
    """Every tile-wise product of bytes or float32."""
    return is_tile_wise(workload, target)


def _dot(workload: Gemm, target: Target) -> Dot:
    return multiply_add(workload.in_dtype, False, _LANES)


TEMPLATE = tile_wise_template("gemm_tile_wise_direct", matches, _dot)
