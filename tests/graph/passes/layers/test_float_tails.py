"""Activations and additions behind products of float16 models, in their kernels' epilogues."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

HOPPER, TURING, CPU = (parse_target(name) for name in ("cuda:sm_90a", "cuda:sm_75", "cpu"))
ROWS, WIDTH = 6, 24
HALF = np.float16
NUMBERS = {
    "half": 0.5, "one": 1, "three": 3, "root": math.sqrt(2), "over_root": math.sqrt(0.5),
    "cubic": 0.044715, "slope": math.sqrt(2 / math.pi), "minus": -1, "quick": 1.702,
    "tiny": 1e-7,
}  # fmt: skip

FORMS = {
    "gelu": [
        ["Div x root a", "Erf a b", "Add b one c", "Mul x c d", "Mul d half y"],
        ["Mul x over_root a", "Erf a b", "Add one b c", "Mul x half d", "Mul d c y"],
        ["Div x root a", "Erf a b", "Add b one c", "Mul half c d", "Mul x d y"],
    ],
    "gelu_tanh": [
        ["Pow x three a", "Mul a cubic b", "Add x b c", "Mul c slope d", "Tanh d e", "Add e one f",
         "Mul x half g", "Mul g f y"],
        ["Mul x x a", "Mul a cubic b", "Add b one c", "Mul x slope d", "Mul c d e", "Tanh e f",
         "Add f one g", "Mul x g h", "Mul h half y"],
    ],
    "silu": [
        ["Sigmoid x a", "Mul x a y"],
        ["Neg x a", "Exp a b", "Add one b c", "Div x c y"],
        ["Mul x minus a", "Exp a b", "Add b one c", "Reciprocal c d", "Mul d x y"],
    ],
    "relu": [["Relu x y"]],
    "none": [
        ["Tanh x y"],
        ["Mul x quick a", "Sigmoid a b", "Mul x b y"],
        ["Sigmoid x a", "Mul x a b", "Exp x c", "Mul c x d", "Mul d tiny e", "Mul e tiny f",
         "Add b f y"],
    ],
}  # fmt: skip
"""Nodes from x to y, as exporters write the activation that kernels know, or another one."""


def steps(form: list[str], x: str, y: str) -> list[onnx.NodeProto]:
    """A form's nodes between tensors of other names."""
    names = {"x": x, "y": y} | {name: name for name in NUMBERS}
    made = []
    for line in form:
        op, *inputs, output = line.split()
        read = " ".join(names.get(name, f"{y}_{name}") for name in inputs)
        made.append(node(op, read, names.get(output, f"{y}_{output}")))
    return made


def made_of(nodes: list[onnx.NodeProto], outputs=("y",), **further) -> onnx.ModelProto:
    """A float16 model of x [6, 24] with weights w, v and whatever numbers its nodes read."""
    rng = np.random.default_rng(3)
    known = {name: np.array(value, HALF) for name, value in NUMBERS.items()}
    known |= {name: (rng.standard_normal((WIDTH, WIDTH)) / 4).astype(HALF) for name in "wv"}
    known |= {"bias": rng.standard_normal(WIDTH).astype(HALF)} | further
    used = {name for item in nodes for name in item.input}
    constants = {name: value for name, value in known.items() if name in used}
    return model(nodes, {"x": ((ROWS, WIDTH), "float16")}, constants, outputs)


def optimised(made: onnx.ModelProto, target) -> list[Layer | Fusion]:
    """Layers and fusions of a model, which compute what onnxruntime does."""
    graph = optimise(from_model(made), target)
    x = np.random.default_rng(4).standard_normal((ROWS, WIDTH)).astype(HALF)
    found = evaluate(graph, {"x": x})
    for name, expected in run_in_memory(made, {"x": x}).items():
        assert found[name].dtype == expected.dtype
        wide = expected.astype(np.float32)
        difference = np.abs(found[name].astype(np.float32) - wide).max()
        assert difference <= 2.0**-8 * max(1, np.abs(wide).max()), name
    return graph.nodes


def tails(nodes: list[Layer | Fusion]) -> list[tuple[str, bool]]:
    """(activation, residual) of each product."""
    found = [item.workload for item in nodes if isinstance(item, Layer)]
    return [(w.activation, w.residual) for w in found if isinstance(w, FloatGemm)]


