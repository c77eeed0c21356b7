"""Choose how 4-bit tensors lie in memory: two values a byte where kernels take them, else one.

The numbers are the same: clamp bounds and zero points are those of the 4-bit type either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoq.graph.ir import Fusion, Graph, Layer
from autoq.templates.arrays.storage import BYTE_DTYPES
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def choose_storage(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Give every 4-bit buffer, and the layers over it, the dtype that it is stored in.

    A layer that no template computes over packed tensors gets all of its tensors one value a
    byte, and so on for their other readers and writers. Inputs and outputs of the graph are never
    packed, nor is what a fusion touches.
    """
    four_bit = {name for name, tensor in graph.tensors.items() if tensor.dtype in BYTE_DTYPES}
    wide = four_bit & _never_packed(graph)
    layers = [node for node in graph.nodes if isinstance(node, Layer)]
    refused: set[str] | None = None
    while refused is None or refused:
        refused = set()
        for layer in layers:
            packed = {*layer.inputs, *layer.outputs} & four_bit - wide
            workload = _workload(graph, layer, wide, target, templates)
            if packed and not matching(workload, target, templates):
                refused |= packed
        wide |= refused
    for layer in layers:
        layer.workload = _workload(graph, layer, wide, target, templates)
    for node in graph.nodes:
        if isinstance(node, Fusion):
            _widen_fusion(node)
    for name in wide:
        tensor = graph.tensors[name]
        graph.tensors[name] = replace(tensor, dtype=BYTE_DTYPES[tensor.dtype], values=tensor.dtype)


def layers_by_storage(graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the layers over 4-bit values: those that hold all of them packed, and the others."""
    packed: list[str] = []
    wide: list[str] = []
    for node in graph.nodes:
        tensors = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
        pairs = [(tensor.value_dtype, tensor.dtype) for tensor in tensors]
        weight = node.workload.constant("weight") if isinstance(node, Layer) else None
        if isinstance(node, Layer) and weight is not None:
            pairs.append((node.weight_values, weight.dtype))
        pairs = [(values, stored) for values, stored in pairs if values in BYTE_DTYPES]
        if pairs:
            whole = all(values == stored for values, stored in pairs)
            (packed if whole else wide).append(node.name)
    return tuple(packed), tuple(wide)


def _never_packed(graph: Graph) -> set[str]:
    """Tensors at the graph's ends, under fusions, and read in rows that end within a byte."""
    names = {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        if isinstance(node, Fusion):
            names.update((*node.inputs, *node.outputs))
        elif isinstance(node, Layer):
            shapes = (*node.input_shapes, *node.output_shapes)
            for name, shape in zip((*node.inputs, *node.outputs), shapes, strict=True):
                rows = {shape[-1:], graph.shape(name)[-1:]}
                if len(rows) > 1 and any(size % 2 for row in rows for size in row):
                    names.add(name)
    return names


def _workload(
    graph: Graph, layer: Layer, wide: set[str], target: Target, templates: Sequence[Template]
) -> Workload:
    """The layer's workload with the tensors `wide` in bytes.

    4-bit weights are held in bytes too unless the preferred template keeps them packed: then the
    layer shares kernels and records with those of 8-bit weights.
    """
    names: Sequence[str] = (*layer.inputs, *layer.outputs)
    dtypes = [
        BYTE_DTYPES.get(dtype, dtype) if name in wide else dtype
        for name, dtype in zip(names, map(graph.dtype, names), strict=True)
    ]
    given = len(layer.inputs)
    workload = layer.workload.retyped(dtypes[:given], dtypes[given:])
    weight = workload.constant("weight")
    if weight is None or weight.dtype not in BYTE_DTYPES:
        return workload
    matches = matching(workload, target, templates)
    if matches and matches[0].keeps_nibbles:
        return workload
    return workload.with_constant("weight", BYTE_DTYPES[weight.dtype]) or workload


def _widen_fusion(node: Fusion) -> None:
    """Give a fusion's inputs, constants and primitives whole bytes."""
    node.input_dtypes = tuple(BYTE_DTYPES.get(dtype, dtype) for dtype in node.input_dtypes)
    node.primitives = tuple(
        replace(primitive, dtype=BYTE_DTYPES.get(primitive.dtype, primitive.dtype))
        for primitive in node.primitives
    )
    node.constants = tuple(
        array.astype(BYTE_DTYPES.get(str(array.dtype), array.dtype)) for array in node.constants
    )
