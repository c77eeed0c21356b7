"""Operations of the graph after fusion: one for each kernel, still in ONNX's logical NCHW layout.

Each carries a workload's fields but the layout: `lower` adds that. Their `op` is one of FUSED.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autoq.graph.ir import Graph, Operation
from autoq.templates.arrays.element import INTEGER_RANGE

CONV, GEMM, POOL, ADD, CONCAT = (
    "fused.conv",
    "fused.gemm",
    "fused.pool",
    "fused.add",
    "fused.concat",
)
QUANTIZE, DEQUANTIZE, FUSION = "fused.quantize", "fused.dequantize", "fused.primitives"
TABLE = "fused.table"
BATCHED = "fused.batched"
"""Products of two activations: its attributes are a workload without its epilogue's constants."""
WORKLOAD = "fused.workload"
"""Any workload as it stands, in the attributes `workload` and `constants`, over arrays in the plain
layout, or that of the attribute `layout`; its outputs may be several."""

FUSED = (CONV, GEMM, BATCHED, POOL, ADD, CONCAT, QUANTIZE, DEQUANTIZE, FUSION, TABLE, WORKLOAD)


LARGEST_SCALE = 2.0**40
"""Kernels take scales from 1 / LARGEST_SCALE to LARGEST_SCALE: quotients of two are then ordinary
float32 numbers, and no dequantised value overflows. ONNX's arithmetic does the rest in float32."""


@dataclass(frozen=True)
class Scheme:
    """Quantisation of one tensor: `real = (integer - zero_point) * scale`, float32 scale."""

    scale: np.float32
    zero_point: int
    dtype: str

    @classmethod
    def of(cls, node: Operation, dtype: str) -> Scheme:
        """The scheme of a per-tensor QuantizeLinear or DequantizeLinear over integers `dtype`."""
        attributes = node.attributes
        return cls(np.float32(attributes["scale"]), int(attributes["zero_point"]), dtype)

    def bounds(self, bounds: Bounds) -> tuple[float, float]:
        """(low, high) of `rint(real / scale)`, before the zero point is added.

        Rounding is monotone, so clamping before or after it is the same. Both are in the dtype's
        range, also where all of the clamp lies outside it.
        """
        least, most = (float(end - self.zero_point) for end in INTEGER_RANGE[self.dtype])
        with np.errstate(over="ignore"):  # an infinite quotient is clamped like any other
            ends = [np.rint(np.float32(end) / self.scale) for end in (bounds.low, bounds.high)]
        low, high = (min(max(float(end), least), most) for end in ends)
        return low, high


def scheme_of(graph: Graph, node: Operation) -> Scheme | None:
    """The scheme by which a QuantizeLinear writes, or a DequantizeLinear reads, its integers.

    None where no kernel computes with it: a scheme for each channel, integers other than
    activations, or a scale beyond LARGEST_SCALE.
    """
    integers = node.output if node.op == "QuantizeLinear" else node.inputs[0]
    dtype = graph.dtype(integers)
    if node.attributes["axis"] is not None or dtype not in INTEGER_RANGE:
        return None
    scheme = Scheme.of(node, dtype)
    return scheme if 1 / LARGEST_SCALE <= scheme.scale <= LARGEST_SCALE else None


def same_scheme(graph: Graph, a: Operation, b: Operation) -> bool:
    """Whether two (De)QuantizeLinear operations have one scheme: scale, zero point and dtype.

    A DequantizeLinear then undoes a QuantizeLinear, and the other way round: every pass asks here.
    """
    scheme = scheme_of(graph, a)
    return scheme is not None and scheme == scheme_of(graph, b)


@dataclass(frozen=True)
class Bounds:
    """A clamp of real values: what Relu and Clip come to."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def free(self) -> bool:
        return self.low == -math.inf and self.high == math.inf

    def then(self, node: Operation) -> Bounds:
        """This clamp followed by a Relu or Clip operation."""
        low, high = 0.0, math.inf
        if node.op == "Clip":
            low, high = node.attributes["low"], node.attributes["high"]
        new_low = min(max(self.low, low), high)
        return Bounds(new_low, max(min(self.high, high), new_low))
