"""A constant image behind a convolution, as a bias for every kind of border.

Pruning leaves such images where it takes constant channels out of a padded convolution's input.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Operation
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.borders.classes import border_classes, by_class
from autoq.templates.operators.conv2d import Conv2d


def border_addition(conv: Operation, around: Neighbourhood) -> tuple[Operation, np.ndarray] | None:
    """The Add that alone reads a Conv, and what it adds, float64 [row classes, column classes, k].

    None unless it adds a constant image [1, k, p, q] that is the same wherever the same of the
    filter's taps lie within the input, of a convolution of one group with padding.
    """
    add = around.only_reader(conv.output, "Add")
    if conv.op != "Conv" or add is None or add.inputs.count(conv.output) != 1:
        return None
    image = around.constant(add.inputs[1 - add.inputs.index(conv.output)])
    shape, a = around.graph.shape(conv.output), conv.attributes
    wanted = (1, *shape[1:])
    if image is None or image.shape[-3:] != shape[1:] or image.size != np.prod(wanted):
        return None
    if a["groups"] != 1 or not any(a["pads"]):
        return None
    n, c, h, w = around.graph.shape(conv.inputs[0])
    k, _, r, s = around.graph.shape(conv.inputs[1])
    work = Conv2d(
        n, h, w, c, k, r, s, tuple(a["strides"]), tuple(a["pads"]), tuple(a["dilations"]),
        zero_point_border=True,
    )  # fmt: skip
    rows, columns = (one.places() for one in border_classes(work))
    table = by_class(image.reshape(shape[1:]).astype(np.float64), rows, columns)
    return None if table is None else (add, table.transpose(1, 2, 0))
