"""The partition into regions: closed under reading, bounded in size, made in linear time."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models.makers import model, node, normal
from onnx_models.oracle import random_feeds, run_onnxruntime

from autoq.frontend import from_model, load
from autoq.graph import Fusion, evaluate, optimise
from autoq.graph.fallback.scheduled import scheduled_prim_func
from autoq.graph.ir import Primitive
from autoq.graph.passes.fusions.regions import (
    ELEMENTWISE,
    LARGEST_EXPRESSION,
    READINGS,
    Partition,
)
from autoq.graph.shapes import BINARY, LARGEST_INPUTS, TERNARY
from autoq.kernel.lowering import lower
from autoq.templates.target import host_cpu, parse_target

TOKENS = (1, 8, 8, 12)
"""Images as ConvNeXt and Swin hold them, channels last."""


def fake_quantised(made: onnx.ModelProto, scale: float = 0.03) -> onnx.ModelProto:
    """The model with Q -> DQ on every float tensor that a node writes or the graph takes.

    All readers of a tensor share one pair, as onnxruntime's quantiser writes it.
    """
    graph = made.graph
    constants = {tensor.name for tensor in graph.initializer}
    pairs: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []

    def pair(name: str) -> None:
        own = np.float32(scale * (1 + 0.07 * len(pairs)))
        graph.initializer.append(numpy_helper.from_array(own, f"{name}/s"))
        graph.initializer.append(numpy_helper.from_array(np.int8(len(pairs) % 5), f"{name}/z"))
        for op, source, result in (
            ("QuantizeLinear", name, f"{name}/q"), ("DequantizeLinear", f"{name}/q", f"{name}/d"),
        ):  # fmt: skip
            nodes.append(node(op, f"{source} {name}/s {name}/z", result))
        pairs[name] = f"{name}/d"

    for value in graph.input:
        pair(value.name)
    for old in list(graph.node):
        new = helper.make_node(old.op_type, [pairs.get(n, n) for n in old.input], old.output)
        new.attribute.extend(old.attribute)
        nodes.append(new)
        for name in old.output:
            pair(name)
    del graph.node[:]
    graph.node.extend(nodes)
    assert not constants & set(pairs)
    for output in graph.output:
        output.name = pairs[output.name]
    return made


def layer_norm(x: str, y: str, axis: int = -1) -> list[onnx.NodeProto]:
    return [
        node("ReduceMean", x, f"{y}.m", axes=[axis]),
        node("Sub", f"{x} {y}.m", f"{y}.c"),
        node("Pow", f"{y}.c two", f"{y}.s"),
        node("ReduceMean", f"{y}.s", f"{y}.v", axes=[axis]),
        node("Add", f"{y}.v eps", f"{y}.e"),
        node("Sqrt", f"{y}.e", f"{y}.r"),
        node("Div", f"{y}.c {y}.r", y),
    ]


def gelu(x: str, y: str) -> list[onnx.NodeProto]:
    return [
        node("Div", f"{x} root", f"{y}.a"), node("Erf", f"{y}.a", f"{y}.b"),
        node("Add", f"{y}.b one", f"{y}.c"), node("Mul", f"{x} {y}.c", f"{y}.d"),
        node("Mul", f"{y}.d half", y),
    ]  # fmt: skip


NUMBERS = {
    "two": np.float32(2), "eps": np.float32(1e-2), "root": np.float32(2**0.5),
    "one": np.float32(1), "half": np.float32(0.5), "w": normal(12, 12) / 4, "b": normal(12),
    "windows": np.int64([1, 2, 4, 2, 4, 12]), "rows": np.int64([4, 16, 12]),
    "image": np.int64(TOKENS), "0": np.int64([0]), "2": np.int64([2]), "8": np.int64([8]),
    "1": np.int64([1]),
}  # fmt: skip
BLOCKS = {
    "layer normalisation": layer_norm("x", "y"),
    "GELU": gelu("x", "y"),
    "ConvNeXt": [
        *layer_norm("x", "n"), node("MatMul", "n w", "p"), node("Add", "p b", "h"),
        *gelu("h", "g"), node("MatMul", "g w", "o"), node("Transpose", "o", "t", perm=[0, 3, 1, 2]),
        node("Transpose", "t", "u", perm=[0, 2, 3, 1]), node("Add", "u x"),
    ],
    "Swin's windows": [
        *layer_norm("x", "n"),
        node("Slice", "n 2 8 1", "tail"), node("Slice", "n 0 2 1", "head"),
        node("Concat", "tail head", "rolled", axis=1),
        node("Reshape", "rolled windows", "split"),
        node("Transpose", "split", "swapped", perm=[0, 1, 3, 2, 4, 5]),
        node("Reshape", "swapped rows", "tokens"),
        node("MatMul", "tokens w", "k"), node("Transpose", "tokens", "kt", perm=[0, 2, 1]),
        node("MatMul", "k kt", "scores"), node("Softmax", "scores", "share", axis=-1),
        node("MatMul", "share tokens", "mixed"), node("Add", "mixed tokens", "kept"),
        node("Reshape", "kept image", "back"), node("Add", "back x"),
    ],
    "one pair, two readers": [
        node("Sigmoid", "x", "g"), node("Exp", "g", "e"), node("ReduceMean", "g", "m", axes=[1]),
        node("Sub", "g m", "c"), node("Mul", "c e"),
    ],
}  # fmt: skip


def block(name: str) -> onnx.ModelProto:
    used = {i for n in BLOCKS[name] for i in n.input}
    numbers = {name: value for name, value in NUMBERS.items() if name in used}
    return model(BLOCKS[name], {"x": (TOKENS, "float32")}, numbers, opset=16)


@pytest.mark.parametrize("target", ["cuda", "cpu"])
@pytest.mark.parametrize("name", BLOCKS)
def test_quantised_blocks_agree_with_onnxruntime(name, target, tmp_path):
    path = tmp_path / "block.onnx"
    onnx.save(fake_quantised(block(name)), path)
    graph = optimise(load(path), parse_target(target))
    known = {*graph.inputs}
    for kernel in graph.nodes:
        assert known.issuperset(kernel.inputs)  # nothing is read that nobody writes before
        known.add(kernel.output)
    feeds = random_feeds(path)
    (expected,) = run_onnxruntime(path, feeds).values()
    (result,) = evaluate(graph, feeds).values()
    step = max(np.diff(np.unique(expected)).min(), 1e-3)
    assert len(np.unique(expected)) > 20
    assert np.abs(result - expected).max() <= 2.01 * step
    assert (np.abs(result - expected) <= step / 4).mean() > 0.98


@pytest.mark.parametrize("name", BLOCKS)
def test_what_somebody_else_reads_is_not_absorbed(name):
    graph = from_model(fake_quantised(block(name)))
    regions = Partition(graph).by_root.values()
    roots = {region.root.output for region in regions}
    readers = graph.consumers()
    for region in regions:
        for member in region.members[1:]:
            if member.op != "DequantizeLinear":
                assert member.output not in graph.outputs and member.output not in roots
                inside = {id(m) for m in region.members}
                assert {id(reader) for reader in readers[member.output]} <= inside
        assert region.reads <= roots | set(graph.inputs) | set(graph.constants) | {
            n.output for n in graph.operations if n.op == "Reshape"
        }


def silu(x: str, y: str) -> list[onnx.NodeProto]:
    return [node("Sigmoid", x, f"{y}.g"), node("Mul", f"{x} {y}.g", y)]


CHAINS = {
    "x + x": lambda x, y: [node("Add", f"{x} {x}", y)],
    "SiLU": silu,
    "Softplus": lambda x, y: [node("Softplus", x, y)],
    "Tanh": lambda x, y: [node("Tanh", x, y)],
    "Relu": lambda x, y: [node("Relu", x, y)],
    "Sum of many": lambda x, y: [node("Add", f"{x} c{y}", y)],
}


def chain(kind: str, length: int) -> onnx.ModelProto:
    nodes: list[onnx.NodeProto] = []
    for index in range(length):
        source, result = f"t{index}" if index else "x", f"t{index + 1}"
        nodes += CHAINS[kind](source, "y" if index == length - 1 else result)
    inputs = {"x": ((1, 4, 5, 6), "float32")}
    inputs |= {name: ((1, 4, 5, 6), "float32") for n in nodes for name in n.input if name[0] == "c"}
    return model(nodes, inputs)


def tree_size(node: Fusion) -> int:
    """Operations of the fusion's expression when nothing in it is shared."""
    first = len(node.inputs) + len(node.constants)
    sizes = [0] * first
    for primitive in node.primitives:
        times = READINGS.get(primitive.op, 1)
        sizes.append(1 + times * sum(sizes[argument] for argument in primitive.arguments))
    return sizes[-1]