@pytest.mark.parametrize("target", [HOPPER, TURING, CPU], ids=lambda t: t.arch or t.kind)
@pytest.mark.parametrize(
    ("activation", "form"),
    [pytest.param(name, form, id=f"{name}-{i}")
     for name, forms in FORMS.items() for i, form in enumerate(forms)],
)  # fmt: skip
def test_activations_are_those_of_their_function(activation, form, target):
    products = [node("MatMul", "x w", "raw"), node("Add", "raw bias", "a")]
    nodes = optimised(made_of([*products, *steps(form, "a", "y")]), target)
    assert tails(nodes) == [(activation, False)]
    assert len([item for item in nodes if isinstance(item, Fusion)]) == (activation == "none")


GELU, SILU = FORMS["gelu"][0], FORMS["silu"][0]


@pytest.mark.parametrize(
    ("nodes", "outputs", "expected"),
    [
        ([node("MatMul", "x w", "a"), *steps(GELU, "a", "b"), node("Add", "x b")], ("y",),
         [("gelu", True)]),
        ([node("MatMul", "x w", "a"), node("Add", "a x", "h"), node("MatMul", "h v", "b"),
          *steps(SILU, "b", "c"), node("Add", "c h")], ("y",), [("none", True), ("silu", True)]),
        ([node("MatMul", "x w", "a"), node("MatMul", "x v", "b"), node("Add", "a b")], ("y",),
         [("none", False), ("none", True)]),
        ([node("MatMul", "x w", "a"), *steps(SILU, "a", "b"), node("MatMul", "x v", "c"),
          node("Mul", "b c")], ("y",), [("silu", False), ("none", False)]),
        ([node("MatMul", "x w", "a"), *steps(GELU, "a", "b"), node("Add", "a b")], ("y",),
         [("none", False)]),
        ([node("MatMul", "x w", "a"), *steps(GELU, "a", "y")], ("a", "y"), [("none", False)]),
        ([node("MatMul", "x w", "a"), *steps(GELU, "a", "y")], ("y", "y_b"), [("none", False)]),
        ([node("MatMul", "x w", "a"), *steps(SILU, "a", "b"), node("Add", "b x", "y"),
          node("Tanh", "b", "z")], ("y", "z"), [("silu", False)]),
        ([node("MatMul", "x w", "a"), node("Add", "a a")], ("y",), [("none", False)]),
        ([node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("Slice", "x from to", "c"),
          node("Add", "b c")], ("y",), [("relu", False)]),
        ([node("MatMul", "x w", "a"), *steps(SILU, "a", "b"), node("Add", "b x", "y"),
          node("Relu", "a", "dead")], ("y",), [("silu", True)]),
    ],
    ids=["added", "twice", "two products", "gated", "added to itself", "result", "inner result",
         "shared", "doubled", "one row", "dead"],
)  # fmt: skip
def test_what_is_shared_stays(nodes, outputs, expected):
    bounds = {"from": np.array([2, 0]), "to": np.array([3, WIDTH])}
    assert tails(optimised(made_of(nodes, outputs, **bounds), HOPPER)) == expected


def test_without_a_kernel_that_adds_the_activation_is_fused_alone():
    nodes = [node("MatMul", "x w", "a"), *steps(GELU, "a", "b"), node("Add", "b x")]
    assert tails(optimised(made_of(nodes), CPU)) == [("gelu", False)]


def test_random_graphs_of_products():
    """Chains of products, activations, additions of earlier or smaller tensors, several outputs."""
    rng = np.random.default_rng(11)
    every = [form for forms in FORMS.values() for form in forms]
    fused = []
    for _ in range(60):
        nodes, made, outputs = [], ["x"], []
        for i in range(int(rng.integers(2, 7))):
            source, y = str(rng.choice(made[-3:])), f"t{i}"
            kind = int(rng.integers(4))
            if kind == 0 or i == 0:
                nodes.append(node("MatMul", f"{source} {rng.choice(['w', 'v'])}", y))
            elif kind == 1:
                nodes += steps(every[int(rng.integers(len(every)))], source, y)
            elif kind == 2:
                nodes.append(node("Add", f"{source} {rng.choice([*made, 'bias'])}", y))
            else:
                nodes += [node("MatMul", f"{source} w", f"{y}_p"),
                          *steps(every[int(rng.integers(len(every)))], f"{y}_p", y)]  # fmt: skip
            made.append(y)
            outputs += [y] if rng.random() < 0.2 else []
        outputs = outputs if made[-1] in outputs else [*outputs, made[-1]]
        target = (HOPPER, TURING, CPU)[int(rng.integers(3))]
        fused += tails(optimised(made_of(nodes, tuple(outputs)), target))
    assert {name for name, _ in fused} == set(FORMS)
    assert sum(residual for _, residual in fused) > 5
