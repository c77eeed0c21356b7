"""Operations of the graph after fusion: one for each kernel, still in ONNX's logical NCHW layout.

Each carries a workload's fields but the layout: `lower` adds that. Their `op` is one of FUSED.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autoq.graph.ir import Operation
from autoq.templates.epilogue import INTEGER_RANGE

CONV, GEMM, POOL, ADD, CONCAT = (
    "kernel.conv",
    "kernel.gemm",
    "kernel.pool",
    "kernel.add",
    "kernel.concat",
)
QUANTIZE, DEQUANTIZE, PROGRAM = "kernel.quantize", "kernel.dequantize", "kernel.program"

FUSED = (CONV, GEMM, POOL, ADD, CONCAT, QUANTIZE, DEQUANTIZE, PROGRAM)


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

        Rounding is monotone, so clamping before or after it is the same.
        """
        least, most = INTEGER_RANGE[self.dtype]
        low, high = float(least - self.zero_point), float(most - self.zero_point)
        if bounds.low > -math.inf:
            low = max(low, float(np.rint(np.float32(bounds.low) / self.scale)))
        if bounds.high < math.inf:
            high = min(high, float(np.rint(np.float32(bounds.high) / self.scale)))
        return low, max(high, low)


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
