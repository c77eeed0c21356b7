"""Resize and Upsample: elements at constant places along axes, or weighted sums of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import normal_axis
from autoq.frontend.operators.resize_taps import (
    NEAREST,
    TRANSFORMATIONS,
    Resized,
    Taps,
    antialiased,
    cubic,
    linear,
    nearest,
)
from autoq.frontend.operators.selection import emit_take
from autoq.frontend.registry import OnnxNode, importer

_MODES = ("nearest", "linear", "cubic")
_POLICIES = ("stretch", "not_larger", "not_smaller")
_MOST_TAPS = 16
"""Elements that one kernel reads for each result; above, axes are resized one after the other."""


@importer("Resize")
def resize(node: OnnxNode, b: GraphBuilder) -> str:
    """Constant scales or sizes, in every mode."""
    x = node.required(0, b)
    a = node.attributes
    _check_choices(node, b)
    old = b.opset == 10
    mode = a.get("mode", "nearest")
    rounding = a.get("nearest_mode", "round_prefer_floor")
    how = a.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    axes = _axes_of_resize(node, b, x, how, 1 if old else 2)
    wide = node.flag("antialias", b)
    coefficient = float(a.get("cubic_coeff_a", -0.75))
    exclude = node.flag("exclude_outside", b)
    found: dict[int, Taps] = {}
    places: dict[int, np.ndarray] = {}
    for number, axis in axes.items():
        at = axis.coordinates(how)
        if mode == "nearest":
            # Opset 10 says nothing of it: onnxruntime goes up where it makes an axis smaller.
            of_old = "ceil" if axis.scale < 1 else "floor"
            places[number] = nearest(at, axis.before, of_old if old else rounding)
        elif wide and axis.scale < 1:
            found[number] = antialiased(at, axis, coefficient if mode == "cubic" else None, exclude)
        elif mode == "linear":
            found[number] = linear(at, axis.before)
        else:
            found[number] = cubic(at, axis.before, coefficient, exclude)
    y = _emitted(b, x, places, found)
    if how != "tf_crop_and_resize":
        return y
    return _extrapolated(b, y, axes, float(a.get("extrapolation_value", 0.0)))


def _check_choices(node: OnnxNode, b: GraphBuilder) -> None:
    """Raise ModelError for an attribute with a value that ONNX does not have."""
    choices = {
        "mode": _MODES, "nearest_mode": NEAREST, "keep_aspect_ratio_policy": _POLICIES,
        "coordinate_transformation_mode": TRANSFORMATIONS,
    }  # fmt: skip
    for name, values in choices.items():
        given = node.attributes.get(name, values[0])
        if given not in values:
            raise b.error(f"{name} {given!r}; {', '.join(values)} are supported")


def _axes_of_resize(
    node: OnnxNode, b: GraphBuilder, x: str, how: str, scales_at: int
) -> dict[int, Resized]:
    """The axes that change, by their numbers."""
    shape = b.shape(x)
    given = node.attributes.get("axes", range(len(shape)))
    numbers = [normal_axis(b, int(axis), len(shape)) for axis in given]
    before = [shape[number] for number in numbers]
    roi = node.input(1) if how == "tf_crop_and_resize" else None
    region = [0.0] * len(numbers) + [1.0] * len(numbers)
    if roi is not None:
        region = b.constant(roi, "roi").astype(float).reshape(-1).tolist()
        if not np.isfinite(region).all():
            raise b.error("a roi that is no number")
    scales, sizes = node.input(scales_at), node.input(scales_at + 1)
    if scales is not None and b.constant(scales, "scales").size:
        values = b.constant(scales, "scales").astype(np.float32).reshape(-1)
        axes = [Resized(old, 0, float(scale)) for old, scale in zip(before, values, strict=True)]
    elif sizes is not None:
        policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
        wanted = b.constant(sizes, "sizes").reshape(-1).tolist()
        axes = _to_sizes(before, wanted, policy)
    else:
        raise b.error("neither scales nor sizes; export the model with one of them")
    found = {}
    for place, (number, axis) in enumerate(zip(numbers, axes, strict=True)):
        # onnxruntime crops no axis that it does not scale.
        crops = how == "tf_crop_and_resize" and axis.scale != 1.0
        start, end = (region[place], region[place + len(numbers)]) if crops else (0.0, 1.0)
        part = end - start if how == "tf_crop_and_resize" else 1.0
        after = axis.after or math.floor(np.float32(axis.before * part) * np.float32(axis.scale))
        if after < 1 or not axis.scale > 0:
            raise b.error(f"axis {number} of {axis.before} by {axis.scale:g}: nothing is left")
        if after != axis.before or axis.scale != 1.0 or (start, end) != (0.0, 1.0):
            found[number] = replace(axis, after=int(after), region=(start, end))
    return found


def _to_sizes(before: list[int], wanted: list[int], policy: str) -> list[Resized]:
    """Axes of the wanted sizes, or with one scale of which none is larger or smaller."""
    pairs = list(zip(before, wanted, strict=True))
    if policy == "stretch":
        return [Resized(old, new, float(np.float32(new) / np.float32(old))) for old, new in pairs]
    scales = [np.float32(new) / np.float32(old) for old, new in pairs]
    scale = float(min(scales) if policy == "not_larger" else max(scales))
    return [Resized(old, math.floor(scale * old + 0.5), scale) for old, _ in pairs]


def _emitted(
    b: GraphBuilder, x: str, places: dict[int, np.ndarray], taps: dict[int, Taps]
) -> str:  # fmt: skip
    if places:
        return emit_take(b, x, places)
    if not taps:
        return x
    if math.prod(len(of_axis[0]) for of_axis in taps.values()) <= _MOST_TAPS:
        return _interpolated(b, x, taps)
    for axis, of_axis in taps.items():
        x = _interpolated(b, x, {axis: of_axis})
    return x


def _interpolated(b: GraphBuilder, x: str, taps: dict[int, Taps]) -> str:
    axes = tuple(sorted(taps))
    indices, weights = ([taps[axis][part] for axis in axes] for part in (0, 1))
    dtype = b.dtype(x)
    x = b.emit("Cast", [x], "float32") if dtype in ("int8", "uint8") else x
    y = b.emit("Interpolate", [x], axes=axes, indices=indices, weights=weights)
    return y if dtype == "float32" else b.emit("Cast", [y], dtype)  # downwards, as onnxruntime does


def _extrapolated(b: GraphBuilder, y: str, axes: dict[int, Resized], value: float) -> str:
    """`y` with a value where coordinates lie outside the image."""
    rank, inside = len(b.shape(y)), np.ones((), bool)
    for number, axis in axes.items():
        at = axis.coordinates("tf_crop_and_resize")
        of_axis = (at >= 0) & (at <= axis.before - 1)
        inside = inside & of_axis.reshape(-1, *(1,) * (rank - number - 1))
    outside = b.add_constant(np.array(value, b.dtype(y)))
    mask = b.add_constant(inside.astype(np.float32))
    return y if np.all(inside) else b.emit("Where", [mask, y, outside], b.dtype(y))


@importer("Upsample")
def upsample(node: OnnxNode, b: GraphBuilder) -> str:
    """What Resize was before opset 10: asymmetric, downwards to the nearest."""
    x = node.required(0, b)
    scales = node.attributes.get("scales")
    if scales is None:
        scales = b.constant(node.required(1, b), "scales").reshape(-1).tolist()
    mode = node.attributes.get("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise b.error(f"mode {mode!r}; nearest, linear are supported")
    places, taps = {}, {}
    for number, (old, scale) in enumerate(zip(b.shape(x), scales, strict=True)):
        axis = Resized(old, math.floor(np.float32(old) * np.float32(scale)), scale)
        if axis.after < 1:
            raise b.error(f"axis {number} of {old} by {scale:g}: nothing is left")
        at = axis.coordinates("asymmetric")
        if scale != 1.0 and mode == "nearest":
            places[number] = nearest(at, old, "floor")
        elif scale != 1.0:
            taps[number] = linear(at, old)
    return _emitted(b, x, places, taps)
