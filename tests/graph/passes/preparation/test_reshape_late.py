"""What follows a product over more than two axes goes into its kernel."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node, normal
from optimised_models import optimised, pair

from autoq.graph import Fusion, Layer
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

TARGETS = [parse_target("cpu"), parse_target("cuda")]
INPUTS = {"x": ((2, 3, 8), "float32"), "r": ((2, 3, 5), "float32")}
WEIGHT = np.random.default_rng(4).integers(-100, 101, (8, 5)).astype(np.int8)
CONSTANTS = {
    "w": WEIGHT, "ws": np.float32(0.01), "wz": np.int8(0), "s": np.float32(0.05),
    "t": np.float32(0.07), "z": np.int8(3), "b": normal(5), "c": normal(1, 1, 5),
    "rows": normal(1, 3, 5), "flat": np.int64([6, 5]), "axes": np.int64([6, 1, 5]),
}  # fmt: skip


PRODUCT = [*pair("x", "d"), node("DequantizeLinear", "w ws wz", "v"), node("MatMul", "d v", "m")]
TAILS = {
    "bias": [node("Add", "m b", "a"), *pair("a", "y")],
    "bias_of_three_axes": [node("Add", "c m", "a"), *pair("a", "y")],
    "clamp": [node("Add", "m b", "a"), node("Relu", "a", "u"), *pair("u", "y")],
    "residual": [*pair("r", "e"), *pair("m", "p", "t"), node("Add", "e p", "a"), *pair("a", "y")],
    "residual_of_rows": [
        *pair("r", "e"), node("Reshape", "e flat", "f"), node("Reshape", "m flat", "n"),
        node("Add", "n f", "a"), *pair("a", "y"),
    ],
    "residual_of_other_axes": [
        *pair("r", "e"), node("Reshape", "e axes", "f"), node("Reshape", "m axes", "n"),
        node("Add", "n f", "a"), *pair("a", "y"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tail", TAILS)
def test_a_tail_is_part_of_the_product(tail, target):
    (layer,) = optimised(model([*PRODUCT, *TAILS[tail]], INPUTS, CONSTANTS), target)
    assert isinstance(layer, Layer) and isinstance(layer.workload, Gemm)
    assert (layer.workload.m, layer.workload.n, layer.workload.k) == (6, 5, 8)
    assert bool(layer.workload.epilogue.residual_dtype) == ("residual" in tail)


@pytest.mark.parametrize("target", TARGETS)
def test_a_constant_a_row_stays_behind(target):
    tail = [*pair("m", "p", "t"), node("Add", "p rows", "a"), *pair("a", "y")]
    product, behind = optimised(model([*PRODUCT, *tail], INPUTS, CONSTANTS), target)
    assert isinstance(product, Layer) and isinstance(behind, Fusion)


@pytest.mark.parametrize("target", TARGETS)
def test_a_tensor_that_is_also_read_with_all_axes_stays_readable(target):
    tail = [*pair("m", "p", "t"), node("Softmax", "p", "o", axis=1), *pair("r", "e"),
            node("Add", "p e", "a"), node("Add", "a o", "b2"), *pair("b2", "y")]  # fmt: skip
    nodes = optimised(model([*PRODUCT, *tail], INPUTS, CONSTANTS, outputs=("y", "p")), target)
    assert isinstance(nodes[0], Layer) and nodes[0].workload.epilogue.residual_dtype is None
