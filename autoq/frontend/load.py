"""From an ONNX file to the semantic graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral

import numpy as np
import onnx

import autoq.frontend.operators  # noqa: F401  (fills the registry)
from autoq.errors import AutoqError, InputError, ModelError
from autoq.frontend.builder import HALVES, GraphBuilder
from autoq.frontend.checks import check_names, check_node
from autoq.frontend.fold import fold, is_foldable
from autoq.frontend.read import CUSTOM_DOMAINS, array_of, check_model, read_model
from autoq.frontend.registry import OPERATORS, OnnxNode, supported
from autoq.graph.folding_budget import FoldingBudget
from autoq.graph.ir import Graph

_MALFORMED = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError,
)  # fmt: skip
"""What an importer stumbles over a malformed node with."""

InputShapes = Mapping[str, Sequence[int]]

INPUT_DTYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "int4", "uint4", "int32")


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
    check_model(model, source)
    check_names(model.graph, source)
    opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
    graph = model.graph
    arrays = _initializers(graph, source)
    budget = budget or FoldingBudget.for_constants(arrays.values())
    builder = GraphBuilder(source, graph.name, opset, budget)
    builder.reserved = {v.name for v in (*graph.input, *graph.output)}
    builder.used = {name for node in graph.node for name in node.input}
    builder.used |= {output.name for output in graph.output}
    _declare_inputs(builder, graph, set(arrays), input_shapes or {})
    for name, value in arrays.items():
        builder.add_value(name, value)
    _import_nodes(builder, graph)
    _finish(builder, graph)
    return builder.graph


def _initializers(graph: onnx.GraphProto, source: str) -> dict[str, np.ndarray]:
    return {tensor.name: array_of(tensor, source) for tensor in graph.initializer}


def _declare_inputs(
    b: GraphBuilder, graph: onnx.GraphProto, constants: set[str], shapes: InputShapes
) -> None:
    inputs = [value for value in graph.input if value.name not in constants]
    names = [value.name for value in inputs]
    if not isinstance(shapes, Mapping):
        raise InputError(f"--input-shapes {shapes!r:.80}: shapes by the names of inputs do")
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise InputError(
            f"--input-shapes: {b.source} has no input {unknown[0]!r}; its inputs are "
            f"{', '.join(names)}"
        )
    for value in inputs:
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or tensor.elem_type == 0:
            raise ModelError(f"{b.source}: input {value.name!r} is not a tensor")
        dtype = _dtype(tensor.elem_type)
        if dtype not in INPUT_DTYPES:
            raise ModelError(
                f"{b.source}: input {value.name!r} of {dtype}; "
                f"{', '.join(INPUT_DTYPES)} are supported"
            )
        b.add_input(value.name, _input_shape(b, value, shapes.get(value.name)), dtype)


def _dtype(element_type: int) -> str:
    try:
        return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type)))
    except (KeyError, TypeError):
        return f"the unknown element type {element_type}"


def _input_shape(
    b: GraphBuilder, value: onnx.ValueInfoProto, given: Sequence[int] | None
) -> tuple[int, ...]:
    declared = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else (dim.dim_param or "?")
        for dim in value.type.tensor_type.shape.dim
    ]
    has_shape = value.type.tensor_type.HasField("shape")
    text = "[" + ",".join(map(str, declared)) + "]"
    if given is None:
        if not has_shape or any(isinstance(size, str) for size in declared):
            example = ",".join("1" if isinstance(s, str) else str(s) for s in declared)
            raise ModelError(
                f"{b.source}: input {value.name!r} has the dynamic shape {text}; "
                f'give its sizes with --input-shapes "{value.name}:[{example}]"'
            )
        return tuple(int(size) for size in declared)
    if not isinstance(given, Sequence) or not all(isinstance(s, Integral) for s in given):
        raise InputError(f"--input-shapes: {given!r:.80} for {value.name!r}: integers are expected")
    sizes = tuple(int(size) for size in given)
    fits = not has_shape or (
        len(sizes) == len(declared)
        and all(
            isinstance(d, str) or d == s or i == 0
            for i, (d, s) in enumerate(zip(declared, sizes, strict=True))
        )
    )
    if not fits or min(sizes, default=1) < 1:
        raise InputError(
            f"--input-shapes: {list(sizes)} for {value.name!r} of {b.source}, whose shape is {text}"
        )
    return sizes


def _import_nodes(b: GraphBuilder, graph: onnx.GraphProto) -> None:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {"": b.opset}
    for proto in graph.node:
        b.begin(proto)
        try:
            if is_foldable(proto, b):
                check_node(proto, context, b)
                for name, value in zip(proto.output, fold(proto, b), strict=False):
                    if name:
                        b.add_value(name, value)
            else:
                _import_node(proto, context, b)
        except AutoqError:
            raise
        except _MALFORMED as error:
            # What a malformed node makes its importer stumble over names the node.
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            kind = type(error).__name__
            raise b.error(f"malformed ({kind}: {reason}); export it again") from error


def _import_node(
    proto: onnx.NodeProto, context: onnx.checker.C.CheckerContext, b: GraphBuilder
) -> None:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    function = OPERATORS.get((domain, proto.op_type))
    if function is None:
        kind = proto.op_type if not domain else f"{domain}.{proto.op_type}"
        known = f"; domains are the default one and {', '.join(CUSTOM_DOMAINS)}"
        raise b.error(f"operator {kind} is not supported; supported: {supported()}{known}")
    if not domain:
        check_node(proto, context, b)
    node = OnnxNode.read(proto, b)
    written = len(b.graph.nodes)
    results = function(node, b)
    results = [results] if isinstance(results, str) else results
    for name, result in zip(node.outputs, results, strict=False):
        b.values[name] = result
    _mark_halves(proto, b, written)
    for name in node.outputs[len(results) :]:
        if name and name in b.used:
            raise b.error(f"its output {name!r} is used; only the first one is supported")


def _mark_halves(proto: onnx.NodeProto, b: GraphBuilder, written: int) -> None:
    """Note which outputs of a node are floats of 16 bits, and the products that it wrote over them.

    Outputs of integers are not, also where the inputs are. written: how many operations the graph
    had before.
    """
    half = next((b.halves[name] for name in proto.input if name in b.halves), None)
    if proto.op_type == "Cast":
        (to,) = (_dtype(a.i) for a in proto.attribute if a.name == "to")
        half = to if to in HALVES else None
    if half is None:
        return
    for name in proto.output:
        if name in b.values and b.dtype(b.values[name]) == "float32":
            b.halves[name] = half
    for node in b.graph.operations[written:]:
        if node.op in ("Gemm", "MatMul"):
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
        if value.name in b.halves:
            name = b.emit("Cast", [name], b.halves[value.name])
        renamed[name] = value.name
    for old, new in renamed.items():
        b.graph.tensors[new] = replace(b.graph.tensors.pop(old), name=new)
    for node in b.graph.operations:
        node.inputs = tuple(renamed.get(name, name) for name in node.inputs)
        node.output = renamed.get(node.output, node.output)
    b.graph.outputs = tuple(renamed.values())
