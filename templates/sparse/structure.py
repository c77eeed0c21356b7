"""Classes of sparse matrices: figures in buckets, so that records serve every matrix like one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np


def bucket(count: int) -> int:
    """The least number from `count` on that is below 8, or 4, 5, 6 or 7 times a power of two."""
    shift = max(0, count.bit_length() - 3)
    return -(-count // (1 << shift)) << shift


@dataclass(frozen=True)
class Structure:
    """A class of sparse matrices, by upper bounds: blocks, blocks of a mean row, of the longest.

    The bounds are ends of buckets (`bucket`). A template packs each matrix of the class to them, so
    that all share kernels and records. digest names one matrix and is only noted: it is no part of
    the class, nor of a workload's key.
    """

    blocks: int
    mean_row: int
    longest_row: int
    digest: str = field(default="", compare=False)

    @classmethod
    def of(cls, lengths: np.ndarray, *arrays: np.ndarray) -> Structure:
        """The class of a matrix whose rows hold `lengths` blocks [rows]; arrays make the digest."""
        blocks = int(lengths.sum())
        mean = -(-blocks // len(lengths)) if len(lengths) else 0
        noted = hashlib.sha256()
        for array in arrays:
            noted.update(np.ascontiguousarray(array).tobytes())
        return cls(
            bucket(blocks),
            bucket(mean),
            bucket(int(lengths.max(initial=0))),
            noted.hexdigest()[:16] if arrays else "",
        )

    def random_lengths(self, rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
        """Blocks of each row [rows] of a matrix that comes up to the bounds where it can."""
        longest = min(self.longest_row, columns)
        lengths = np.zeros(rows, np.int64)
        lengths[rng.integers(rows)] = min(longest, self.blocks)
        rest = max(0, self.blocks - int(lengths.sum()))
        lengths += rng.multinomial(rest, np.full(rows, 1 / rows))
        return np.minimum(lengths, longest)
