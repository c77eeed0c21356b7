"""A quantised ONNX model cut at its quantised tensors, so that errors do not add up over layers.

`tapped` gives the model those tensors as outputs, which a compiled model then writes; `cut` gives
it the same tensors as inputs too, and whoever reads one reads what was given. Fed the compiled
model's own tensors, onnxruntime says of every segment what it should have written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

_INTEGERS = {"QuantizeLinear", "QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul", "QGemm",
             "QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearConcat",
             "QLinearAveragePool", "QLinearSoftmax", "QLinearWhere"}  # fmt: skip
_LIGHT = {"QuantizeLinear", "DequantizeLinear", "Add", "Mul", "Div", "Sub", "Where", "Cast",
          "Reshape", "Transpose", "Softmax", "Unsqueeze", "Squeeze"}  # fmt: skip
_MOVES = {"Reshape", "Transpose", "Slice", "Split", "Squeeze", "Unsqueeze", "Flatten", "Identity",
          "DequantizeLinear"}  # fmt: skip
GIVEN = "/given"
"""What the name of a cut tensor ends with where it is an input."""


@dataclass(frozen=True)
class Tap:
    """A tensor to compare: its name, and whether it is float32, of a product's dynamic input."""

    name: str
    floats: bool


def taps(model: onnx.ModelProto, everywhere: bool = False) -> list[Tap]:
    """Quantised activations, and floats that DynamicQuantizeLinear reads, in running order.

    Those between the two products of an attention, and those that only hold another one's numbers
    in another order, are among them only if asked for: as outputs they would keep kernels apart.
    """
    producers = {name: node for node in model.graph.node for name in node.output}
    inside = set() if everywhere else _inside_attention(model)
    inputs = {value.name for value in model.graph.input}
    found: dict[str, Tap] = {}
    for node in model.graph.node:
        if node.op_type in _INTEGERS and node.output[0] not in inside:
            maker = producers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
            if everywhere or maker is None or maker.op_type not in _MOVES:
                found[node.output[0]] = Tap(node.output[0], False)
        if node.op_type == "DynamicQuantizeLinear" and node.input[0] not in inputs:
            found[node.input[0]] = Tap(node.input[0], True)
    constants = _constants(model)
    outputs = {value.name for value in model.graph.output}
    return [tap for tap in found.values() if tap.name not in constants | outputs]


def _constants(model: onnx.ModelProto) -> set[str]:
    """Names that no input of the model decides."""
    known = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if all(not name or name in known for name in node.input):
            known.update(node.output)
    return known


def _inside_attention(model: onnx.ModelProto) -> set[str]:
    """Tensors between the product in front of each Softmax and the one behind it."""
    producers = {name: node for node in model.graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found: set[str] = set()
    for node in model.graph.node:
        if node.op_type not in ("Softmax", "QLinearSoftmax"):
            continue
        pending, seen = [node.input[0]], set()
        while pending:  # towards the input
            name = pending.pop()
            made = producers.get(name)
            if name in seen or made is None:
                continue
            seen.add(name)
            if made.op_type in _LIGHT:
                pending += list(made.input)
        found |= seen
        pending = [node.output[0]]
        while pending:  # towards the output
            name = pending.pop()
            found.add(name)
            for reader in readers.get(name, []):
                if reader.op_type in _LIGHT:
                    pending += list(reader.output)
    return found


def _typed(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Types and shapes by name."""
    inferred = onnx.shape_inference.infer_shapes(model)
    graph = inferred.graph
    return {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}


def tapped(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with tensors as further outputs."""
    types = _typed(model)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for name in names:
        value = result.graph.output.add()
        value.name = name
        if name in types:
            value.type.CopyFrom(types[name])
    return result


def cut(model: onnx.ModelProto, types: dict[str, tuple[str, list[int]]]) -> onnx.ModelProto:
    """The model whose readers of tensors read inputs `<name>/given`; the tensors are outputs.

    types: numpy's dtype and the shape of each.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for node in result.graph.node:
        for index, name in enumerate(node.input):
            if name in types:
                node.input[index] = name + GIVEN
    present = {value.name for value in result.graph.output}
    for name, (dtype, shape) in types.items():
        element = helper.np_dtype_to_tensor_dtype(dtype)
        given = helper.make_tensor_value_info(name + GIVEN, element, shape)
        result.graph.input.append(given)
        if name not in present:
            result.graph.output.append(helper.make_tensor_value_info(name, element, shape))
    return result
