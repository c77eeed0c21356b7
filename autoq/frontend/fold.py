"""Evaluation of nodes whose inputs are all constant, by onnx's own reference."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.constant_size import COMPUTED, constant_size, operations
from autoq.graph.folding_budget import BudgetError
from autoq.graph.shapes import LARGEST_SIZE

FOLDED = frozenset((*COMPUTED, "Constant", "Shape", "Size"))
"""Operators of the default domain that constants alone, or static shapes, may decide."""

_MOVING = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Concat")
"""Operators that only move values."""

LARGEST_ITEM = 8
"""Bytes of the largest numbers that the reference computes with."""


def is_foldable(node: onnx.NodeProto, builder: GraphBuilder) -> bool:
    """Whether the node's outputs follow from constants alone (or from static shapes)."""
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in ("Shape", "Size"):
        return bool(node.input) and node.input[0] in builder.values
    if node.op_type == "Constant":
        return True
    names = [builder.values.get(name) for name in node.input if name]
    if not names or node.op_type not in COMPUTED:
        return False
    if all(name in builder.graph.constants for name in names):
        return True
    # A quantised weight that is only moved stays integers.
    known = all(name is not None and builder.is_constant(name) for name in names)
    return known and node.op_type not in _MOVING and all(_is_known(n, builder) for n in names)


def _is_known(name: str | None, builder: GraphBuilder) -> bool:
    return name is not None and builder.known(name) is not None


def fold(node: onnx.NodeProto, builder: GraphBuilder) -> list[np.ndarray]:
    """Values of the node's outputs.

    Raises ModelError where the reference cannot compute them, or only at a cost that the builder's
    budget does not allow.
    """
    if node.op_type in ("Shape", "Size"):
        return [_shape(node, builder)]
    if node.op_type == "Constant":
        return [_constant(node, builder)]
    feeds = {name: _given(name, builder) for name in node.input if name}
    _charge(node, [feeds.get(name) for name in node.input], builder)
    if node.op_type == "ConstantOfShape":
        return [_constant_of_shape(node, builder)]
    return _evaluated(node, feeds, builder)


def _given(name: str, builder: GraphBuilder) -> np.ndarray:
    """A constant as the model has it: of 16 bits where the graph computes in float32."""
    value = builder.known(builder.values[name])
    if value is None:
        raise builder.error(f"its input {name!r} is no constant")
    return value.astype(builder.types[name]) if name in builder.types else value


def _charge(node: onnx.NodeProto, values: list[np.ndarray | None], builder: GraphBuilder) -> None:
    """Refuse what would be too large, before any of it is allocated."""
    size = constant_size(node, values)
    if not size <= LARGEST_SIZE:
        raise builder.error(f"a constant of {size:.4g} elements; at most {LARGEST_SIZE} fit")
    try:
        builder.budget.charge(size * LARGEST_ITEM, operations(node, values, size))
    except BudgetError as error:
        raise builder.error(str(error)) from error


def _evaluated(
    node: onnx.NodeProto, feeds: dict[str, np.ndarray], builder: GraphBuilder
) -> list[np.ndarray]:
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
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:  # the reference raises whatever numpy or it finds wrong
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise builder.error(f"constant inputs that do not evaluate ({reason})") from error
    if node.op_type == "Clip":  # numpy broadcasts it with bounds of shape [1]
        x = feeds[node.input[0]]
        if results[0].size != x.size:
            raise builder.error("bounds of more than one value")
        return [results[0].reshape(x.shape)]
    return [np.asarray(result) for result in results]


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
