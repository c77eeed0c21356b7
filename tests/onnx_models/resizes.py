"""Models that resize images, transpose convolutions, pad, and multiply by Einsum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_models.makers import model, node, normal

IMAGE = (2, 3, 9, 10)


def _resize(scales=None, sizes=None, opset: int = 19, shape: Sequence[int] = IMAGE, **attributes):
    names = "x - s" if scales else "x - - s"
    given = np.float32(scales) if scales else np.int64(sizes)
    made = node("Resize", names, **attributes)
    return model([made], {"x": (shape, "float32")}, {"s": given}, opset=opset)


def _resizes():
    """Every mode with every transformation, alternately larger by scales and smaller by sizes."""
    transformations = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                       "asymmetric")  # fmt: skip
    cases = {}
    for mode in ("nearest", "linear", "cubic"):
        for how in transformations:
            named = {"mode": mode, "coordinate_transformation_mode": how}
            cases[f"{mode} {how}"] = _resize([1, 1, 2, 2.3], **named)
            cases[f"{mode} {how} sizes"] = _resize(sizes=[2, 3, 4, 1], **named)
    for rounding in ("round_prefer_ceil", "floor", "ceil"):
        cases[rounding] = _resize([1, 1, 1.5, 0.7], nearest_mode=rounding)
    return cases


RESIZES = {
    **_resizes(),
    "cubic excluding": _resize([1, 1, 0.6, 1.7], mode="cubic", cubic_coeff_a=-0.5,
                               exclude_outside=1),
    "antialias linear": _resize([1, 1, 0.6, 1.5], mode="linear", antialias=1),
    "antialias cubic": _resize([1, 1, 0.5, 0.3], mode="cubic", antialias=1, exclude_outside=1),
    "no larger": _resize(sizes=[18, 30], mode="linear", axes=[2, 3],
                         keep_aspect_ratio_policy="not_larger"),
    "of bytes": model(
        [node("Cast", "x", "b", to=3), node("Resize", "b - s", mode="linear")],
        {"x": (IMAGE, "float32")}, {"s": np.float32([1, 1, 2, 2.3])},
    ),
    "signal": _resize([1, 1, 2.5], shape=(2, 3, 8), mode="linear"),
    "channels too": _resize([1, 2, 2, 1]),
    "cropped": model(
        [node("Resize", "x r - s", mode="linear", extrapolation_value=7.0,
              coordinate_transformation_mode="tf_crop_and_resize")],
        {"x": (IMAGE, "float32")},
        {"r": np.float32([0, 0, 0.2, 0.1, 1, 1, 0.8, 1.3]), "s": np.int64([2, 3, 7, 8])},
    ),
    "cropped where it scales": model(
        [node("Resize", "x r - s", mode="linear",
              coordinate_transformation_mode="tf_crop_and_resize")],
        {"x": (IMAGE, "float32")},
        {"r": np.float32([0, 0, 0.2, 0.1, 2, 2, 0.8, 0.7]),
         "s": np.int64([*IMAGE[:2], 7, IMAGE[3]])},
    ),
    "resize 10": model([node("Resize", "x s")], {"x": (IMAGE, "float32")},
                       {"s": np.float32([1, 1, 2.5, 1.5])}, opset=10),
    "resize 10 to fewer": model([node("Resize", "x s")], {"x": (IMAGE, "float32")},
                                {"s": np.float32([1, 0.8, 0.7, 1.5])}, opset=10),
    "upsample 9": model([node("Upsample", "x s", mode="linear")], {"x": (IMAGE, "float32")},
                        {"s": np.float32([1, 1, 2, 1.5])}, opset=9),
    "upsample 7": model([node("Upsample", "x", scales=[1.0, 1.0, 2.0, 3.0])],
                        {"x": (IMAGE, "float32")}, opset=7),
}  # fmt: skip


def _transposed(weight: tuple[int, ...], bias: bool = True, **attributes: object):
    constants = {"w": normal(*weight)}
    if bias:
        constants["b"] = normal(weight[1] * int(attributes.get("group", 1)))
    shape = (2, 6, 5, 4)[: len(weight)]
    made = node("ConvTranspose", "x w b" if bias else "x w", **attributes)
    return model([made], {"x": (shape, "float32")}, constants)


TRANSPOSED = {
    "2x2 stride 2": _transposed((6, 4, 2, 2), strides=[2, 2]),
    "4x4 stride 2": _transposed((6, 4, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
    "3x3 stride 2 output padding": _transposed((6, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1],
                                               output_padding=[1, 1]),
    "stride 1": _transposed((6, 4, 3, 3), pads=[0, 1, 2, 1]),
    "groups": _transposed((6, 2, 3, 2), group=3, strides=[2, 3]),
    "dilated": _transposed((6, 4, 3, 3), dilations=[2, 1], strides=[2, 1]),
    "dilated stride 1": _transposed((6, 4, 3, 2), dilations=[2, 3], pads=[1, 0, 1, 2]),
    "output shape": _transposed((6, 4, 3, 3), strides=[2, 2], output_shape=[10, 9]),
    "same upper": _transposed((6, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "same lower": _transposed((6, 4, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    "same with gaps": _transposed((6, 4, 3, 2), strides=[4, 3], auto_pad="SAME_UPPER"),
    "gaps": _transposed((6, 4, 2, 2), strides=[3, 3], bias=False),
    "much cut off": _transposed((6, 4, 3, 3), strides=[2, 2], pads=[3, 2, 4, 2]),
    "signals": _transposed((6, 4, 3), strides=[2], pads=[1, 0]),
    "bias of a run": model(
        [node("ConvTranspose", "x w b", strides=[2, 2])],
        {"x": ((2, 3, 4, 5), "float32"), "b": ((4,), "float32")}, {"w": normal(3, 4, 2, 2)},
    ),
}  # fmt: skip

PADS = {
    mode: model([node("Pad", "x p", mode=mode)], {"x": (IMAGE, "float32")},
                {"p": np.int64([0, 1, 3, 2, 0, 0, 1, 2])}, opset=19)
    for mode in ("reflect", "edge", "wrap")
} | {
    "negative pads": model([node("Pad", "x p")], {"x": (IMAGE, "float32")},
                           {"p": np.int64([0, 0, -1, 2, 0, 0, 3, -1])}),
    **{
        f"depth to space {mode}": model([node("DepthToSpace", "x", blocksize=2, mode=mode)],
                                        {"x": ((2, 12, 3, 4), "float32")})
        for mode in ("DCR", "CRD")
    },
    "space to depth": model([node("SpaceToDepth", "x", blocksize=2)],
                            {"x": ((2, 3, 4, 6), "float32")}),
    "signals": model(
        [node("Conv", "x w b", "a", group=2, strides=[2], pads=[2, 1], dilations=[2]),
         node("MaxPool", "a", "m", kernel_shape=[2]), node("AveragePool", "a", "n",
         kernel_shape=[2], pads=[0, 1], strides=[1]), node("GlobalMaxPool", "n", "o"),
         node("GlobalAveragePool", "m", "p"), node("Add", "o p")],
        {"x": ((2, 6, 20), "float32")}, {"w": normal(8, 3, 5), "b": normal(8)},
    ),
}  # fmt: skip


def _einsum(equation: str, *shapes: tuple[int, ...], constant: tuple[int, ...] = ()):
    inputs = {name: (shape, "float32") for name, shape in zip("xuv", shapes, strict=False)}
    names = [*inputs, *(["w"] if constant else [])]
    made = node("Einsum", " ".join(names), equation=equation)
    return model([made], inputs, {"w": normal(*constant)} if constant else {})


EINSUMS = {
    "heads": _einsum("bnhd,bmhd->bhnm", (2, 3, 2, 4), (2, 5, 2, 4)),
    "implicit": _einsum("kj, ji", (3, 4), (4, 5)),
    "outer": _einsum("i,j->ji", (3,), (4,)),
    "summed alone": _einsum("bij,bk->kb", (2, 3, 4), (2, 5)),
    "ellipsis": _einsum("...ij,...jk->i...k", (2, 1, 3, 4), (1, 3, 4, 5)),
    "numbers": _einsum("i,i->", (4,), (4,)),
    "weights of heads": _einsum("bsd,dhk->bhsk", (2, 3, 8), constant=(8, 2, 4)),
    "several inner": _einsum("bshd,hdo->bso", (2, 3, 2, 4), constant=(2, 4, 7)),
    "one": _einsum("bij->jb", (2, 3, 4)),
    "three": _einsum("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
}  # fmt: skip

SPATIAL = {**RESIZES, **TRANSPOSED, **PADS, **EINSUMS}
