"""Checks of a model's names and nodes before an importer sees them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from autoq.errors import ModelError
from autoq.frontend.builder import GraphBuilder
from autoq.frontend.nodes import default_domain, in_order, model_nodes
from autoq.frontend.read import array_of
from autoq.graph.shapes import check_size


def require_sound(model: onnx.ModelProto, source: str) -> None:
    """Raise ModelError for what no runtime takes, in a model that is rewritten and not imported.

    That is what `check_names` finds, nodes that read what follows from them or that ONNX's schemas
    refuse, functions that call themselves, no outputs, initializers whose bytes do not fit their
    shape, and inputs that are too large or of unknown types. `source` names the model in messages.
    """
    graph = model.graph
    check_names(graph, source)
    if not graph.output:
        raise ModelError(f"{source}: the graph has no outputs")
    for value in graph.input:
        _require_known(value, source)
    for initializer in graph.initializer:
        if initializer.data_type != onnx.TensorProto.STRING:
            array_of(initializer, source)
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {entry.domain: entry.version for entry in model.opset_import}
    nodes = model_nodes(model, source) if model.functions else in_order(graph.node, source)
    for node in nodes:
        outside = default_domain(node) or any(a.HasField("g") for a in node.attribute)
        if not outside and (fault := _fault(node, context)):
            raise ModelError(f"{source}: node {node.name or node.output[0]!r}: {fault}")


def _require_known(value: onnx.ValueInfoProto, source: str) -> None:
    """Raise ModelError for an input of a type that ONNX does not know, or of too many elements."""
    tensor = value.type.tensor_type
    if tensor.elem_type not in onnx.TensorProto.DataType.values():
        raise ModelError(
            f"{source}: input {value.name!r} of the unknown element type {tensor.elem_type}; "
            "export the model again"
        )
    try:
        check_size(tuple(dim.dim_value or 1 for dim in tensor.shape.dim))
    except ValueError as error:
        raise ModelError(f"{source}: input {value.name!r}: {error}") from error


def check_names(graph: onnx.GraphProto, source: str) -> None:
    """Raise ModelError where a name stands for two tensors, or an output is listed twice."""
    initializers = [tensor.name for tensor in graph.initializer]
    constants = set(initializers)
    inputs = [value.name for value in graph.input]
    written = [name for node in graph.node for name in node.output if name]
    _distinct(initializers, source, "initializer", "given")
    _distinct(inputs, source, "input", "declared")
    _distinct((value.name for value in graph.output), source, "output", "listed")
    given = [*(name for name in inputs if name not in constants), *initializers]
    _distinct([*given, *written], source, "tensor", "written")


def _distinct(names: Iterable[str], source: str, kind: str, verb: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{source}: {kind} {name!r} is {verb} twice; give each its own name")
        seen.add(name)


def check_node(
    node: onnx.NodeProto, context: onnx.checker.C.CheckerContext, b: GraphBuilder
) -> None:
    """Required attributes and inputs, and the types of attributes, by onnx's own schemas."""
    if fault := _fault(node, context):
        raise b.error(fault)


def _fault(node: onnx.NodeProto, context: onnx.checker.C.CheckerContext) -> str:
    """What onnx's own schemas find wrong with a node of its default domain, "" for nothing.

    An operator of onnxruntime alone in that domain has no schema.
    """
    if not onnx.defs.has(node.op_type):
        return ""
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as error:
        return f"{str(error).splitlines()[0]}; export the model again"
    return ""
