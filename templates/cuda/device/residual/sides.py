"""How each side of a product takes part in its correction, decided on the device."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.device.residual.bands import BAND, STEP

SIDES = r"""
enum Way { LISTED, MASKED, WHOLE };
// By how many values a side keeps of all, and of how many there are lists.
__device__ __forceinline__ Way way_of(
    const void* kept, const float* crossover, int side) {
  const unsigned long long both = __ldcg(static_cast<const unsigned long long*>(kept) + side);
  const double all = side == 0 ? (double)M * K : (double)N * K;
  if ((double)(unsigned)both > (double)__ldg(crossover) * all) return WHOLE;
  return (unsigned)(both >> 32) <= (unsigned)(side == 0 ? LISTED_A : LISTED_B) ? LISTED : MASKED;
}
"""
"""way_of(kept, crossover, side): by lists of the values kept, or by a product of these, or of all
values; side 0 is a, 1 is b. For a namespace with the constants of `Sides.sizes`."""

INDEX_BITS = 24
"""Bits of an entry of a list that are the index along k, above the value's byte."""


@dataclass(frozen=True)
class Sides:
    """Extents of the product, and the share of each side's values that lists have room for.

    bands: whether lists are of 16 vectors together (`bands.py`) instead of one.
    """

    m: int
    n: int
    k: int
    share: float
    bands: bool

    def listed(self, vectors: int) -> int:
        """Entries of the lists of a side with so many rows or columns, in whole fours or steps."""
        most, unit = (1 << 31) - STEP, STEP if self.bands else 4
        filled = blocks_for(vectors, BAND) * STEP if self.bands else 0
        wanted = blocks_for(int(vectors * self.k * self.share) + filled, unit) * unit
        return max(unit, min(most, wanted))

    def sizes(self) -> dict[str, int]:
        """Constants of `SIDES`."""
        return {"M": self.m, "N": self.n, "K": self.k,
                "LISTED_A": self.listed(self.m), "LISTED_B": self.listed(self.n)}  # fmt: skip

    @property
    def lists(self) -> tuple[TensorSpec, ...]:
        """Lists of a and b: entries in fours, and each row's or column's first four and how many.

        A list is filled up to whole fours with entries of zero. Of bands it is steps instead.
        """
        rows, columns = self.m, self.n
        if self.bands:
            rows, columns = blocks_for(rows, BAND), blocks_for(columns, BAND)
        return (
            TensorSpec("entries_of_a", (self.listed(self.m),), "uint32"),
            TensorSpec("rows_of_a", (rows, 2), "int32"),
            TensorSpec("entries_of_b", (self.listed(self.n),), "uint32"),
            TensorSpec("columns_of_b", (columns, 2), "int32"),
        )

    @property
    def cuts(self) -> tuple[TensorSpec, ...]:
        """The cut of each row of a and of each column of b."""
        return TensorSpec("row_cuts", (self.m,), "int32"), TensorSpec(
            "column_cuts", (self.n,), "int32"
        )

    @property
    def kept(self) -> TensorSpec:
        """How many values of a and of b are kept, and 2^32 times the room that lists take."""
        return TensorSpec("kept", (2,), "uint64")
