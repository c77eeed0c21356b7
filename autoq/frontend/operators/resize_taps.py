"""Which elements of an axis a Resize reads for each of its results, and with which weights.

Coordinates are float32 throughout, as in onnxruntime, whose roundings decide ties between pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

F = np.float32
Taps = tuple[np.ndarray, np.ndarray]
"""Places [taps, size] and weights float32 [taps, size]."""

TRANSFORMATIONS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Resized:
    """One axis of a Resize: its size before and after, the scale, and the part that is read."""

    before: int
    after: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)

    def coordinates(self, transformation: str) -> np.ndarray:
        """float32 [after]: where each result lies among the elements before."""
        x, scale, size = np.arange(self.after, dtype=F), F(self.scale), self.before
        if transformation == "asymmetric":
            return x / scale
        if transformation == "tf_half_pixel_for_nn":
            return (x + F(0.5)) / scale
        if transformation == "align_corners":
            return x * F(size - 1) / F(self.after - 1) if self.after > 1 else x * F(0)
        if transformation == "tf_crop_and_resize":
            start, end = map(F, self.region)
            if self.after == 1:
                return np.full(1, F(0.5) * (start + end) * F(size - 1), F)
            return start * F(size - 1) + x * (end - start) * F(size - 1) / F(self.after - 1)
        places = (x + F(0.5)) / scale - F(0.5)
        if transformation == "pytorch_half_pixel":
            return places if self.after > 1 else places * F(0)
        if transformation == "half_pixel_symmetric":
            adjustment = F(self.after) / (scale * F(size))
            return (F(size) / F(2) * (F(1) - adjustment) + (x + F(0.5)) / scale) - F(0.5)
        return places


def nearest(x: np.ndarray, size: int, rounding: str) -> np.ndarray:
    """Places [after] nearest to coordinates, within the axis."""
    places = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda at: np.ceil(at - F(0.5)),
        "round_prefer_ceil": lambda at: np.floor(at + F(0.5)),
    }[rounding](x)
    return np.clip(places, 0, size - 1).astype(np.int64)


def linear(x: np.ndarray, size: int) -> Taps:
    """The two neighbours of coordinates, which are moved into the axis first."""
    inside = np.clip(x, F(0), F(size - 1))
    first = np.floor(inside).astype(np.int64)
    share = inside - first.astype(F)
    places = np.stack([first, np.minimum(first + 1, size - 1)])
    return places, np.stack([F(1) - share, share])


def cubic(x: np.ndarray, size: int, a: float, exclude_outside: bool) -> Taps:
    """Four neighbours by Keys' kernel of the coefficient a; the edge repeats beyond the axis."""
    first = np.floor(x)
    distances = np.arange(-1, 3, dtype=F)[:, None] - (x - first)[None]
    places = first.astype(np.int64)[None] + np.arange(-1, 3)[:, None]
    return _within(places, _keys(np.abs(distances), a), size, exclude_outside)


def antialiased(x: np.ndarray, axis: Resized, a: float | None, exclude_outside: bool) -> Taps:
    """A kernel, cubic of the coefficient a or linear, as wide as a result; the edge repeats."""
    narrow = min(F(axis.scale), F(1))
    reach = F(1 if a is None else 2) / narrow
    first = np.floor(x - reach).astype(np.int64) + 1
    count = int(np.ceil(2 * reach)) + 1
    places = first[None] + np.arange(count)[:, None]
    distances = np.abs((places.astype(F) - x[None]) * narrow)
    weights = np.clip(F(1) - distances, 0, None) if a is None else _keys(distances, a)
    return _within(places, weights / weights.sum(axis=0), axis.before, exclude_outside)


def _keys(x: np.ndarray, a: float) -> np.ndarray:
    a = F(a)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, F(0))).astype(F)


def _within(places: np.ndarray, weights: np.ndarray, size: int, exclude: bool) -> Taps:
    """Taps moved into the axis; those beyond it have no weight where they are excluded."""
    if exclude:
        weights = np.where((places >= 0) & (places < size), weights, F(0))
        weights = weights / weights.sum(axis=0)
    kept = np.any(weights != 0, axis=1)
    return np.clip(places, 0, size - 1)[kept], weights[kept].astype(F)
