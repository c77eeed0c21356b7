"""Checks of a model's names and nodes before an importer sees them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from autoq.errors import ModelError
from autoq.frontend.builder import GraphBuilder


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
    """Required attributes and inputs, and the types of attributes, by onnx's own schemas.

    An operator of onnxruntime alone in the default domain has none.
    """
    if not onnx.defs.has(node.op_type):
        return
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as error:
        raise b.error(f"{str(error).splitlines()[0]}; export the model again") from error
