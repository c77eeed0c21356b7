"""The nodes of a model as importers take them: functions inlined, in an order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from onnx import inliner

from autoq.errors import ModelError
from autoq.frontend.constant_size import COMPUTED
from autoq.frontend.registry import OPERATORS


def model_nodes(model: onnx.ModelProto, source: str) -> list[onnx.NodeProto]:
    """The nodes of a model; those that are functions, its own or ONNX's, give way to their bodies.

    Of ONNX's, functions are only operators without an importer. Raises ModelError where functions
    cannot be inlined, or where nodes read one another's outputs in a circle.
    """
    return in_order(_inlined(model, source), source)


def default_domain(node: onnx.NodeProto) -> str:
    """The domain of a node, "" for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain


def names_read(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node reads, those that its subgraphs take from around them included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {tensor.name for tensor in graph.initializer}
            own |= {value.name for value in graph.input}
            own |= {name for inner in graph.node for name in inner.output}
            found = [name for inner in graph.node for name in names_read(inner)]
            found += [value.name for value in graph.output]
            names += [name for name in found if name not in own]
    return names


def in_order(nodes: Iterable[onnx.NodeProto], source: str) -> list[onnx.NodeProto]:
    """Nodes behind those whose outputs they read, otherwise in their given order."""
    given = list(nodes)
    writer = {name: node for node in given for name in node.output if name}
    done: set[int] = set()
    entered: set[int] = set()
    ordered: list[onnx.NodeProto] = []
    for first in given:
        pending = [first]
        while pending:
            node = pending[-1]
            if id(node) in done:
                pending.pop()
                continue
            before = [writer[name] for name in names_read(node) if name in writer]
            missing = [other for other in before if id(other) not in done]
            if not missing:
                done.add(id(node))
                ordered.append(node)
                pending.pop()
                continue
            if id(node) in entered:
                name = node.name or node.output[0]
                raise ModelError(
                    f"{source}: node {name!r} reads what follows from it; export again"
                )
            entered.add(id(node))
            pending += reversed(missing)
    return ordered


def _inlined(model: onnx.ModelProto, source: str) -> Sequence[onnx.NodeProto]:
    functions = sorted(_function_operators(model))
    if not functions and not model.functions:
        return model.graph.node
    outline = _outline(model)
    try:
        if model.functions:
            outline = inliner.inline_local_functions(outline, convert_version=True)
            functions = sorted(_function_operators(outline))
        if functions:
            outline = inliner.inline_selected_functions(outline, functions, False, True)
    except Exception as error:  # the inliner raises whatever its C++ finds wrong
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            f"{source}: functions that cannot be inlined ({reason}); inline them on export"
        ) from error
    return outline.graph.node


def _function_operators(model: onnx.ModelProto) -> set[tuple[str, str]]:
    """ONNX's operators without importers among the nodes whose bodies its schemas give."""
    opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
    wanted = {node.op_type for node in model.graph.node if default_domain(node) == ""}
    return {("", op) for op in wanted if _gives_way(op, opset)}


def _gives_way(op: str, opset: int) -> bool:
    """Whether ONNX defines an operator of its default domain by others, and nothing else knows it.

    What is computed of constants alone is known.
    """
    if ("", op) in OPERATORS or op in COMPUTED:
        return False
    try:
        schema = onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def _complete(node: onnx.NodeProto, opset: int) -> onnx.NodeProto:
    """A node of an operator that gives way to its body, with the attributes that it leaves out."""
    op = node.op_type
    if default_domain(node) or not _gives_way(op, opset):
        return node
    given = {attribute.name for attribute in node.attribute}
    complete = onnx.NodeProto()
    complete.CopyFrom(node)
    complete.attribute.extend(
        attribute.default_value
        for name, attribute in onnx.defs.get_schema(op, opset).attributes.items()
        if name not in given and attribute.default_value.name
    )
    return complete


def _outline(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the values of its initializers, which may be gigabytes."""
    graph = onnx.GraphProto(name=model.graph.name)
    opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
    graph.node.extend(_complete(node, opset) for node in model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    declared = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    graph.value_info.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in model.graph.initializer
        if tensor.name not in declared
    )
    outline = onnx.ModelProto(ir_version=model.ir_version, graph=graph)
    outline.opset_import.extend(model.opset_import)
    outline.functions.extend(model.functions)
    return outline
