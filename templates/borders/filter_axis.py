"""How a filter goes along an axis of a padded image, and where its taps meet the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FilterAxis:
    """One axis of a convolution.

    taps: of the filter, `dilation` pixels apart. size: pixels of the image. before: those of the
    padding in front of it. stride: pixels between neighbouring outputs.
    """

    taps: int
    size: int
    before: int
    stride: int
    dilation: int

    def inside(self, places: np.ndarray) -> np.ndarray:
        """Which taps meet the image at these places of the output, bool [places, taps]."""
        first = places[:, None] * self.stride - self.before
        pixels = first + np.arange(self.taps) * self.dilation
        return (pixels >= 0) & (pixels < self.size)
