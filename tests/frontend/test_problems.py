"""Models with several things wrong, or with nodes that cannot be put in order."""

from __future__ import annotations

import numpy as np
from onnx_models.makers import MICROSOFT, model, node, normal
from onnx_models.operators import IMAGE, int64
from refusals import assert_refused, saved


def test_all_problems_are_in_one_message(tmp_path):
    nodes = [
        node("Det", "x", "a"), node("NonZero", "x", "b"), node("Add", "a b", "c"),
        node("Det", "c", "d"), node("Reshape", "e s", "f"), node("Transpose", "e", "y", perm=[5]),
    ]  # fmt: skip
    inputs = {"x": ((3, 3), "float32"), "e": ((4, 5), "float32"), "g": (["n"], "float32")}
    made = model(nodes, inputs, {"s": int64(3, -1)}, outputs=("d", "f", "y"))
    assert_refused(
        saved(made, tmp_path),
        r"^[^;]*bad\.onnx: 5 problems: node 'Det_a' \(Det\) and 1 more: operator Det is not .*; "
        r"node 'NonZero_b' .*extract_model.*; input 'g' has the dynamic shape .*; "
        r"node 'Reshape_f' .* cannot be reshaped .*; node 'Transpose_y' .*perm.*; supported: Abs",
    )


def test_nodes_in_a_circle(tmp_path):
    made = model(
        [node("Add", "x b", "a"), node("Relu", "a", "b")], {"x": (IMAGE, "float32")}, None, ("b",)
    )
    assert_refused(saved(made, tmp_path), "reads what follows from it")


def test_a_zero_point_that_the_numbers_do_not_have(tmp_path):
    inputs = {"x": (IMAGE, "uint8")}
    constants = {"s": np.float32(0.1), "t": np.int8(-17)}
    made = model([node("DequantizeLinear", "x s t")], inputs, constants)
    pattern = "zero point of -17 for uint8, which has 0 to 255"
    assert_refused(saved(made, tmp_path), pattern)


def test_types_that_do_not_go_together(tmp_path):
    inputs = {"x": ((4, 3, 5), "float32"), "u": ((1, 3, 5), "int64")}
    made = model([node("ScatterND", "x i u")], inputs, {"i": int64([1])})
    assert_refused(saved(made, tmp_path), "updates of int32 for float32")
    inputs = {"t": ((2, 5), "int32"), "f": ((2, 5), "float32")}
    tables = {name: normal(6, 8) for name in "wpe"} | {"s": normal(8), "b": normal(8)}
    made = model(
        [node("EmbedLayerNormalization", "f t w p e s b", domain=MICROSOFT)], inputs, tables
    )
    assert_refused(saved(made, tmp_path), "indices of float32; int32 and int64")
    norm = node("LayerNormalization", "x s")
    made = model([norm], {"x": (IMAGE, "float32")}, {"s": np.ones(IMAGE[-1], np.int8)})
    assert_refused(saved(made, tmp_path), "inputs of float32 and int8; Mul takes two of one type")


def test_a_region_that_is_no_number(tmp_path):
    constants = {"r": np.float32([0, 0, -np.inf, 0, 1, 1, 1, 1]), "s": np.float32([1, 1, 2, 2])}
    resize = node("Resize", "x r s", coordinate_transformation_mode="tf_crop_and_resize")
    made = model([resize], {"x": (IMAGE, "float32")}, constants)
    assert_refused(saved(made, tmp_path), "a roi that is no number")


def test_a_skip_of_more_images(tmp_path):
    inputs = {"x": ((1, 5, 8), "float32"), "z": ((2, 5, 8), "float32")}
    made = model(
        [node("SkipLayerNormalization", "x z s", "n", MICROSOFT)], inputs, {"s": normal(8)}
    )
    assert_refused(saved(made, tmp_path), r"a skip of \[2, 5, 8\] beside an input of \[1, 5, 8\]")
