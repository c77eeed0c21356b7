"""Changes of the nodes of an ONNX graph: their wires, attributes and operators."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.drawing import Rng, pick, tensor_names
from fuzz.mutations.words import ELEMENTWISE, NUMBERS, OPERATORS, SIZES, TEXTS


def rewire(rng: Rng, model: onnx.ModelProto) -> None:
    """Another name for an input or output of a node: missing, a cycle, written twice."""
    node = _node(rng, model)
    names = node.input if rng.random() < 0.7 and len(node.input) else node.output
    if rng.random() < 0.15 or not len(names):
        names.append(pick(rng, tensor_names(model)))
    elif rng.random() < 0.15:
        del names[int(rng.integers(len(names)))]
    else:
        names[int(rng.integers(len(names)))] = pick(rng, tensor_names(model))


def change_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    """Another value or type of an attribute."""
    node = _node(rng, model)
    name = pick(rng, ("axis", "axes", "perm", "pads", "strides", "kernel_shape", "value", "to",
                      "group", "dilations", "alpha", "keepdims", "shape", "ceil_mode", "split",
                      "num_outputs", "block_size"))  # fmt: skip
    if len(node.attribute) and rng.random() < 0.8:
        index = int(rng.integers(len(node.attribute)))
        name = node.attribute[index].name
        del node.attribute[index]
    values = (
        pick(rng, SIZES), [pick(rng, SIZES) for _ in range(int(rng.integers(0, 9)))],
        [int(v) for v in rng.integers(-3, 6, int(rng.integers(1, 9)))], int(rng.integers(-4, 6)),
        pick(rng, NUMBERS), [pick(rng, NUMBERS)], pick(rng, TEXTS), b"\xff\xfe",
        numpy_helper.from_array(np.ones((2, 2), np.float32)), _subgraph(),
    )  # fmt: skip
    value = pick(rng, values)
    if value == []:
        value = helper.make_attribute("none", [1])
        value.name = name
        del value.ints[:]
        node.attribute.append(value)
    else:
        node.attribute.append(helper.make_attribute(name, value))


def change_nodes(rng: Rng, model: onnx.ModelProto) -> None:
    """A node dropped, doubled, moved, of another operator, or one more."""
    node, nodes = _node(rng, model), model.graph.node
    kind = int(rng.integers(6))
    if kind == 0:
        nodes.remove(node)
    elif kind == 1:
        nodes.append(node)
    elif kind == 2:
        order = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        rng.shuffle(order)
        del nodes[:]
        nodes.extend(order)
    elif kind == 3:
        node.op_type = pick(rng, OPERATORS)
    elif kind == 4:
        node.domain = pick(rng, ("", "ai.onnx", "com.microsoft", "ai.onnx.ml", "org.none"))
    else:
        inputs = [pick(rng, tensor_names(model)) for _ in range(int(rng.integers(0, 4)))]
        result = pick(rng, ("more", "y", "x"))
        new = helper.make_node(pick(rng, OPERATORS), inputs, [result])
        if rng.random() < 0.3:
            new.attribute.append(helper.make_attribute("body", _subgraph()))
        nodes.insert(int(rng.integers(len(nodes) + 1)), new)


def nudge_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    """A number of an attribute a little larger or smaller, or of another sign."""
    lists = [a for node in model.graph.node for a in node.attribute if len(a.ints) or a.i or a.f]
    if lists:
        attribute = pick(rng, lists)
        if len(attribute.ints):
            index = int(rng.integers(len(attribute.ints)))
            nudged = attribute.ints[index] + int(pick(rng, (-1, 1, 1, 2, -2, 5)))
            attribute.ints[index] = _int64(nudged)
        elif attribute.i:
            nudged = pick(rng, (attribute.i + 1, attribute.i - 1, -attribute.i, 0))
            attribute.i = _int64(nudged)
        else:
            attribute.f = pick(rng, (*NUMBERS, attribute.f * 2, -attribute.f))


def splice(rng: Rng, model: onnx.ModelProto) -> None:
    """One more operation behind a tensor, read by some of the tensor's readers."""
    nodes = model.graph.node
    places = [(i, name) for i, node in enumerate(nodes) for name in node.input if name]
    if not places:
        return
    index, name = pick(rng, places)
    new, op = f"{name}.{index}", str(pick(rng, ELEMENTWISE))
    inputs = [name, name] if op in ("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow") else [name]
    made = helper.make_node(op, inputs, [new], name=new)
    if op == "Cast":
        made.attribute.append(helper.make_attribute("to", int(pick(rng, (1, 2, 3, 6, 7, 10)))))
    for node in nodes[index:] if rng.random() < 0.5 else [nodes[index]]:
        for position, old in enumerate(node.input):
            if old == name and (rng.random() < 0.7 or node is nodes[index]):
                node.input[position] = new
    nodes.insert(index, made)


def read_earlier(rng: Rng, model: onnx.ModelProto) -> None:
    """A node reads another tensor that was made before it."""
    index = int(rng.integers(max(len(model.graph.node), 1)))
    before = [name for node in model.graph.node[:index] for name in node.output if name]
    before += [value.name for value in model.graph.input]
    if model.graph.node and model.graph.node[index].input and before:
        inputs = model.graph.node[index].input
        inputs[int(rng.integers(len(inputs)))] = pick(rng, before)


def change_operator(rng: Rng, model: onnx.ModelProto) -> None:
    """Another operator of as many inputs."""
    families = (ELEMENTWISE, ("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow", "MatMul", "PRelu"))
    alike = [n for n in model.graph.node if any(n.op_type in family for family in families)]
    if alike:
        node = pick(rng, alike)
        node.op_type = pick(rng, pick(rng, [f for f in families if node.op_type in f]))


def _node(rng: Rng, model: onnx.ModelProto) -> onnx.NodeProto:
    if not model.graph.node:
        model.graph.node.add(op_type="Relu", input=["x"], output=["y"])
    return pick(rng, model.graph.node)


def _subgraph() -> onnx.GraphProto:
    value = helper.make_tensor_value_info("inner", TensorProto.FLOAT, [])
    return helper.make_graph([helper.make_node("Identity", ["x"], ["inner"])], "g", [], [value])


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))
