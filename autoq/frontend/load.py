"""From an ONNX file to the semantic graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx

import autoq.frontend.operators  # noqa: F401  (fills the registry)
from autoq.errors import AutoqError, ModelError
from autoq.frontend.builder import GraphBuilder
from autoq.frontend.checks import check_names, check_node
from autoq.frontend.fold import FOLDED, fold, is_foldable
from autoq.frontend.inputs import InputShapes, declare_inputs, dtype_name
from autoq.frontend.nodes import default_domain, in_order, model_nodes, names_read
from autoq.frontend.number_types import DOUBLE, HALVES, result_type
from autoq.frontend.problems import Problems
from autoq.frontend.read import array_of, check_model, read_model
from autoq.frontend.registry import OPERATORS, OnnxNode
from autoq.frontend.sparse_initializers import with_dense_initializers
from autoq.graph.folding_budget import FoldingBudget
from autoq.graph.ir import Graph, Operation
from autoq.graph.shapes import check_size

_MALFORMED = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError,
)  # fmt: skip
"""What an importer stumbles over a malformed node with."""


def load(path: str | os.PathLike[str], input_shapes: InputShapes | None = None) -> Graph:
    """The semantic graph of the ONNX model in `path`.

    input_shapes gives every size of inputs that the model leaves open, e.g.
    `{"data": (1, 3, 224, 224)}`. QOperator nodes come out as DequantizeLinear, a float operator
    and QuantizeLinear, so that both quantised forms share every later pass.
    Raises ModelError for a model that cannot be read or holds something unsupported, InputError
    for input_shapes that do not fit.
    """
    return from_model(read_model(path), str(path), input_shapes)


def from_model(
    model: onnx.ModelProto,
    source: str = "model",
    input_shapes: InputShapes | None = None,
    budget: FoldingBudget | None = None,
) -> Graph:
    """As `load`, for a model already in memory; `source` names it in messages.

    `budget` is what folding constants may cost, by default in proportion to the model's constants.
    """
    model = with_dense_initializers(model, source)
    check_model(model, source)
    check_names(model.graph, source)
    opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
    graph = model.graph
    arrays = _initializers(graph, source)
    budget = budget or FoldingBudget.for_constants(arrays.values())
    builder = GraphBuilder(source, graph.name, opset, budget)
    builder.reserved = {v.name for v in (*graph.input, *graph.output)}
    nodes = model_nodes(model, source)
    builder.used = {name for node in nodes for name in names_read(node)}
    builder.used |= {output.name for output in graph.output}
    problems = Problems(source)
    declare_inputs(builder, graph, set(arrays), input_shapes or {}, problems)
    for name, value in arrays.items():
        builder.add_value(name, value)
    _import_nodes(builder, nodes, problems)
    problems.raise_found()
    _finish(builder, graph)
    return builder.graph


def _initializers(graph: onnx.GraphProto, source: str) -> dict[str, np.ndarray]:
    return {tensor.name: array_of(tensor, source) for tensor in graph.initializer}


def _import_nodes(b: GraphBuilder, nodes: Sequence[onnx.NodeProto], problems: Problems) -> None:
    """Import nodes one by one; what is wrong with any of them is noted among the problems."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {"": b.opset}
    for proto in nodes:
        b.begin(proto)
        unknown = not problems.unknown.isdisjoint(names_read(proto))
        operator = (default_domain(proto), proto.op_type)
        is_known = operator in OPERATORS or (not operator[0] and operator[1] in FOLDED)
        try:
            if proto.op_type == "If" and not unknown and default_domain(proto) == "":
                _import_branch(proto, b, problems)
            elif not unknown and is_foldable(proto, b):
                check_node(proto, context, b)
                for name, value in zip(proto.output, fold(proto, b), strict=False):
                    if name:
                        b.add_value(name, value)
            elif not is_known or (not unknown and operator not in OPERATORS):
                problems.add_operator(proto)
                unknown = True
            elif not unknown:
                _import_node(proto, context, b)
        except AutoqError as error:
            problems.add(error)
            unknown = True
        except _MALFORMED as error:
            # What a malformed node makes its importer stumble over names the node.
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            kind = type(error).__name__
            problems.add(b.error(f"malformed ({kind}: {reason}); export it again"))
            unknown = True
        if unknown:
            problems.unknown.update(proto.output)


