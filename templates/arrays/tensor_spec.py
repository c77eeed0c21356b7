"""The description of an array that a workload takes or gives."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.element import Element, element
from autoq.templates.arrays.layout import NHWC
from autoq.templates.arrays.storage import Array, stored, stored_bytes


@dataclass(frozen=True)
class TensorSpec:
    """A dense row-major array.

    shape counts values, as they lie in `layout`; four-bit values are stored two a byte. layout is
    one of `layout.LAYOUTS`, of which a template must know those that are not NHWC; an array that is
    no image counts as NHWC. optional: a constant that may be left out. at_most: the leading extent
    may be smaller, as where the class of a sparse matrix bounds its blocks.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str = NHWC
    optional: bool = False
    at_most: bool = False

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of values may have this shape."""
        if self.at_most:
            return shape[1:] == self.shape[1:] and shape[:1] <= self.shape[:1]
        return shape == self.shape

    @property
    def element(self) -> Element:
        """The type of its values."""
        return element(self.dtype)

    @property
    def stored(self) -> Array:
        """Shape and dtype of the array that holds it: uint8 `[..., ceil(c / 2)]` for 4 bits."""
        return stored(self.shape, self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes of memory that it takes."""
        return stored_bytes(self.shape, self.dtype)
