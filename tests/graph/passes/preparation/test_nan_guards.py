"""Where the choice of 0 for NaN behind a softmax is dropped, and where it has to stay."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.frontend import from_model
from autoq.graph import Fusion, evaluate, optimise
from autoq.templates.target import parse_target

INFINITE = np.float32(-np.inf)
CAUSAL = np.where(np.tri(6), np.float32(0), INFINITE).astype(np.float32)
NOTHING = np.where(np.arange(6)[:, None] == 2, INFINITE, np.float32(0)).repeat(6, 1)
KINDS = {"none": None, "causal": CAUSAL, "a row of nothing": NOTHING, "of a run": "m"}


def attention(mask: object, scaled: bool) -> object:
    """Shares of products plus a mask, guarded, times values; a mask may be scaled, or an input."""
    constants = {"c": np.float32(0.5), "zero": np.float32(0)}
    inputs = {"q": ((2, 6, 8), "float32"), "k": ((2, 8, 6), "float32"),
              "v": ((2, 6, 8), "float32")}  # fmt: skip
    nodes = [node("MatMul", "q k", "p"), node("Mul", "p c", "s")]
    if mask is None:
        nodes.append(node("Identity", "s", "a"))
    else:
        nodes.append(node("Add", "s m", "a"))
        if isinstance(mask, str):
            inputs["m"] = ((6, 6), "float32")
        else:
            constants["m"] = mask
    if scaled:
        nodes.append(node("Mul", "a c", "b"))
    nodes += [
        node("Softmax", "b" if scaled else "a", "w", axis=-1), node("IsNaN", "w", "n"),
        node("Where", "n zero w", "u"), node("MatMul", "u v"),
    ]  # fmt: skip
    return model(nodes, inputs, constants)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_onnxruntimes(kind, scaled):
    made = attention(KINDS[kind], scaled)
    rng = np.random.default_rng(0)
    feeds = {
        value.name: rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim])
        .astype(np.float32)
        for value in made.graph.input
    }  # fmt: skip
    if "m" in feeds:
        feeds["m"] = NOTHING
    graph = optimise(from_model(made), parse_target("cpu"))
    with np.errstate(invalid="ignore"):
        found = evaluate(graph, feeds)["y"]
    np.testing.assert_allclose(found, run_in_memory(made, feeds)["y"], rtol=1e-4, atol=1e-6)
    ops = [p.op for n in graph.nodes if isinstance(n, Fusion) for p in n.primitives]
    dropped = kind == "none" or (kind == "causal" and not scaled)
    assert ("IsNaN" in ops) != dropped
