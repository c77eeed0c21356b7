"""The float32 result of sums of integers: scaled by columns and rows, with a bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.vector import cast, load, loop, splat, store, unfused
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import residual_unit


@dataclass(frozen=True)
class Outputs:
    """Writes vectors of y, of `workload`; `buffers` has y, the scales and the bias, if any.

    whole: whether all columns that are put are columns of y.
    """

    workload: ResidualGemm
    buffers: Mapping[str, Buffer]
    whole: bool

    def put(self, row: Expr, column: Expr, value: Expr, lanes: int) -> None:
        """Stores float32 sums of a row, scaled; columns behind the last one are left out."""
        n = self.workload.n
        value = unfused(value * load(self.buffers["b_scale"], column, lanes), lanes)
        value = unfused(value * splat(self.buffers["a_scale"][row], lanes), lanes)
        if self.workload.bias:
            value = value + load(self.buffers["bias"], column, lanes)
        y = self.buffers["y"]
        if self.whole:
            store(y, row * n + column, value, lanes)
            return
        line = T.alloc_buffer((lanes,), "float32")
        store(line, 0, value, lanes)
        with T.If(column + lanes <= n):
            with T.Then():
                store(y, row * n + column, load(line, 0, lanes), lanes)
            with T.Else(), loop(T.max(n - column, 0)) as index:
                store(y, row * n + column + index, line[index], 1)

    def compensated(self, sums: Expr, correction: Expr | None, lanes: int) -> Expr:
        """float32 of P and of Q, int32, before the scales."""
        value = cast(sums, "float32", lanes)
        if correction is None:
            return value
        unit = splat(T.float32(float(residual_unit(self.workload.bits))), lanes)
        return value + unfused(cast(correction, "float32", lanes) * unit, lanes)
