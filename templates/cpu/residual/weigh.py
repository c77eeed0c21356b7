"""Sums of a product's magnitudes along both its sides, each times the other side's scale."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.words import LANES
from autoq.templates.cpu.vector import cast, held, load, loop, splat, store

_HALF = LANES // 2
_CHAINS = 2


@dataclass(frozen=True)
class WeighedSums:
    """Of P, int32 [m, padded], with scales a_scale and b_scale of its rows and columns.

    a_weight, float64 [m]: the sum of b_scale times |P| along each row. b_weight, float64
    [parts, padded]: of a_scale times |P| along each column, for each part of the rows. total,
    float64 [2]: the sums of scales times magnitudes of all rows of a, and of all columns of b.

    given: specs of P, of a_scale, b_scale, a_magnitude and b_magnitude.
    """

    m: int
    padded: int
    parts: int
    given: tuple[TensorSpec, ...]

    @property
    def writes(self) -> tuple[TensorSpec, ...]:
        """What is computed."""
        return (
            TensorSpec("a_weight", (self.m,), "float64"),
            TensorSpec("b_weight", (self.parts, self.padded), "float64"),
            TensorSpec("total", (2,), "float64"),
        )

    def kernel(self) -> PrimFunc:
        """Parameters: `given`, `writes`. A task takes a part of the rows."""
        share = -(-self.m // self.parts)

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            line = T.bind(task * self.padded)
            with loop(self.padded // _HALF) as index:
                zeros = splat(T.float64(0), _HALF)
                store(buffers["b_weight"], line + index * _HALF, zeros, _HALF)
            with T.If(task == 0), T.Then():
                for place, side in enumerate("ab"):
                    store(buffers["total"], place, self._total(buffers, side), 1)
            first = T.bind(T.min(task * share, self.m))
            with loop(T.min(share, self.m - first)) as index:
                self._row(buffers, T.bind(first + index), line)

        return task_kernel((*self.given, *self.writes), self.parts, emit, "reduce_sums")

    def _total(self, buffers: dict[str, Buffer], side: str) -> Expr:
        """The sum of a side's scales times magnitudes."""
        parts, extent = next(s for s in self.given if s.name == f"{side}_magnitude").shape
        scale, magnitude = buffers[f"{side}_scale"], buffers[f"{side}_magnitude"]
        total = T.alloc_buffer((_HALF,), "float64")
        store(total, 0, splat(T.float64(0), _HALF), _HALF)
        with loop(extent // _HALF) as index:
            at = T.bind(index * _HALF)
            sums = load(magnitude, at, _HALF)
            for part in range(1, parts):
                sums = sums + load(magnitude, part * extent + at, _HALF)
            weighed = cast(load(scale, at, _HALF), "float64", _HALF)
            weighed = weighed * cast(sums, "float64", _HALF)
            store(total, 0, load(total, 0, _HALF) + weighed, _HALF)
        return joined_float64([total])

    def _row(self, buffers: dict[str, Buffer], row: Expr, line: Expr) -> None:
        totals = [T.alloc_buffer((_HALF,), "float64") for _ in range(_CHAINS)]
        for total in totals:
            store(total, 0, splat(T.float64(0), _HALF), _HALF)
        scale = T.cast(buffers["a_scale"][row], "float64")
        mine = held(splat(scale, _HALF), _HALF, "float64")
        start = T.bind(row * self.padded)
        with loop(self.padded // LANES) as index:
            for half, total in enumerate(totals):
                at = T.bind(index * LANES + half * _HALF)
                sums = T.abs(load(buffers["sums"], start + at, _HALF))
                sums = held(cast(sums, "float64", _HALF), _HALF, "float64")
                other = cast(load(buffers["b_scale"], at, _HALF), "float64", _HALF)
                store(total, 0, load(total, 0, _HALF) + sums * other, _HALF)
                column = load(buffers["b_weight"], line + at, _HALF)
                store(buffers["b_weight"], line + at, column + sums * mine, _HALF)
        store(buffers["a_weight"], row, joined_float64(totals), 1)


def joined_float64(parts: list[Buffer]) -> Expr:
    """The sum of all lanes of vectors of eight in buffers."""
    total = parts[0]
    for part in parts[1:]:
        store(total, 0, load(total, 0, _HALF) + load(part, 0, _HALF), _HALF)
    lanes = _HALF // 2
    while lanes:
        store(total, 0, load(total, 0, lanes) + load(total, lanes, lanes), lanes)
        lanes //= 2
    return T.bind(total[0])
