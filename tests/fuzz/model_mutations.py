"""What can happen to an ONNX model, field by field, drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper

from fuzz.model_words import ELEMENTWISE, NUMBERS, OPERATORS, SIZES, TEXTS

Rng = np.random.Generator


def pick(rng: Rng, values):
    """One of several values, as it is."""
    return values[int(rng.integers(len(values)))]


def mutate(rng: Rng, model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of `model` with one to three changes."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3)))):
        pick(rng, MUTATIONS)(rng, changed)
    return changed


def _any_field(rng: Rng, model: onnx.ModelProto) -> None:
    """Change any field of any message."""
    message = pick(rng, list(_messages(model)))
    fields = [field for field, _ in message.ListFields()] or list(message.DESCRIPTOR.fields)
    field = pick(rng, fields if rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_list(rng, message, field)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(rng, field))


def _change_list(rng: Rng, message: Message, field: FieldDescriptor) -> None:
    values = getattr(message, field.name)
    kind = int(rng.integers(4))
    if kind == 0 and len(values):
        del values[int(rng.integers(len(values)))]
    elif field.message_type is not None:
        if len(values) and kind < 3:
            values.append(pick(rng, values))
        else:
            values.add()
    elif kind == 1 or not len(values):
        values.append(_value(rng, field))
    else:
        values[int(rng.integers(len(values)))] = _value(rng, field)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in value if field.is_repeated else [value]:
                yield from _messages(child)


def _value(rng: Rng, field: FieldDescriptor) -> object:
    kinds = FieldDescriptor
    if field.enum_type is not None:
        return pick(rng, [value.number for value in field.enum_type.values])
    if field.cpp_type == kinds.CPPTYPE_INT64:
        return pick(rng, SIZES)
    if field.cpp_type in (kinds.CPPTYPE_INT32, kinds.CPPTYPE_UINT32, kinds.CPPTYPE_UINT64):
        return int(rng.integers(0, 130))
    if field.cpp_type in (kinds.CPPTYPE_FLOAT, kinds.CPPTYPE_DOUBLE):
        return pick(rng, NUMBERS)
    if field.type == kinds.TYPE_BYTES:
        return rng.bytes(int(rng.integers(0, 64)))
    return pick(rng, TEXTS)


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    names = [value.name for value in (*graph.input, *graph.output, *graph.initializer)]
    return [*names, *(name for node in graph.node for name in node.output), "", "nobody"]


def _node(rng: Rng, model: onnx.ModelProto) -> onnx.NodeProto:
    if not model.graph.node:
        model.graph.node.add(op_type="Relu", input=["x"], output=["y"])
    return pick(rng, model.graph.node)


def _rewire(rng: Rng, model: onnx.ModelProto) -> None:
    """Another name for an input or output of a node: missing, a cycle, written twice."""
    node = _node(rng, model)
    names = node.input if rng.random() < 0.7 and len(node.input) else node.output
    if rng.random() < 0.15 or not len(names):
        names.append(pick(rng, _names(model)))
    elif rng.random() < 0.15:
        del names[int(rng.integers(len(names)))]
    else:
        names[int(rng.integers(len(names)))] = pick(rng, _names(model))


def _attribute(rng: Rng, model: onnx.ModelProto) -> None:
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


def _subgraph() -> onnx.GraphProto:
    value = helper.make_tensor_value_info("inner", TensorProto.FLOAT, [])
    return helper.make_graph([helper.make_node("Identity", ["x"], ["inner"])], "g", [], [value])


def _tensor(rng: Rng, model: onnx.ModelProto) -> None:
    """Another value, shape or dtype of an initializer."""
    if not model.graph.initializer:
        return
    tensor = pick(rng, model.graph.initializer)
    kind = int(rng.integers(5))
    if kind == 0 and len(tensor.dims):
        tensor.dims[int(rng.integers(len(tensor.dims)))] = pick(rng, SIZES)
        return
    if kind == 1:
        tensor.data_type = int(rng.integers(0, 28))
        return
    try:
        value = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, RuntimeError, onnx.checker.ValidationError):
        return  # an earlier change
    if kind == 2:
        dtype = pick(
            rng, ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")
        )
        value = value.astype(dtype)
    elif kind == 3 and value.size:
        flat = np.array(value).reshape(-1)
        odd = pick(rng, NUMBERS) if value.dtype.kind == "f" else pick(rng, SIZES)
        with np.errstate(all="ignore"):
            flat[int(rng.integers(flat.size))] = np.asarray(odd).astype(flat.dtype)
        value = flat.reshape(value.shape)
    else:
        shapes = [(value.size,), (1, *value.shape), value.shape[::-1], (*value.shape, 1)]
        value = np.resize(value, pick(rng, [*shapes, (), (0,), (1,)]))
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def _port(rng: Rng, model: onnx.ModelProto) -> None:
    """Another shape or dtype of an input, or another set of inputs and outputs."""
    graph = model.graph
    kind = int(rng.integers(6))
    if kind <= 2 and graph.input:
        tensor = pick(rng, graph.input).type.tensor_type
        if len(tensor.shape.dim) and kind < 2:
            pick(rng, tensor.shape.dim).dim_value = pick(rng, SIZES)
        elif kind == 2:
            tensor.elem_type = int(rng.integers(0, 28))
    elif kind == 3:
        ports = pick(rng, (graph.input, graph.output))
        if len(ports):
            ports.append(pick(rng, ports))
    elif kind == 4:
        graph.output.add().name = pick(rng, _names(model))
    else:
        ports = pick(rng, (graph.input, graph.output))
        if len(ports):
            del ports[int(rng.integers(len(ports)))]


def _nodes(rng: Rng, model: onnx.ModelProto) -> None:
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
        inputs = [pick(rng, _names(model)) for _ in range(int(rng.integers(0, 4)))]
        result = pick(rng, ("more", "y", "x"))
        new = helper.make_node(pick(rng, OPERATORS), inputs, [result])
        if rng.random() < 0.3:
            new.attribute.append(helper.make_attribute("body", _subgraph()))
        nodes.insert(int(rng.integers(len(nodes) + 1)), new)


def _versions(rng: Rng, model: onnx.ModelProto) -> None:
    """Another opset or IR version."""
    if rng.random() < 0.3:
        model.ir_version = int(rng.integers(0, 14))
    elif model.opset_import:
        pick(rng, model.opset_import).version = int(rng.integers(5, 25))


def _external(rng: Rng, model: onnx.ModelProto) -> None:
    """An initializer that says that its bytes lie elsewhere."""
    if model.graph.initializer:
        tensor = pick(rng, model.graph.initializer)
        tensor.data_location = TensorProto.EXTERNAL
        for key in ("location", "offset", "length"):
            if rng.random() < 0.8:
                text = pick(
                    rng, (*TEXTS, "model.onnx", ".", "..", "/etc/hostname", *map(str, SIZES))
                )
                tensor.external_data.add(key=key, value=text)


def _nudge(rng: Rng, model: onnx.ModelProto) -> None:
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


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))


def _splice(rng: Rng, model: onnx.ModelProto) -> None:
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


def _expose(rng: Rng, model: onnx.ModelProto) -> None:
    """A tensor in the middle becomes an output."""
    names = [name for node in model.graph.node for name in node.output if name]
    if names:
        model.graph.output.add().name = pick(rng, names)


def _forward(rng: Rng, model: onnx.ModelProto) -> None:
    """A node reads another tensor that was made before it."""
    index = int(rng.integers(max(len(model.graph.node), 1)))
    before = [name for node in model.graph.node[:index] for name in node.output if name]
    before += [value.name for value in model.graph.input]
    if model.graph.node and model.graph.node[index].input and before:
        inputs = model.graph.node[index].input
        inputs[int(rng.integers(len(inputs)))] = pick(rng, before)


def _operator(rng: Rng, model: onnx.ModelProto) -> None:
    """Another operator of as many inputs."""
    families = (ELEMENTWISE, ("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow", "MatMul", "PRelu"))
    alike = [n for n in model.graph.node if any(n.op_type in family for family in families)]
    if alike:
        node = pick(rng, alike)
        node.op_type = pick(rng, pick(rng, [f for f in families if node.op_type in f]))


MUTATIONS: tuple[Callable[[Rng, onnx.ModelProto], None], ...] = (
    _any_field, _any_field, _rewire, _rewire, _attribute, _attribute, _attribute, _tensor, _tensor,
    _tensor, _port, _port, _nodes, _nodes, _versions, _external, _nudge, _nudge, _nudge, _splice,
    _splice, _splice, _expose, _expose, _forward, _forward, _operator, _operator,
)  # fmt: skip
