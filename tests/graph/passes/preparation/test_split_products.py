"""Products whose columns are read apart, and what turns their parts, as torch exports attention."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.lookup import Lookup
from autoq.templates.target import parse_target

HOPPER, CPU = parse_target("cuda:sm_90a"), parse_target("cpu")


class Apart:
    """A random product, quantised or not, whose output is reshaped, turned, sliced and mapped.

    Slices may overlap, skip columns, cut rows, or share the tensor with another reader.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], {}
        self.quantised = bool(rng.random() < 0.7)
        factors = [int(rng.choice([1, 2, 3, 4])) for _ in range(3)]
        rows = (1, 6) if rng.random() < 0.5 else (2, 3)
        n, k = int(np.prod(factors)), 8
        x = "x"
        if self.quantised:
            x = self.round("x", 0.03)
            weight = rng.integers(-127, 128, (k, n)).astype(np.int8)
            scale = rng.uniform(0.5, 2, n).astype(np.float32) / 400
            names = [
                self.constant(weight),
                self.constant(scale),
                self.constant(np.zeros(n, np.int8)),
            ]
            weights = self.add("DequantizeLinear", names, axis=1)
        else:
            weights = self.constant(rng.standard_normal((k, n)).astype(np.float32))
        y = self.add("MatMul", [x, weights])
        if rng.random() < 0.5:
            y = self.add("Add", [y, self.constant(rng.standard_normal(n).astype(np.float32))])
        y = self.round(y, 0.04)
        shape = [*rows, *factors]
        y = self.add("Reshape", [y, self.constant(np.array(shape))])
        y = self.round(y, 0.04)
        if rng.random() < 0.6:
            perm = rng.permutation(5).tolist()
            y, shape = self.add("Transpose", [y], perm=perm), [shape[axis] for axis in perm]
        self.outputs = [self.add("Neg", [y])] if rng.random() < 0.15 else []
        axis = int(rng.choice([i for i, size in enumerate(shape) if size > 1] or [0]))
        size = shape[axis]
        cuts = sorted({0, size, *rng.integers(0, size + 1, 2).tolist()})
        for start, end in pairwise(cuts):
            start -= int(rng.random() < 0.1 and start > 0)
            bounds = [self.constant(np.array([value])) for value in (start, end, axis)]
            part = self.round(self.add("Slice", [y, *bounds]), 0.04)
            if rng.random() < 0.7:
                whole = [*shape[:axis], end - start, *shape[axis + 1 :]]
                part = self.turned(part, whole)
            self.outputs.append(self.add("Relu", [part]))
        self.model = model(self.nodes, {"x": ((*rows, k), "float32")}, self.constants, self.outputs)

    def constant(self, value: np.ndarray) -> str:
        self.constants[f"c{len(self.constants)}"] = value
        return f"c{len(self.constants) - 1}"

    def add(self, op: str, inputs: list[str], **attributes) -> str:
        self.nodes.append(node(op, " ".join(inputs), f"t{len(self.nodes)}", **attributes))
        return f"t{len(self.nodes) - 1}"

    def round(self, x: str, scale: float) -> str:
        if not self.quantised:
            return x
        steps = [self.constant(np.float32(scale)), self.constant(np.uint8(117))]
        return self.add("DequantizeLinear", [self.add("QuantizeLinear", [x, *steps]), *steps])

    def turned(self, x: str, shape: list[int]) -> str:
        """Transposed, axes of one element dropped, and multiplied by a number."""
        perm = self.rng.permutation(len(shape)).tolist()
        x, shape = self.add("Transpose", [x], perm=perm), [shape[axis] for axis in perm]
        units = [i for i, size in enumerate(shape) if size == 1]
        if units:
            shape.pop(int(self.rng.choice(units)))
            x = self.add("Reshape", [x, self.constant(np.array(shape))])
        x = self.round(self.add("Mul", [x, self.constant(np.float32([0.37]))]), 0.02)
        if self.rng.random() < 0.5:
            x = self.add("Transpose", [x], perm=self.rng.permutation(len(shape)).tolist())
        return x


@pytest.mark.parametrize("target", [HOPPER, CPU], ids=lambda target: target.kind)
@pytest.mark.parametrize("seed", range(24))
def test_parts_agree_with_onnxruntime(seed, target):
    made = Apart(seed)
    rows = [dim.dim_value for dim in made.model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": made.rng.standard_normal(rows).astype(np.float32)}
    found = evaluate(optimise(from_model(made.model), target), feeds)
    for name, wanted in run_in_memory(made.model, feeds).items():
        allowed = 0.041 if made.quantised else 1e-4  # a step
        np.testing.assert_allclose(found[name], wanted, atol=allowed, rtol=0, strict=True)


def _attention(last: str):
    """Quantised self-attention as torch's exporters write it."""
    rng = np.random.default_rng(1)
    constants = {"w": rng.integers(-99, 99, (64, 192)).astype(np.int8), "ws": np.float32(0.002),
                 "wz": np.int8(0), "s": np.float32(0.03), "z": np.uint8(128),
                 "split": np.array([1, 17, 3, 2, 32]), "f": np.float32(0.42),
                 "h": np.array([1, 2, 17, 32])}  # fmt: skip
    nodes = [node("DequantizeLinear", "w ws wz", "wd")]

    def rounded(name: str) -> str:
        nodes.append(node("QuantizeLinear", f"{name} s z", f"{name}q"))
        nodes.append(node("DequantizeLinear", f"{name}q s z", f"{name}d"))
        return f"{name}d"

    nodes.append(node("MatMul", f"{rounded('x')} wd", "y"))
    nodes.append(node("Reshape", f"{rounded('y')} split", "r"))
    nodes.append(node("Transpose", rounded("r"), "t", perm=[2, 0, 3, 1, 4]))
    rounded("t")
    for index, name in enumerate("qkv"):
        constants[name + "i"] = np.array(index)
        nodes.append(node("Gather", f"td {name}i", name, axis=0))
        rounded(name)
    nodes.append(node("Mul", "qd f", "qs"))
    nodes.append(node("Transpose", "kd", "kt", perm=[0, 1, 3, 2]))
    nodes.append(node("Mul", f"{rounded('kt')} f", "ks"))
    nodes.append(node("MatMul", f"{rounded('qs')} {rounded('ks')}", "a"))
    nodes.append(node("Softmax", rounded("a"), "p", axis=-1))
    nodes.append(node("MatMul", f"{rounded('p')} vd", "o"))
    nodes.append(node("Transpose", rounded("o"), last, perm=[0, 2, 1, 3]))
    return model(nodes, {"x": ((1, 17, 64), "float32")}, constants, (last,))


def test_attention_of_one_product_is_one_kernel_behind_products_alone():
    graph = optimise(from_model(_attention("y5")), HOPPER)
    layers = [item.workload for item in graph.nodes if isinstance(item, Layer)]
    assert sum(isinstance(workload, Attention) for workload in layers) == 1
    assert not any(isinstance(workload, Lookup) for workload in layers)
    moved = [p.op for item in graph.nodes if isinstance(item, Fusion) for p in item.primitives]
    assert not {"Slice", "Transpose"} & set(moved)
