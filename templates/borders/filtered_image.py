"""Extents of outputs over padded images, which convolutions and pools compute alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoq.templates.borders.filter_axis import FilterAxis


class FilteredImage:
    """What a workload over images [n, h, w, c] says of its filter or window of r x s taps.

    padding: (top, left, bottom, right) in pixels.
    """

    if TYPE_CHECKING:
        h: int
        w: int
        r: int
        s: int
        stride: tuple[int, int]
        padding: tuple[int, int, int, int]
        dilation: tuple[int, int]

    @property
    def p(self) -> int:
        """Output height in pixels."""
        padded = self.h + self.padding[0] + self.padding[2]
        return (padded - self.dilation[0] * (self.r - 1) - 1) // self.stride[0] + 1

    @property
    def q(self) -> int:
        """Output width in pixels."""
        padded = self.w + self.padding[1] + self.padding[3]
        return (padded - self.dilation[1] * (self.s - 1) - 1) // self.stride[1] + 1

    @property
    def axes(self) -> tuple[FilterAxis, FilterAxis]:
        """Along rows, and along columns."""
        top, left, _, _ = self.padding
        return (
            FilterAxis(self.r, self.h, top, self.stride[0], self.dilation[0]),
            FilterAxis(self.s, self.w, left, self.stride[1], self.dilation[1]),
        )
