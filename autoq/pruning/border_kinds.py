"""What constant channels add to a convolution's output: at borders some taps meet padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from autoq.pruning.activation_norms import conv_pads
from autoq.templates.borders.filter_axis import FilterAxis


@dataclass(frozen=True)
class BorderKinds:
    """Output places along each axis of an image, by the taps that lie within the image.

    taps: bool [kinds, taps] of each axis. places: the kind of each output place, int64.
    """

    taps: tuple[np.ndarray, ...]
    places: tuple[np.ndarray, ...]

    @property
    def alike(self) -> bool:
        """Whether all taps lie within the image everywhere."""
        return all(one.all() for one in self.taps)

    def table(self, by_tap: np.ndarray) -> np.ndarray:
        """Sums over the taps within the image, [n, kinds ...], of values [taps ..., n]."""
        table = np.moveaxis(by_tap, -1, 0)
        for axis, taps in enumerate(self.taps, start=1):
            table = np.moveaxis(np.tensordot(taps, table, (1, axis)), 0, axis)
        return table


def border_kinds(
    node: onnx.NodeProto, taps: Sequence[int], extents: Sequence[int] | None
) -> BorderKinds | None:
    """The kinds of a Conv node's outputs; None where padding meets extents that are not known."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    strides = attributes.get("strides", [1] * len(taps))
    dilations = attributes.get("dilations", [1] * len(taps))
    reach = [d * (tap - 1) + 1 for d, tap in zip(dilations, taps, strict=True)]
    if extents is None:
        if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID", b""):
            return None
        pads = conv_pads(attributes, reach, reach, strides)
        if any(max(one) > 0 for one in pads):
            return None
        extents = reach
    pads = conv_pads(attributes, extents, reach, strides)
    found, places = [], []
    for axis, (before, behind) in enumerate(pads):
        count = (extents[axis] + before + behind - reach[axis]) // strides[axis] + 1
        along = FilterAxis(taps[axis], extents[axis], before, strides[axis], dilations[axis])
        kinds, which = np.unique(along.inside(np.arange(count)), axis=0, return_inverse=True)
        found.append(kinds)
        places.append(which.reshape(-1).astype(np.int64))
    return BorderKinds(tuple(found), tuple(places))
