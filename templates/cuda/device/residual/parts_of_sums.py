"""Parts of weighed sums: of each row of a product and of each column, one behind the other."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.tensor_spec import TensorSpec


@dataclass(frozen=True)
class PartsOfSums:
    """What a pass over a product int32 [m, n], or the product itself, leaves of its magnitudes.

    of_rows, of_columns: how many parts a row has and a column. A row is the sum of |p| by the
    columns' scale, a column that by the rows' scale; whoever adds parts does it in one order.
    """

    m: int
    n: int
    of_rows: int
    of_columns: int

    @property
    def arrays(self) -> tuple[TensorSpec, TensorSpec]:
        """Those of rows, [of_rows, m], and of columns, [of_columns, n]."""
        return (
            TensorSpec("row_parts", (self.of_rows, self.m), "float64"),
            TensorSpec("column_parts", (self.of_columns, self.n), "float64"),
        )
