"""The epilogue that computes a tail behind integer sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.graph.ir import Graph
from autoq.graph.passes.layers.epilogue_match import Tail
from autoq.templates.epilogue import Epilogue, pack_scalars


@dataclass(frozen=True)
class TailEpilogue:
    """An epilogue with its constants; scale is float32, None where sums are written as they are."""

    epilogue: Epilogue
    scale: np.ndarray | np.float32 | None
    scalars: np.ndarray


def epilogue_of(graph: Graph, tail: Tail, product: np.ndarray | np.float32) -> TailEpilogue:
    """What a kernel computes behind sums of products of the float32 step or steps `product`."""
    scalars: dict[str, float] = {}
    unit = np.float32(1) if tail.scheme is None else tail.scheme.scale
    scale = None if tail.sums else product / unit
    if tail.inner is not None:
        inner, inner_bounds = tail.inner
        scale = product / inner.scale
        low, high = inner.bounds(inner_bounds)
        scalars.update(accumulator_low=low, accumulator_high=high)
        scalars["accumulator_scale"] = float(inner.scale / unit)
    residual_dtype = None
    if tail.residual is not None:
        residual_dtype = graph.dtype(tail.residual)
        other = tail.residual_scheme
        other_scale = np.float32(1) if other is None else other.scale
        scalars["residual_scale"] = float(other_scale / unit)
        scalars["residual_zero_point"] = 0 if other is None else other.zero_point
    if tail.scheme is not None:
        scalars["low"], scalars["high"] = tail.scheme.bounds(tail.bounds)
        scalars["zero_point"] = tail.scheme.zero_point
    else:
        scalars.update(low=tail.bounds.low, high=tail.bounds.high)
    epilogue = Epilogue(graph.dtype(tail.output), residual_dtype, tail.inner is not None)
    return TailEpilogue(epilogue, scale, pack_scalars(**scalars))
