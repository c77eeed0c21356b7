"""Genuine indices: where the duplicates of a lowered (im2col) convolution lie.

After "Learning from Distinctive Candidates to Optimize Reduced-Precision Convolution Program on
Tensor Cores", section 3.1: the lowered matrix of a tile repeats a pixel for every filter tap that
meets it. Which of its indices name the same pixel follows from the convolution's definition alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.operators.conv2d import Conv2d


@dataclass(frozen=True)
class GenuineIndex:
    """The many-to-one map of a tile of output pixels from lowered indices to genuine ones.

    The tile is `height` x `width` neighbouring output pixels of one image. Row i of its lowered
    matrix is pixel (i // width, i % width), column j is filter tap (j // filter width, j % filter
    width); a datum is a pixel with all its channels. The genuine index of a datum is its position
    in the tile's *halo*, the smallest box of input pixels that the tile reads, row by row. The map
    is the same for every tile: where the tile lies, and the padding, only move the halo's origin.

    Methods take integers, numpy arrays and index expressions alike.
    """

    height: int
    width: int
    filter: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    @staticmethod
    def of(conv: Conv2d, height: int, width: int) -> GenuineIndex:
        """The map of a convolution's tiles of `height` x `width` output pixels."""
        return GenuineIndex(height, width, (conv.r, conv.s), conv.stride, conv.dilation)

    @property
    def rows(self) -> int:
        """Rows of the lowered matrix: output pixels."""
        return self.height * self.width

    @property
    def columns(self) -> int:
        """Columns of the lowered matrix: filter taps."""
        return self.filter[0] * self.filter[1]

    @property
    def halo_height(self) -> int:
        return (self.height - 1) * self.stride[0] + (self.filter[0] - 1) * self.dilation[0] + 1

    @property
    def halo_width(self) -> int:
        return (self.width - 1) * self.stride[1] + (self.filter[1] - 1) * self.dilation[1] + 1

    @property
    def halo(self) -> int:
        """Pixels of the halo; where stride or dilation skip pixels, some are read by no tap."""
        return self.halo_height * self.halo_width

    def position(self, row: Any, column: Any) -> tuple[Any, Any]:
        """Row and column in the halo of what a lowered index names."""
        tap_row, tap_column = column // self.filter[1], column % self.filter[1]
        return (
            row // self.width * self.stride[0] + tap_row * self.dilation[0],
            row % self.width * self.stride[1] + tap_column * self.dilation[1],
        )

    def genuine(self, row: Any, column: Any) -> Any:
        """Genuine index of a lowered index."""
        halo_row, halo_column = self.position(row, column)
        return halo_row * self.halo_width + halo_column

    def table(self) -> np.ndarray:
        """The whole map, int64 [rows, columns]."""
        return np.asarray(self.genuine(np.arange(self.rows)[:, None], np.arange(self.columns)))

    @property
    def distinct(self) -> int:
        """Number of genuine indices that occur: rows x columns of them where none is duplicate."""
        height, width = (
            len({i * stride + tap * dilation for i in range(count) for tap in range(taps)})
            for count, taps, stride, dilation in zip(
                (self.height, self.width), self.filter, self.stride, self.dilation, strict=True
            )
        )
        return height * width


def halo_origin(conv: Conv2d, p: Any, q: Any) -> tuple[Any, Any]:
    """Image row and column of the halo's first pixel for a tile that begins at output (p, q)."""
    return p * conv.stride[0] - conv.padding[0], q * conv.stride[1] - conv.padding[1]
