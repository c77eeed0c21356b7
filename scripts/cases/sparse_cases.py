"""Sparse products as they are measured beside other libraries."""

from __future__ import annotations

from dataclasses import replace

from autoq.templates.operators.spmm import Spmm
from autoq.templates.structure import Structure, bucket
from autoq.templates.workload import Workload


def product(m: int, k: int, n: int, sparsity: float, vector: int = 8) -> Spmm:
    """A product whose vector rows have about as many vectors as each other."""
    mean = round((1 - sparsity) * k)
    longest = min(k, round(1.2 * mean) + 8)
    blocks = -(-m // vector) * mean
    structure = Structure(bucket(blocks), bucket(mean), bucket(longest))
    return Spmm(m, n, k, vector, structure)


CASES: list[Workload] = [
    *(product(4096, 4096, 4096, sparsity) for sparsity in (0.7, 0.9, 0.98)),
    *(product(*shape, 0.9) for shape in ((2048, 1024, 256), (512, 4608, 256), (2048, 2048, 512))),
    product(4096, 4096, 4096, 0.9, 2),
    replace(product(4096, 4096, 4096, 0.9), weight_dtype="int16"),
    *(product(4096, 4096, 4096, sparsity, 128) for sparsity in (0.5, 0.75, 0.9)),
]
