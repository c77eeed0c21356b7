"""Parts of weighed sums: of each row of a product and of each column, one behind the other."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.tensor_spec import TensorSpec

ROUGH_ROW, ROUGH_COLUMN = 2.0**-17, 2.0**-20
"""How far a part in single precision is from its sum at most, as a share of it.

Magnitudes are not negative, so that the same holds of all parts together.
"""


@dataclass(frozen=True)
class PartsOfSums:
    """What a pass over a product int32 [m, n], or the product itself, leaves of its magnitudes.

    of_rows, of_columns: how many parts a row has and a column; rough: whether they are in single
    precision. A row is the sum of |p| by the columns' scale, a column that by the rows' scale;
    whoever adds parts does it in one order.
    """

    m: int
    n: int
    of_rows: int
    of_columns: int
    rough: bool = False

    @property
    def dtype(self) -> str:
        """The dtype of the parts."""
        return "float32" if self.rough else "float64"

    @property
    def arrays(self) -> tuple[TensorSpec, TensorSpec]:
        """Those of rows, [of_rows, m], and of columns, [of_columns, n]."""
        return (
            TensorSpec("row_parts", (self.of_rows, self.m), self.dtype),
            TensorSpec("column_parts", (self.of_columns, self.n), self.dtype),
        )
