"""Evaluation of nodes whose inputs are all constant, by onnx's own reference."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from autoq.frontend.builder import GraphBuilder
from autoq.graph.shapes import LARGEST_SIZE

MEANINGFUL = ("DequantizeLinear",)
"""Never folded: integer weights and their scales are what the kernels need."""


def is_foldable(node: onnx.NodeProto, builder: GraphBuilder) -> bool:
    """Whether the node's outputs follow from constants alone (or from static shapes)."""
    if node.domain or node.op_type in MEANINGFUL:
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    names = [builder.values.get(name) for name in node.input if name]
    return all(name in builder.graph.constants for name in names)


def fold(node: onnx.NodeProto, builder: GraphBuilder) -> list[np.ndarray]:
    """Values of the node's outputs; raises ModelError where the reference cannot compute them."""
    if node.op_type in ("Shape", "Size"):
        return [_shape(node, builder)]
    if node.op_type == "Constant":
        return [_constant(node, builder)]
    feeds = {n: builder.graph.constants[builder.values[n]] for n in node.input if n}
    _require_size(node, [feeds.get(name) for name in node.input], builder)
    if node.op_type == "ConstantOfShape":
        return [_constant_of_shape(node, builder)]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "constant", inputs, outputs)
    opset = onnx.helper.make_opsetid("", builder.opset)
    model = onnx.helper.make_model(graph, opset_imports=[opset])
    from onnx.reference import ReferenceEvaluator  # 0.3 s to import, rarely needed

    try:
        results = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:  # the reference raises whatever numpy or it finds wrong
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise builder.error(f"constant inputs that do not evaluate ({reason})") from error
    return [np.asarray(result) for result in results]


def _require_size(
    node: onnx.NodeProto, inputs: list[np.ndarray | None], builder: GraphBuilder
) -> None:
    """Refuse operators whose inputs ask for a constant of more elements than a tensor may have."""
    values = [np.zeros(1) if value is None else value for value in inputs]
    size = 0.0
    if node.op_type in ("ConstantOfShape", "Expand"):
        size = float(np.prod(values[-1].astype(np.float64)))
    elif node.op_type == "Tile":
        size = values[0].size * float(np.prod(values[1].astype(np.float64)))
    elif node.op_type == "Range":
        start, limit, delta = (float(value.reshape(())) for value in values)
        size = (limit - start) / delta
    if size > LARGEST_SIZE:
        raise builder.error(f"a constant of {size:.4g} elements; at most {LARGEST_SIZE} fit")


def _shape(node: onnx.NodeProto, builder: GraphBuilder) -> np.ndarray:
    shape = builder.shape(builder.values[node.input[0]])
    if node.op_type == "Size":
        return np.asarray(np.prod(shape), np.int64)
    attributes = {a.name: a.i for a in node.attribute}
    start, end = attributes.get("start", 0), attributes.get("end", len(shape))
    return np.asarray(shape[slice(start, end)], np.int64)


def _constant(node: onnx.NodeProto, builder: GraphBuilder) -> np.ndarray:
    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return numpy_helper.to_array(value)
    dtypes = {"value_float": "float32", "value_floats": "float32"}
    dtypes |= {"value_int": "int64", "value_ints": "int64"}
    if attribute.name not in dtypes:
        raise builder.error(f"a constant given as {attribute.name}; tensors are supported")
    return np.asarray(value, dtypes[attribute.name])


def _constant_of_shape(node: onnx.NodeProto, builder: GraphBuilder) -> np.ndarray:
    value = np.zeros(1, np.float32)
    for attribute in node.attribute:
        if attribute.name == "value":
            value = numpy_helper.to_array(attribute.t)
    shape = builder.graph.constants[builder.values[node.input[0]]]
    return np.full(tuple(int(size) for size in shape), value.reshape(-1)[0], value.dtype)
