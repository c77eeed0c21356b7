"""The fused epilogue of a CPU convolution, one vector of output channels at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.requantize import clamped, requantised
from autoq.templates.cpu.vector import cast, splat, unfused
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue


def bind_scalars(scalars: Buffer) -> dict[str, Expr]:
    """Reads the `scalars` operand [8] once, by name."""
    return {name: T.bind(scalars[index]) for index, name in enumerate(SCALAR_NAMES)}


@dataclass(frozen=True)
class VectorEpilogue:
    """`Epilogue` over vectors of `lanes` channels; bit for bit what `apply_epilogue` computes."""

    epilogue: Epilogue
    in_dtype: str
    lanes: int
    scalars: Mapping[str, Expr]

    def apply(self, total: Expr, scale: Expr | None, residual: Expr | None) -> Expr:
        """Output vector from the accumulator with its bias, float32 scale and raw residual."""
        if self.epilogue.out_dtype == "int32":
            return total
        value = cast(total, "float32", self.lanes)
        if scale is not None:
            value = unfused(value * scale, self.lanes)
        if residual is not None:
            value = self._add_residual(value, scale, residual)
        if self.epilogue.out_dtype == "float32":
            return self._clamp(value, "low", "high")
        bounds = (self.scalars[name] for name in ("low", "high", "zero_point"))
        return requantised(value, *bounds, self.epilogue.out_dtype, self.lanes)

    def _add_residual(self, value: Expr, scale: Expr | None, residual: Expr) -> Expr:
        if self.in_dtype == "float32":
            return value + residual
        if self.epilogue.requantize_before_add:
            value = self._clamp(T.nearbyint(value), "accumulator_low", "accumulator_high")
            value = unfused(value * self._scalar("accumulator_scale"), self.lanes)
        addend = cast(residual, "float32", self.lanes) - self._scalar("residual_zero_point")
        addend = unfused(addend * self._scalar("residual_scale"), self.lanes)
        if self.epilogue.concatenates:
            return T.Select(scale == splat(0.0, self.lanes), addend, value)
        return value + addend

    def _clamp(self, value: Expr, low: str, high: str) -> Expr:
        return clamped(value, self.scalars[low], self.scalars[high], self.lanes)

    def _scalar(self, name: str) -> Expr:
        return splat(self.scalars[name], self.lanes)
