"""Attention computes its queries, keys and values where nothing else reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node
from optimised_models import pair
from qdq.oracle import normal_feeds

from autoq.frontend import from_model
from autoq.graph import Graph, Layer, evaluate, optimise
from autoq.templates.operators.projected_attention import ProjectedAttention
from autoq.templates.target import parse_target

HOPPER, AMPERE = parse_target("cuda:sm_90a"), parse_target("cuda:sm_80")
HEADS, DEPTH, COLUMNS = 2, 32, 48
TURNED = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
ZEROS = {"q": 121, "k": 133, "v": 118}


def encoder(
    batch: int, rows: int, outputs: tuple[str, ...] = ("y",), order: str = "vqk", **zeros: Any
) -> onnx.ModelProto:
    """Three quantised products of one x, and the attention that they are for."""
    rng = np.random.default_rng(0)
    constants: dict[str, np.ndarray] = {
        "s": np.float32(0.03), "z": np.uint8(125), "ws": np.float32(0.004), "wz": np.int8(0),
        "sp": np.float32(1 / 255), "zp": np.uint8(0),
        "shape": np.array([batch, rows, HEADS, DEPTH]),
    }  # fmt: skip
    nodes = pair("x", "d", "s")
    for name in order:
        constants[f"w{name}"] = rng.integers(-99, 100, (COLUMNS, HEADS * DEPTH)).astype(np.int8)
        constants[f"z{name}"] = zeros.get(name, np.uint8(ZEROS[name]))
        nodes += [node("DequantizeLinear", f"w{name} ws wz", f"v{name}"),
                  node("MatMul", f"d v{name}", f"m{name}"),
                  *pair(f"m{name}", f"{name}d", "s", f"z{name}"),
                  node("Reshape", f"{name}d shape", f"{name}r"),
                  node("Transpose", f"{name}r", f"{name}t", perm=TURNED[name])]  # fmt: skip
    nodes += [
        node("MatMul", "qt kt", "m"), *pair("m", "a", "s", "z"), node("Softmax", "a", "p", axis=-1),
        node("QuantizeLinear", "p sp zp", "pq"), node("DequantizeLinear", "pq sp zp", "pd"),
        node("MatMul", "pd vt", "w"), *pair("w", "wd", "s", "z"),
        node("Transpose", "wd", "y", perm=[0, 2, 1, 3]),
    ]  # fmt: skip
    return model(nodes, {"x": ((batch * rows, COLUMNS), "float32")}, constants, outputs)


def projections(graph: Graph) -> list[ProjectedAttention]:
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    return [work for work in found if isinstance(work, ProjectedAttention)]


@pytest.mark.parametrize("order", ["qkv", "vqk"])
def test_attention_and_its_products_are_one_layer(order: str) -> None:
    made = encoder(2, 5, order=order)
    graph, apart = (optimise(from_model(made), target) for target in (HOPPER, AMPERE))
    (work,) = projections(graph)
    assert (work.batch, work.heads, work.rows, work.depth, work.columns) == (2, 2, 5, 32, 48)
    assert not projections(apart)
    feeds = normal_feeds(made, np.random.default_rng(1))
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], evaluate(apart, feeds)["y"])


@pytest.mark.parametrize("made", [
    encoder(1, 200), encoder(70, 3), encoder(1, 5, ("y", "kd")), encoder(1, 5, q=np.int8(4)),
], ids=["longer", "more than run at once", "keys are an output", "types"])  # fmt: skip
def test_others_are_apart(made: onnx.ModelProto) -> None:
    assert not projections(optimise(from_model(made), HOPPER))
