"""The arrays of a residual product on CUDA, and how the kernels beside the product are made."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.residual.correction.by_bands import BandCorrection
from autoq.templates.cuda.device.residual.correction.by_lanes import Correction
from autoq.templates.cuda.device.residual.correction.combine import Combination
from autoq.templates.cuda.device.residual.correction.panel import panel_of
from autoq.templates.cuda.device.residual.knobs import ResidualKnobs
from autoq.templates.cuda.device.residual.quantise.panels import Panels, panels_of
from autoq.templates.cuda.device.residual.quantise.quantise_columns import ColumnsQuantised
from autoq.templates.cuda.device.residual.quantise.quantise_rows import RowsQuantised
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.cuda.device.residual.turned import turned_shape
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.cuda.device.residual.weighted_sums import WeightedSums
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import largest_integer
from autoq.templates.target import Target

_UNIT = 16
"""Values that are moved together: rows are filled up to whole ones."""


def filled(count: int) -> int:
    """A row of so many values, filled up to whole units."""
    return -(-count // _UNIT) * _UNIT


def inner_product(workload: ResidualGemm, nibbles: bool) -> Gemm:
    """The product over whole units that another template computes: to y itself or to integers.

    nibbles: of integers of 4 bits as they are, two a byte, instead of bytes.
    """
    product = workload.direct if workload.correction == "none" else workload.product
    dtype = "int4" if nibbles else "int8"
    return dataclasses.replace(product, k=filled(workload.k), in_dtype=dtype, weight_dtype=dtype)


@dataclass(frozen=True)
class ResidualPlan:
    """A workload, the knobs beside the product's, and where the product has its weights.

    layout counts values, a byte each, whether the product takes bytes or nibbles. Arrays begin with
    the side that they are of; those called `turned` have k as rows.
    """

    workload: ResidualGemm
    knobs: ResidualKnobs
    layout: WeightLayout

    @property
    def sparse(self) -> bool:
        """Whether sides may take part by lists."""
        return self.workload.correction == "sparse"

    @property
    def compensates(self) -> bool:
        """Whether there are residuals."""
        return self.workload.correction != "none"

    @property
    def most(self) -> int:
        """The largest integer."""
        return largest_integer(self.workload.bits)

    @property
    def k(self) -> int:
        """Values of a row, filled up."""
        return filled(self.workload.k)

    @property
    def vectors(self) -> int:
        """Units of a row."""
        return self.k // _UNIT

    @property
    def pitch(self) -> int:
        """Bytes of a row of residuals of a that lists gather, where they are turned."""
        return filled(self.workload.m)

    def rows(self, name: str) -> TensorSpec:
        """Integers as the product takes its left side."""
        return TensorSpec(name, (self.workload.m, self.k), "int8")

    def weights(self, name: str) -> TensorSpec:
        """Integers as the product takes its right side."""
        return TensorSpec(name, (self.layout.size(self.workload.n),), "int8")

    def sums(self, name: str) -> TensorSpec:
        """What the product gives."""
        return TensorSpec(name, (self.workload.m, self.workload.n), "int32")

    @property
    def a_scale(self) -> TensorSpec:
        return TensorSpec("a_scale", (self.workload.m,), "float32")

    @property
    def b_scale(self) -> TensorSpec:
        """One for each column; where the product ends in y a bias follows, as it takes them."""
        work = self.workload
        if work.correction != "none":
            return TensorSpec("b_scale", (work.n,), "float32")
        columns = self.layout.columns(work.n)
        return TensorSpec("b_scale", (columns * (2 if work.bias else 1),), "float32")

    @property
    def bias_at(self) -> int:
        """Where among the scales of b the bias begins, 0 if it is not there."""
        direct = self.workload.correction == "none" and self.workload.bias
        return self.layout.columns(self.workload.n) if direct else 0

    @property
    def a_magnitudes(self) -> TensorSpec:
        """Sums of |a'| over k."""
        return TensorSpec("a_magnitudes", (self.workload.m,), "int32")

    @property
    def b_magnitudes(self) -> TensorSpec:
        """Sums of |b'| over k."""
        return TensorSpec("b_magnitudes", (self.workload.n,), "int32")

    @property
    def peaks(self) -> int:
        """Bytes of a row of peaks, one for each unit, filled up; 0 without lists."""
        return filled(self.vectors) if self.sparse else 0

    @property
    def a_peaks(self) -> TensorSpec:
        """The largest |a'| of each unit of a row."""
        return TensorSpec("a_peaks", (self.workload.m, self.peaks), "uint8")

    @property
    def b_peaks(self) -> TensorSpec:
        """The largest |b'| of each unit of a column."""
        return TensorSpec("b_peaks", (self.workload.n, self.peaks), "uint8")

    @property
    def a_turned(self) -> TensorSpec:
        """Residuals of a that lists of b gather."""
        return TensorSpec("a_turned", (self.workload.k, self.pitch), "int8")

    @property
    def b_turned(self) -> TensorSpec:
        """Residuals of b that lists of a gather, as `TURNED_AT` has them."""
        return TensorSpec("b_turned", turned_shape(self.workload.n, self.workload.k), "int8")

    @property
    def bias(self) -> TensorSpec:
        return TensorSpec("bias", (self.workload.n,), "float32")

    @property
    def sides(self) -> Sides:
        return Sides(self.workload.m, self.workload.n, self.workload.k, self.knobs.share,
                     self.knobs.bands)  # fmt: skip

    @property
    def weighted_sums(self) -> WeightedSums:
        return WeightedSums(self.workload.m, self.workload.n, self.knobs.sum_rows)

    @property
    def rows_of_a(self) -> RowsQuantised:
        """How a becomes integers."""
        return self._rows(self.workload.m, None, 0)

    @property
    def rows_of_b(self) -> RowsQuantised:
        """How b becomes integers where its columns lie together."""
        return self._rows(self.workload.n, self.layout, self.bias_at)

    def _rows(self, rows: int, layout: WeightLayout | None, bias_at: int) -> RowsQuantised:
        return RowsQuantised(
            rows, self.workload.k, self.k // 4, self.most, layout, self.compensates, self.peaks,
            bias_at, self.knobs.lanes,
        )  # fmt: skip

    @property
    def columns_of_b(self) -> ColumnsQuantised:
        """How b becomes integers where its rows lie together."""
        work = self.workload
        return ColumnsQuantised(
            work.n, work.k, self.most, self.layout, self.compensates, self.peaks, self.bias_at
        )

    @property
    def combination(self) -> Combination:
        """How y is put together of whole products."""
        work = self.workload
        return Combination(work.m, work.n, self.most, work.bias)

    def panels_of_b(self, target: Target) -> Panels | None:
        """How columns of b are held while they are quantised; None where they are not."""
        work = self.workload
        if work.constant_b or work.b_order == "nk":
            return None
        return panels_of(work.n, work.k, target, self.knobs.wide_panels)

    def holds_panel(self, target: Target) -> bool:
        """Whether a block of the correction holds residuals of a."""
        return self.knobs.bands or panel_of(self.knobs.panel_rows, self.k, target).held

    def correction(self, target: Target, last_first: bool) -> Correction | BandCorrection:
        """How y is put together where sides may take part by lists.

        last_first: whether the last rows of the product were the last that the L2 saw of it.
        """
        work, knobs = self.workload, self.knobs
        if knobs.bands:
            return BandCorrection(
                work.m, work.n, self.k, work.k, self.most, work.bias, knobs.column_parts,
                knobs.pieces_ahead, last_first,
            )  # fmt: skip
        panel = panel_of(knobs.panel_rows, self.k, target)
        return Correction(
            work.m, work.n, work.k, self.most, work.bias, self.k // 4, self.pitch, panel,
            knobs.column_parts, last_first,
        )  # fmt: skip
