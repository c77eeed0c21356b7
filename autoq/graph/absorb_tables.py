"""Let convolutions and matrix products look their outputs up in the table that follows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.graph.ir import Graph, Kernel
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.registry import matching
from autoq.templates.target import Target

_BYTES = ("int8", "uint8")


def absorb_tables(graph: Graph, target: Target) -> None:
    """Fuse each Lookup into the integer product in front of it that nothing else reads.

    Only where a template of the target computes the product with a table.
    """
    producers, consumers = graph.producers(), graph.consumers()
    replaced: dict[int, Kernel] = {}
    for node in graph.nodes:
        if not isinstance(node, Kernel) or not isinstance(node.workload, Lookup):
            continue
        product = producers.get(node.inputs[0])
        alone = len(consumers[node.inputs[0]]) == 1 and node.inputs[0] not in graph.outputs
        if alone and isinstance(product, Kernel):
            fused = _fused(product, node, target)
            if fused is not None:
                replaced[id(product)] = fused
                replaced[id(node)] = fused
                del graph.tensors[node.inputs[0]]
    placed: dict[int, Kernel] = {}
    nodes = []
    for node in graph.nodes:
        fused = replaced.get(id(node))
        if fused is None:
            nodes.append(node)
        elif id(fused) not in placed:
            placed[id(fused)] = fused
            nodes.append(fused)
    graph.nodes = nodes


def _fused(product: Kernel, lookup: Kernel, target: Target) -> Kernel | None:
    workload = product.workload
    if not isinstance(workload, Conv2d | Gemm) or workload.in_dtype == "float32":
        return None
    epilogue, dtype = workload.epilogue, lookup.workload.out_dtype
    if epilogue.table or epilogue.out_dtype not in _BYTES or dtype not in _BYTES:
        return None
    with_table = replace(workload, epilogue=replace(epilogue, out_dtype=dtype, table=True))
    if not matching(with_table, target):
        return None
    table = np.asarray(lookup.operands["table"])
    scalars = np.array(product.operands["scalars"], np.float32)
    if epilogue.out_dtype != dtype:  # what selects an entry takes the output's sign
        scalars[SCALAR_NAMES.index("zero_point")] += 128 if dtype == "uint8" else -128
        table = np.roll(table, 128)
    operands = {**product.operands, "scalars": scalars, "table": table}
    covers = tuple(dict.fromkeys((*product.covers, *lookup.covers)))
    return Kernel(
        with_table, operands, product.inputs, lookup.output, covers, product.float_reason,
        product.weight_values,
    )  # fmt: skip
