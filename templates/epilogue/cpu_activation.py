"""The activations of float epilogues on a CPU, over vectors of float32."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import cast, load, splat, store

# Of the Cephes library: e**x = 2**n * e**r with |r| <= ln(2) / 2, and a polynomial of degree 7 for
# e**r that is off by at most 1e-7 of it. Beyond these ends 2**n is no normal number.
_ENDS = (-87.3, 88.3)
_LOG2_E = 1.44269504
_LN2 = (0.693359375, -2.12194440e-4)
_EXPONENTIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                1.6666665459e-1, 5.0000001201e-1, 1.0, 1.0)  # fmt: skip
# Abramowitz and Stegun, 7.1.26: off by at most 1.5e-7.
_ERROR_FUNCTION = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


class Activations:
    """Functions of vectors of `lanes` float32 values; NaN stays NaN.

    What is used again waits in a buffer, which LLVM finds to be a register: TVM's simplifier takes
    minutes over chains of bound variables.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    def apply(self, activation: str, value: Expr) -> Expr:
        """One of `ACTIVATIONS` of a vector."""
        if activation == "none":
            return value
        v = self._kept(value)
        if activation == "relu":
            return self._kept(T.Select(v < self._of(0.0), self._of(0.0), v))
        if activation == "gelu":
            half = self._kept(v * self._of(0.5))
            return self._fused(half, self.error_function(v * self._of(0.5**0.5)), half)
        if activation == "gelu_tanh":
            factor = self._fused(v * v, self._of(0.044715), self._of(1.0))
            return self._kept(v * self.logistic(self._of(1.59576912) * (v * factor)))
        return self._kept(v * self.logistic(v))

    def exponential(self, value: Expr) -> Expr:
        """e**x; beyond the ends of `_ENDS` that of the end."""
        least, most = (self._of(end) for end in _ENDS)
        above = self._kept(T.Select(value < least, least, value))
        x = self._kept(T.Select(above > most, most, above))
        n = self._kept(T.nearbyint(x * self._of(_LOG2_E)))
        r = self._fused(n, self._of(-_LN2[0]), x)
        r = self._fused(n, self._of(-_LN2[1]), r)
        bits = cast(n, "int32", self.lanes) + splat(T.int32(127), self.lanes)
        power = T.reinterpret(self._type, bits << splat(T.int32(23), self.lanes))
        return self._kept(self._polynomial(_EXPONENTIAL, r) * power)

    def logistic(self, value: Expr) -> Expr:
        """1 / (1 + e**-x)."""
        growth = self.exponential(self._kept(self._of(0.0) - value))
        return self._kept(self._of(1.0) / (self._of(1.0) + growth))

    def error_function(self, value: Expr) -> Expr:
        """The error function of x."""
        x = self._kept(value)
        size = self._kept(T.Select(x < self._of(0.0), self._of(0.0) - x, x))
        t = self._kept(self._of(1.0) / self._fused(size, self._of(0.3275911), self._of(1.0)))
        fall = self.exponential(self._kept(self._of(0.0) - x * x))
        rest = self._kept(t * self._polynomial(_ERROR_FUNCTION, t))
        above = self._fused(self._of(0.0) - rest, fall, self._of(1.0))
        return self._kept(T.Select(x < self._of(0.0), self._of(0.0) - above, above))

    def _polynomial(self, factors: tuple[float, ...], x: Expr) -> Expr:
        """Factors of falling powers, by Horner's rule."""
        total = self._of(factors[0])
        for factor in factors[1:]:
            total = self._fused(total, x, self._of(factor))
        return total

    def _fused(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return self._kept(T.call_llvm_pure_intrin(self._type, "llvm.fmuladd", a, b, c))

    def _kept(self, value: Expr) -> Expr:
        """A vector that may be read several times."""
        buffer = T.alloc_buffer((self.lanes,), "float32")
        store(buffer, 0, value, self.lanes)
        return load(buffer, 0, self.lanes)

    @property
    def _type(self) -> str:
        return "float32" if self.lanes == 1 else f"float32x{self.lanes}"

    def _of(self, number: float) -> Expr:
        return splat(T.float32(number), self.lanes)