@pytest.mark.parametrize("kind", CHAINS)
def test_long_chains_become_fusions_of_bounded_size(kind):
    started = time.process_time()
    graph = optimise(from_model(chain(kind, 1200)), host_cpu())
    assert time.process_time() - started < 10
    fusions = [n for n in graph.nodes if isinstance(n, Fusion)]
    assert max(map(tree_size, fusions)) <= LARGEST_EXPRESSION
    assert max(len(n.inputs) for n in fusions) <= LARGEST_INPUTS
    assert sum(len(n.primitives) for n in fusions) >= 1200 / 2  # nothing is left out


@pytest.mark.parametrize(("kind", "length"), [("SiLU", 25), ("x + x", 40), ("Tanh", 12)])
def test_chains_of_shared_values_compile_and_agree(kind, length, tmp_path):
    path = tmp_path / "chain.onnx"
    onnx.save(chain(kind, length), path)
    graph = optimise(load(path), host_cpu())
    feeds = random_feeds(path)
    (expected,) = run_onnxruntime(path, feeds).values()
    (result,) = evaluate(graph, feeds).values()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    started = time.process_time()
    fusions = {n.key: n for n in graph.nodes if isinstance(n, Fusion)}
    for fusion in fusions.values():
        lower(scheduled_prim_func(fusion, host_cpu()), host_cpu())
    assert time.process_time() - started < 20


ATTRIBUTES = {
    "Clip": {"low": -0.5, "high": 0.5},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.1},
    "Elu": {"alpha": 1.0},
}


@pytest.mark.parametrize("op", [op for op in ELEMENTWISE if "Linear" not in op])
def test_readings_say_how_often_a_lowered_expression_holds_its_argument(op):
    """TVM's lowering of an intrinsic may repeat its argument: this is what READINGS counts."""
    shape, length = (4, 5, 6), 3
    inputs = 3 if op in TERNARY else 2 if op in BINARY else 1
    others = tuple(range(1, inputs))
    arguments = [(0, *others), *((inputs + i, *others) for i in range(length - 1))]
    attributes = tuple(sorted(ATTRIBUTES.get(op, {}).items()))
    primitives = tuple(Primitive(op, a, "float32", attributes) for a in arguments)
    fusion = Fusion(
        primitives,
        ("x", "c", "d")[:inputs],
        (shape,) * inputs,
        ("float32",) * inputs,
        (),
        "y",
        shape,
        (),
    )
    text = lower(scheduled_prim_func(fusion, host_cpu()), host_cpu()).final_host.script()
    loads = text.count("x0_1[") or text.count("x0[")
    assert loads == READINGS.get(op, 1) ** length
