"""Rows of constant tables that are quantised behind a gather are bytes in the table already.

An embedding of a quantised model looks floats up and rounds them. Rounded when the model is
compiled, the table is a quarter of its size, and so is what is read of it. Indices are read as the
model gives them, without a kernel that makes them shorter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from autoq.graph.ir import Fusion, Graph, Node
from autoq.graph.lowering.cuda.gathered import gathered_fusion, moved
from autoq.graph.primitive_numpy import PRIMITIVES
from autoq.templates.cuda.movement.gathered_rows import INDICES
from autoq.templates.target import Target

_BYTES = ("int8", "uint8")


def merge_gathers(graph: Graph, target: Target) -> None:
    """Round tables in front of gathers, and read indices of any type, on a GPU."""
    if target.kind != "cuda":
        return
    producers = graph.producers()
    for at, node in enumerate(graph.nodes):
        if isinstance(node, Fusion) and gathered_fusion(node) is not None:
            graph.nodes[at] = _with_indices(_with_bytes(node), producers)
    readers = Counter(name for node in graph.nodes for name in node.inputs) + Counter(graph.outputs)
    graph.nodes = [node for node in graph.nodes if not _is_cast(node) or readers[node.outputs[0]]]


def _with_bytes(node: Fusion) -> Fusion:
    """The fusion over a table of bytes, where its rows are quantised and nothing else."""
    given = len(node.inputs) + len(node.constants)
    gather = next(at for at, one in enumerate(node.primitives) if one.op == "Gather")
    readers = [at for at, one in enumerate(node.primitives) if given + gather in one.arguments]
    table = node.primitives[gather].arguments[0] - len(node.inputs)
    (rounds, *others) = readers
    last = node.primitives[rounds]
    if (
        others
        or last.op != "quantize"
        or last.dtype not in _BYTES
        or rounds + 1 == len(node.primitives)
    ):
        return node
    constants = list(node.constants)
    constants[table] = PRIMITIVES["quantize"](last, constants[table]).astype(last.dtype)
    places = {at: at - (at > given + rounds) for at in range(given + len(node.primitives))}
    places[given + rounds] = given + gather
    primitives = [one for at, one in enumerate(node.primitives) if at != rounds]
    primitives[gather] = replace(primitives[gather], dtype=last.dtype)
    both = replace(node, primitives=moved(primitives, places), constants=tuple(constants))
    return both if gathered_fusion(both) is not None else node


def _with_indices(node: Fusion, producers: dict[str, Node]) -> Fusion:
    """The fusion over the indices that a kernel in front only makes integers of another size."""
    found = gathered_fusion(node)
    behind = producers.get(node.inputs[found.indices]) if found is not None else None
    if found is None or behind is None or not _is_cast(behind) or not isinstance(behind, Fusion):
        return node
    inputs, dtypes = list(node.inputs), list(node.input_dtypes)
    inputs[found.indices], dtypes[found.indices] = behind.inputs[0], behind.input_dtypes[0]
    return replace(node, inputs=tuple(inputs), input_dtypes=tuple(dtypes))


def _is_cast(node: Node) -> bool:
    """Whether it makes integers of another size of integers, which it keeps as they lie."""
    if not isinstance(node, Fusion) or len(node.primitives) != 1 or node.quantised:
        return False
    (only,) = node.primitives
    alike = node.input_shapes == (node.output_shape,)
    return only.op == "Cast" and alike and {only.dtype, *node.input_dtypes} <= {*INDICES}
