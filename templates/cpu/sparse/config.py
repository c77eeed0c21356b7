"""Knobs of sparse products on a CPU: columns and rows of a task."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.search.space import Space
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target


@dataclass(frozen=True)
class SparseCpuConfig:
    """One register tile, and how rows are shared out.

    rows: vector rows that a task computes, for its columns.
    vectors: vectors of columns of a register tile.
    copied: whether a task copies its columns of b before it gathers from them.
    """

    rows: int
    vectors: int
    copied: bool


def sparse_space(
    workload: Spmm, target: Target, lanes: int, registers: int
) -> Space[SparseCpuConfig]:
    """Tiles of vectors of `lanes` columns that fit so many registers."""

    def fits_registers(config: SparseCpuConfig) -> bool:
        """sums, one vector of gathered columns each and a value fit the registers"""
        return (workload.vector + 1) * config.vectors + 1 <= registers

    most = -(-workload.n // lanes)
    parts = {-(-workload.vector_rows // (1 << i)) for i in range(8)}
    knobs = {
        "rows": tuple(sorted(parts | {sparse_default(workload, target, lanes, registers).rows})),
        "vectors": tuple(count for count in (1, 2, 3, 4, 6, 8) if count == 1 or count <= most),
        "copied": (False, True),
    }
    return Space(SparseCpuConfig, knobs, (fits_registers,))


def sparse_default(workload: Spmm, target: Target, lanes: int, registers: int) -> SparseCpuConfig:
    """Tiles as wide as registers hold, and four tasks a core, where there are so many.

    Columns are copied where a task gathers each row of b more than twice.
    """
    most = min((registers - 1) // (workload.vector + 1), -(-workload.n // lanes))
    vectors = max(count for count in (1, 2, 3, 4, 6, 8) if count <= max(1, most))
    across = -(-workload.n // (lanes * vectors))
    parts = min(workload.vector_rows, -(-4 * target.units // across))
    rows = -(-workload.vector_rows // parts)
    return SparseCpuConfig(rows, vectors, rows * workload.structure.mean_row > 2 * workload.k)
