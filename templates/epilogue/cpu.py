"""The fused epilogue on a CPU, one vector of output channels at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import cast, splat, unfused
from autoq.templates.epilogue import FLOAT_OUTPUTS, Epilogue
from autoq.templates.epilogue.cpu_activation import activated


def clamped(value: Expr, low: Expr, high: Expr, lanes: int) -> Expr:
    """float32 lanes bounded by two scalars; NaN stays NaN."""
    least, most = splat(low, lanes), splat(high, lanes)
    value = T.Select(value < least, least, value)
    return T.Select(value > most, most, value)


def _clamped_numbers(value: Expr, low: Expr, high: Expr, lanes: int) -> Expr:
    """float32 lanes on their way to integers, bounded by two scalars; NaN becomes `low`."""
    least, most = splat(low, lanes), splat(high, lanes)
    value = T.Select(value > least, value, least)
    return T.Select(value < most, value, most)


def requantised(
    value: Expr, low: Expr, high: Expr, zero_point: Expr, out_dtype: str, lanes: int
) -> Expr:
    """`clamp(rint(value), low, high) + zero_point` of float32 lanes as `out_dtype`.

    Rounding is half to even: `nearbyint` is one vector instruction under the default mode. NaN
    becomes `low + zero_point`, as in onnxruntime.
    """
    rounded = _clamped_numbers(T.nearbyint(value), low, high, lanes) + splat(zero_point, lanes)
    return cast(cast(rounded, "int32", lanes), out_dtype, lanes)


@dataclass(frozen=True)
class VectorOperands:
    """What an output vector is made of beside its accumulator, None where the epilogue has none.

    scale and float_bias: float32 of its channels; row_scale: float32, of its row; residual: of its
    elements, as it is stored.
    """

    scale: Expr | None = None
    row_scale: Expr | None = None
    float_bias: Expr | None = None
    residual: Expr | None = None


@dataclass(frozen=True)
class VectorEpilogue:
    """`Epilogue` over vectors of `lanes` channels; bit for bit what `apply_epilogue` computes."""

    epilogue: Epilogue
    in_dtype: str
    lanes: int
    scalars: Mapping[str, Expr]

    def apply(self, total: Expr, operands: VectorOperands) -> Expr:
        """Output vector from the accumulator with its bias."""
        if self.epilogue.out_dtype == "int32":
            return total
        value = total if self.epilogue.scale_group else cast(total, "float32", self.lanes)
        scale = operands.scale
        if scale is not None:
            value = unfused(value * scale, self.lanes)
        if operands.row_scale is not None:
            value = unfused(value * splat(operands.row_scale, self.lanes), self.lanes)
        if operands.float_bias is not None:
            value = value + operands.float_bias
        if operands.residual is not None:
            value = self._add_residual(value, scale, operands.residual)
        if self.epilogue.out_dtype in FLOAT_OUTPUTS:
            value = activated(value, self.epilogue.activation, self.lanes)
            return cast(self._clamp(value, "low", "high"), self.epilogue.out_dtype, self.lanes)
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
