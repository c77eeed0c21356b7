"""Sizes that kernels cannot index are refused where a model is imported."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node, normal
from onnx_models.operators import IMAGE, conv, image, int64, with_constants
from refusals import assert_refused, saved

from autoq.frontend import load

HUGE = 2**31
POOL = {"kernel_shape": [2, 2]}
HUGE_CASES = {
    "pads": (conv((8, 6, 3, 3), pads=[0, 0, HUGE, 0]), "pads"),
    "padded": (conv((8, 6, 3, 3), pads=[32767] * 4, strides=[32767] * 2), "elements"),
    "strides": (conv((8, 6, 3, 3), strides=[HUGE, 1]), "strides"),
    "strides of none": (conv((8, 6, 3, 3), strides=[0, 1]), "strides"),
    "dilations": (conv((8, 6, 1, 1), dilations=[HUGE, HUGE]), "dilations"),
    "pool pads": (image("MaxPool", **POOL, pads=[0, 2, 0, 0]), "pads .* must be smaller"),
    "pool strides": (image("AveragePool", **POOL, strides=[HUGE, HUGE]), "strides"),
    "pool window": (image("MaxPool", kernel_shape=[HUGE, 1]), "kernel_shape"),
    "pad": (image("Pad", opset=9, pads=[0, 0, HUGE, 0] * 2), "elements"),
    "lrn": (image("LRN", size=HUGE), "size"),
    "flatten": (image("Flatten", axis=HUGE), "axis"),
    "batch": (model([node("Relu", "x")], {"x": ((HUGE, 3), "float32")}), "elements"),
    "product": (
        model(
            [node("MatMul", "a b")], {"a": ((2**17, 1), "float32"), "b": ((1, 2**17), "float32")}
        ),
        "elements",
    ),
    "constant": (with_constants("ConstantOfShape", "s", s=int64(HUGE)), "a constant of 2.147e"),
    "expand": (with_constants("Expand", "c s", c=normal(1), s=int64(2**20, 2**20)), "1.1e.12"),
    "range": (with_constants("Range", "a b c", a=np.int64(0), b=np.int64(2**60), c=np.int64(1)),
              "a constant of 1.153e"),
    "empty": (with_constants("Slice", "x s e", s=int64(3), e=int64(3)), "elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE_CASES)
def test_sizes_that_no_kernel_can_index(name, tmp_path):
    made, pattern = HUGE_CASES[name]
    assert_refused(saved(made, tmp_path), pattern)


def test_steps_past_the_end_take_one_element(tmp_path):
    bounds = {"s": int64(1), "e": int64(2**62), "a": int64(0), "t": int64(2**62)}
    made = with_constants("Slice", "x s e a t", **bounds)
    assert load(saved(made, tmp_path)).shape("y") == (1, *IMAGE[1:])
