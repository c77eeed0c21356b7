"""Tile-wise products of bytes by AVX512-VNNI's `vpdpbusd`: four rows of a tile at a time."""

from __future__ import annotations

from autoq.templates.cpu.dot import Dot, vnni
from autoq.templates.cpu.tile_wise.template import is_tile_wise, tile_wise_template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target


def matches(workload: object, target: Target) -> bool:
    """Tile-wise products of bytes with int8 weights, on a CPU with AVX512-VNNI."""
    if not is_tile_wise(workload, target) or not isinstance(workload, Gemm):
        return False
    bytes_alone = workload.in_dtype in ("int8", "uint8") and workload.weight_dtype == "int8"
    return bytes_alone and target.vnni and target.avx512


def _dot(workload: Gemm, target: Target) -> Dot:
    return vnni(workload.in_dtype)


TEMPLATE = tile_wise_template("gemm_tile_wise_vnni", matches, _dot)