def _import_branch(proto: onnx.NodeProto, b: GraphBuilder, problems: Problems) -> None:
    """Import the branch that an If with a constant condition takes."""
    name = b.values.get(proto.input[0])
    if name is None or name not in b.graph.constants:
        raise b.error("a condition that a run gives; export without control flow")
    taken = "then_branch" if b.graph.constants[name].reshape(()) else "else_branch"
    (branch,) = (attribute.g for attribute in proto.attribute if attribute.name == taken)
    for tensor in branch.initializer:
        b.add_value(tensor.name, array_of(tensor, b.source))
    _import_nodes(b, in_order(branch.node, b.source), problems)
    b.begin(proto)
    for output, value in zip(proto.output, branch.output, strict=True):
        if value.name in problems.unknown:
            problems.unknown.add(output)
            continue
        b.values[output] = b.values[value.name]
        if value.name in b.types:
            b.types[output] = b.types[value.name]


def _import_node(
    proto: onnx.NodeProto, context: onnx.checker.C.CheckerContext, b: GraphBuilder
) -> None:
    domain = default_domain(proto)
    if not domain:
        check_node(proto, context, b)
    node = OnnxNode.read(proto, b)
    if b.reads_doubles():
        inputs = tuple(name if name is None else b.computed(name) for name in node.inputs)
        node = replace(node, inputs=inputs)
    written = len(b.graph.nodes)
    results = OPERATORS[domain, proto.op_type](node, b)
    results = [results] if isinstance(results, str) else results
    for name, result in zip(node.outputs, results, strict=False):
        b.values[name] = result
    _mark_types(proto, b, written)
    for name in node.outputs[len(results) :]:
        if name and name in b.used:
            raise b.error(f"its output {name!r} is used; only the first one is supported")


def _mark_types(proto: onnx.NodeProto, b: GraphBuilder, written: int) -> None:
    """Note outputs of types that the graph computes in others, and products of 16-bit floats.

    written: how many nodes the graph had before.
    """
    to = next((dtype_name(a.i) for a in proto.attribute if a.name == "to"), None)
    if proto.op_type == "CastLike":
        to = b.types.get(proto.input[1])
    given = [b.types.get(name) for name in proto.input]
    for name in proto.output:
        found = None
        if name in b.values:
            found = result_type(proto, b.dtype(b.values[name]), given, to)
        if found is not None:
            b.types[name] = found
    half = next((dtype for dtype in (to, *given) if dtype in HALVES), None)
    if half is None:
        return
    for node in b.graph.nodes[written:]:
        if isinstance(node, Operation) and node.op in ("Conv", "Gemm", "MatMul"):
            node.attributes["floats"] = half


def _finish(b: GraphBuilder, graph: onnx.GraphProto) -> None:
    """Give the outputs their ONNX names; an input or constant that is an output is copied."""
    if not graph.output:
        raise ModelError(f"{b.source}: the graph has no outputs")
    renamed: dict[str, str] = {}
    for value in graph.output:
        name = b.values.get(value.name)
        if name is None:
            raise ModelError(f"{b.source}: output {value.name!r} is made by no node")
        if name == value.name:
            raise ModelError(f"{b.source}: output {name!r} is an input of the graph; remove it")
        if name in b.graph.inputs or name in b.graph.constants or name in renamed:
            name = b.emit("Identity", [name])
        if b.types.get(value.name) == DOUBLE:
            raise ModelError(f"{b.source}: output {value.name!r} of float64; cast it to float32")
        if value.name in b.types:
            name = b.emit("Cast", [name], b.types[value.name])
        renamed[name] = value.name
        try:
            check_size(b.graph.shape(name))
        except ValueError as error:
            raise ModelError(f"{b.source}: output {value.name!r}: {error}") from error
    for old, new in renamed.items():
        b.graph.tensors[new] = replace(b.graph.tensors.pop(old), name=new)
    for node in b.graph.operations:
        node.inputs = tuple(renamed.get(name, name) for name in node.inputs)
        node.output, *further = (renamed.get(name, name) for name in node.outputs)
        node.further_outputs = tuple(further)
    b.graph.outputs = tuple(renamed.values())
