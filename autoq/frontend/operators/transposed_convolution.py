"""ConvTranspose as a convolution with a filter for each phase of the stride, and its pixels apart.

With stride s a result at q s + phase is a sum over the taps of that phase alone, of pixels up to q:
s filters over the same pixels, whose results lie side by side. So no zero between pixels is
multiplied, and quantised weights stay integers.
"""

from __future__ import annotations

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import emit_slice
from autoq.frontend.operators.qdq import dequantise
from autoq.frontend.operators.windows import Pair, as_images, image_shape, pair
from autoq.frontend.registry import OnnxNode, importer

_MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@importer("ConvTranspose")
def conv_transpose(node: OnnxNode, b: GraphBuilder) -> str:
    """Constant weights [c, k / groups, r, s]; any stride, padding, dilation and groups."""
    if len(b.shape(node.required(0, b))) == 3:
        return as_images(node, b, conv_transpose, weights=True)
    x, weight = node.required(0, b), node.required(1, b)
    n, c, *size = image_shape(b, x)
    c_of_weight, k, *taps = image_shape(b, weight)
    groups = int(node.attributes.get("group", 1))
    if c_of_weight != c or groups < 1 or c % groups:
        raise b.error(f"{c} input channels, but weights of {c_of_weight} in {groups} groups")
    strides, dilations = pair(node.attributes, "strides", b), pair(node.attributes, "dilations", b)
    edges, after = _edges(node, b, size, taps, strides, dilations)
    gaps = tuple(1 if s == 1 else d for s, d in zip(strides, dilations, strict=True))
    spread = tuple(d if s == 1 else 1 for s, d in zip(strides, dilations, strict=True))
    filters = _phases(b, weight, groups, strides, gaps)
    reach = [(t - 1) * d for t, d in zip(b.shape(filters)[2:], spread, strict=True)]
    whole = [-(-(edges[i] + after[i]) // strides[i]) for i in range(2)]  # pixels of each phase
    behind = [max(whole[i] - size[i], 0) for i in range(2)]
    inputs, late = [x, filters], node.input(2)
    if late is not None and b.shape(late) != (groups * k,):
        raise b.error(f"bias {list(b.shape(late))} of {groups * k} filters")
    if late is not None and b.is_constant(late):
        phases = strides[0] * strides[1]
        inputs.append(b.add_constant(np.repeat(b.constant(late, "bias").reshape(-1), phases)))
        late = None
    y = b.emit(
        "Conv", inputs, "float32", strides=(1, 1), dilations=spread, groups=groups,
        pads=(reach[0], reach[1], behind[0], behind[1]),
    )  # fmt: skip
    y = _side_by_side(b, y, strides)
    bounds = [(0, n, 1), (0, groups * k, 1)]
    bounds += [(edge, edge + length, 1) for edge, length in zip(edges, after, strict=True)]
    y = y if b.shape(y) == (n, groups * k, *after) else emit_slice(b, y, bounds)
    if late is None:
        return y
    return b.emit("Add", [y, b.emit("Reshape", [late], shape=(groups * k, 1, 1))])


def _edges(
    node: OnnxNode, b: GraphBuilder, size: list[int], taps: list[int], strides: Pair,
    dilations: Pair,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Pixels that are cut off in front of the result, and its size."""
    a = node.attributes
    more = tuple(a.get("output_padding", (0, 0)))
    mode = a.get("auto_pad", "NOTSET")
    if (
        len(more) != 2
        or min(more) < 0
        or mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    ):
        raise b.error(f"output_padding {list(more)} and auto_pad {mode!r}; export with pads")
    full = [
        (size[i] - 1) * strides[i] + (taps[i] - 1) * dilations[i] + 1 + more[i] for i in range(2)
    ]
    wanted = a.get("output_shape")
    same = mode.startswith("SAME")
    if wanted is not None or same:
        # Where a stride leaves gaps between filters, onnxruntime puts nothing behind the last one.
        ends = [min(size[i] * strides[i], full[i]) for i in range(2)]
        after = list(wanted)[-2:] if wanted else ends
        cut = [max(full[i] - after[i], 0) for i in range(2)]
        before = [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in cut]
    else:
        pads = (0, 0, 0, 0) if mode == "VALID" else tuple(a.get("pads", (0, 0, 0, 0)))
        if len(pads) != 4 or min(pads) < 0:
            raise b.error(f"pads {list(pads)}: four numbers from 0 on are supported")
        before = list(pads[:2])
        after = [full[i] - pads[i] - pads[i + 2] for i in range(2)]
    if min(after) < 1:
        raise b.error(f"a result of {after} pixels; nothing is left of {full}")
    return before, after


def _phases(b: GraphBuilder, weight: str, groups: int, strides: Pair, gaps: Pair) -> str:
    """The filters [k strides, c / groups, taps, taps] of all phases, dequantised if `weight` is."""
    if not b.is_constant(weight):
        raise b.error("weights that a run gives; export them as initializers")
    node = b.producer(weight)
    quantised = node is not None and node.op == "DequantizeLinear" and node.inputs
    if not quantised or node.inputs[0] not in b.graph.constants:
        value = b.constant(weight, "weights").astype(np.float32)
        return b.add_constant(_arranged(value, np.zeros((), np.float32), groups, strides, gaps))
    integers = b.graph.constants[node.inputs[0]]
    scale, zero_point, axis = (node.attributes[n] for n in ("scale", "zero_point", "axis"))
    if axis not in (None, 1) or (axis == 1 and groups > 1):
        value = b.constant(weight, "weights")  # scales of inputs: no integers of filters
        return b.add_constant(_arranged(value, np.zeros((), np.float32), groups, strides, gaps))
    phases = strides[0] * strides[1]
    fill = zero_point.astype(integers.dtype)
    fill = fill if axis is None else fill.reshape(-1, 1, 1, 1, 1, 1)
    filters = b.add_constant(_arranged(integers, fill, groups, strides, gaps))
    if axis is None:
        return dequantise(b, filters, scale, zero_point)
    return dequantise(b, filters, np.repeat(scale, phases), np.repeat(zero_point, phases), 0)


def _arranged(
    weight: np.ndarray, fill: np.ndarray, groups: int, strides: Pair, gaps: Pair
) -> np.ndarray:
    """Weights [c, k, r, s] by phase; `fill` is 0 in their numbers, for taps that a phase lacks."""
    c, k, *taps = weight.shape
    last = [(taps[i] - 1) * gaps[i] // strides[i] for i in range(2)]
    shape = (groups, k, *strides, c // groups, last[0] + 1, last[1] + 1)
    found = np.empty(shape, weight.dtype)
    found[...] = fill
    of_groups = weight.reshape(groups, c // groups, k, *taps)
    for i in range(taps[0]):
        for j in range(taps[1]):
            (row, up), (column, left) = (
                divmod(tap * gap, stride)[::-1]
                for tap, gap, stride in zip((i, j), gaps, strides, strict=True)
            )
            places = found[:, :, row, column, :, last[0] - up, last[1] - left]
            places[...] = of_groups[:, :, :, i, j].transpose(0, 2, 1)
    return found.reshape(-1, c // groups, last[0] + 1, last[1] + 1)


def _side_by_side(b: GraphBuilder, x: str, strides: Pair) -> str:
    """Channels [k, rows, columns] of a pixel as pixels of k channels."""
    n, c, height, width = b.shape(x)
    rows, columns = strides
    if rows * columns == 1:
        return x
    k = c // (rows * columns)
    apart = b.emit("Reshape", [x], shape=(n, k, rows, columns, height, width))
    turned = b.emit("Transpose", [apart], perm=(0, 1, 4, 2, 5, 3))
    return b.emit("Reshape", [turned], shape=(n, k, height * rows, width * columns))
