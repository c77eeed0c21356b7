"""The axes of a permuted array, merged as far as they stay together."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PermutedAxes:
    """The output's axes from the outermost to the innermost, none of size 1.

    strides: elements between neighbours along each of them in the input, which is dense.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], perm: tuple[int, ...]) -> PermutedAxes:
        """Axes of the output whose axis i is axis perm[i] of a dense input of `shape`."""
        dense = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        sizes: list[int] = []
        strides: list[int] = []
        for axis in perm:
            if shape[axis] == 1:
                continue
            if sizes and strides[-1] == shape[axis] * dense[axis]:
                sizes[-1] *= shape[axis]
                strides[-1] = dense[axis]
            else:
                sizes.append(shape[axis])
                strides.append(dense[axis])
        return cls(tuple(sizes) or (1,), tuple(strides) or (1,))

    @property
    def out_strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis in the output."""
        return tuple(math.prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes)))

    @property
    def across(self) -> int:
        """The axis along which the input's elements are neighbours."""
        return self.strides.index(1)

    @property
    def keeps_rows(self) -> bool:
        """Whether neighbours in the input are neighbours in the output."""
        return self.strides[-1] == 1

    @property
    def others(self) -> tuple[int, ...]:
        """Axes but the one of the input's and the one of the output's neighbours."""
        return tuple(axis for axis in range(len(self.sizes) - 1) if axis != self.across)
