"""How long a pruned layer may take, estimated: nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoq import frontend, graph
from autoq.graph.ir import Layer
from autoq.templates.registry import matching
from autoq.templates.sparse.pruned_matrix import (
    TWO_OF_FOUR,
    Blocks,
    Pruned,
    TileWise,
    Vectors,
)
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def dense_seconds(
    model: Any, target: Target, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, float]:
    """Estimated seconds of each layer of a dense model by the ONNX nodes that it stands for.

    They are the estimate of the template that is used untuned, else the roofline; layers of which
    neither is known are missing. Raises ModelError or InputError for a model that autoq cannot
    compile.
    """
    optimised = graph.optimise(frontend.load(model, input_shapes), target)
    found: dict[str, float] = {}
    known: dict[Workload, float] = {}
    for layer in optimised.nodes:
        if not isinstance(layer, Layer):
            continue
        if layer.workload not in known:
            known[layer.workload] = _seconds(layer.workload, target)
        if known[layer.workload]:
            found |= dict.fromkeys(layer.covers, known[layer.workload])
    return found


def work_share(structure: Pruned) -> float:
    """The share of a dense product's work that is left to tensor cores of the structure.

    Of 2:4 that is half. Single weights, other vectors and a tile-wise matrix's remainder save
    tensor cores nothing or are none of theirs: they count as dense, and the remainder not at all.
    """
    if isinstance(structure, TileWise):
        size = structure.shape[0] * structure.shape[1]
        tiles = sum(len(tile.rows) * len(tile.columns) for tile in structure.tiles)
        return tiles / size * (0.5 if structure.vector == TWO_OF_FOUR else 1.0)
    if isinstance(structure, Blocks):
        return structure.stored / structure.mask.size
    if isinstance(structure, Vectors) and structure.vector == TWO_OF_FOUR:
        return 0.5
    return 1.0


def _seconds(workload: Workload, target: Target) -> float:
    """Seconds of the kernel that is used untuned; 0 where nothing is known."""
    templates = matching(workload, target)
    if templates and templates[0].estimate is not None:
        config = templates[0].default(workload, target)
        return templates[0].estimate(workload, config, target)
    return target.roofline_seconds(workload.operations_by_dtype, workload.bytes)
