"""Sparse products by AVX512-VNNI's `vpdpbusd`: four rows of the dense side at a time."""

from __future__ import annotations

from autoq.templates.cpu.sparse import spmm_direct
from autoq.templates.cpu.sparse.template import sparse_template
from autoq.templates.cpu.sparse.tiles import QUAD
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target

_LANES, _REGISTERS = 16, 32


def matches(workload: object, target: Target) -> bool:
    """Sparse products of bytes at least 16 columns wide, on a CPU with AVX512-VNNI."""
    has_vnni = target.vnni and target.avx512
    return (
        has_vnni
        and isinstance(workload, Spmm)
        and not workload.floating
        and spmm_direct.matches(workload, target)
        and workload.n >= _LANES
    )


TEMPLATE = sparse_template(
    "spmm_vnni", matches, lambda workload: _LANES, lambda target: _REGISTERS, QUAD, preference=20
)
