"""Rows of float32 in integers, with a scale each; what is left of them in finer ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.words import DEPTH, LANES, OFFSET, words_of
from autoq.templates.cpu.vector import cast, held, load, loop, splat, store, unfused
from autoq.templates.oracle.residual_quantisation import LEAST_LARGEST, largest_integer

_LINES = 4
"""Vectors that a maximum is taken of at a time: as many chains hide its latency."""


@dataclass(frozen=True)
class RowQuantisation:
    """`count` rows of k float32 values in integers of `bits`.

    The arrays are called `name` and what they are. rows: the integers, int32 [count, words]; scale:
    float32 [padded], 0 behind the last row; shift: int32 [count]; with `rests`: rest_rows and
    rest_shift, of the residual; with `magnitudes`: magnitude, the sum of each row's magnitudes,
    int32 [1, padded].
    """

    name: str
    count: int
    k: int
    bits: int
    padded: int
    rests: bool
    magnitudes: bool

    @property
    def writes(self) -> tuple[TensorSpec, ...]:
        """What is computed."""
        rows = (self.count, words_of(self.k))
        specs = [
            TensorSpec(f"{self.name}_rows", rows, "int32"),
            TensorSpec(f"{self.name}_scale", (self.padded,), "float32"),
            TensorSpec(f"{self.name}_shift", (self.count,), "int32"),
        ]
        if self.rests:
            specs.append(TensorSpec(f"{self.name}_rest_rows", rows, "int32"))
            specs.append(TensorSpec(f"{self.name}_rest_shift", (self.count,), "int32"))
        if self.magnitudes:
            specs.append(TensorSpec(f"{self.name}_magnitude", (1, self.padded), "int32"))
        return tuple(specs)

    def kernel(self, tasks: int) -> PrimFunc:
        """Parameters: float32 `name` [count, k], then `writes`. A task takes neighbouring rows."""
        tasks = min(tasks, self.count)
        share = -(-self.count // tasks)
        given = TensorSpec(self.name, (self.count, self.k), "float32")

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            parts = {name.removeprefix(f"{self.name}_"): part for name, part in buffers.items()}
            first = T.bind(task * share)
            with loop(T.min(share, self.count - first)) as index:
                self._row(parts, buffers[self.name], T.bind(first + index))
            self._behind(parts, task)

        return task_kernel((given, *self.writes), -(-self.count // share), emit, "quantise_rows")

    def _behind(self, parts: dict[str, Buffer], task: Expr) -> None:
        """Zeros behind the last row."""
        behind = self.padded - self.count
        if not behind:
            return
        with T.If(task == 0), T.Then(), loop(behind) as index:
            store(parts["scale"], self.count + index, T.float32(0), 1)
            if self.magnitudes:
                store(parts["magnitude"], self.count + index, T.int32(0), 1)

    def _row(self, parts: dict[str, Buffer], matrix: Buffer, row: Expr) -> None:
        start = T.bind(row * self.k)
        tail = T.alloc_buffer((LANES,), "float32")
        whole, rest = divmod(self.k, LANES)
        if rest:
            store(tail, 0, splat(T.float32(0), LANES), LANES)
            with loop(rest) as index:
                store(tail, index, matrix[start + whole * LANES + index], 1)
        numbers = VectorScale.of(self.bits, self._largest(matrix, start, tail), 1)
        store(parts["scale"], row, numbers.scale, 1)
        sums = {name: T.alloc_buffer((LANES,), "int32") for name in self._sums()}
        for buffer in sums.values():
            store(buffer, 0, splat(T.int32(0), LANES), LANES)
        wide, at = numbers.splat(), T.bind(row * words_of(self.k))
        with loop(whole) as index:
            value = load(matrix, start + index * LANES, LANES)
            self._vector(parts, value, wide, at + index * DEPTH, sums)
        if rest:
            self._vector(parts, load(tail, 0, LANES), wide, at + whole * DEPTH, sums)
        done = -(-self.k // LANES) * DEPTH
        for behind in range(done, words_of(self.k), DEPTH):
            for name in ("rows", "rest_rows") if self.rests else ("rows",):
                store(parts[name], at + behind, splat(T.int32(0), DEPTH), DEPTH)
        for name, buffer in sums.items():
            total = joined(buffer, lambda one, other: one + other)
            store(parts[name], row, total if name == "magnitude" else total * T.int32(-OFFSET), 1)

    def _sums(self) -> tuple[str, ...]:
        shifts = ("shift", "rest_shift") if self.rests else ("shift",)
        return (*shifts, "magnitude") if self.magnitudes else shifts

    def _largest(self, matrix: Buffer, start: Expr, tail: Buffer) -> Expr:
        """The row's largest magnitude."""
        together = min(_LINES, max(1, self.k // LANES))
        lines = [T.alloc_buffer((LANES,), "float32") for _ in range(together)]
        for line in lines:
            store(line, 0, splat(T.float32(0), LANES), LANES)

        def take(line: Buffer, value: Expr) -> None:
            store(line, 0, T.max(load(line, 0, LANES), T.abs(value)), LANES)

        whole = self.k // LANES
        with loop(whole // together) as group:
            for turn, line in enumerate(lines):
                at = start + (group * together + turn) * LANES
                take(line, load(matrix, at, LANES))
        for left in range(whole // together * together, whole):
            take(lines[0], load(matrix, start + left * LANES, LANES))
        if self.k % LANES:
            take(lines[0], load(tail, 0, LANES))
        for line in lines[1:]:
            take(lines[0], load(line, 0, LANES))
        return joined(lines[0], T.max)

    def _vector(
        self, parts: dict[str, Buffer], value: Expr, numbers: VectorScale, at: Expr,
        sums: dict[str, Buffer],
    ) -> None:  # fmt: skip
        """16 values: four words, and what they add to the row's sums."""
        whole, finer = numbers.quantised(value, self.rests)
        given = {"rows": whole} if finer is None else {"rows": whole, "rest_rows": finer}
        for name, integers in given.items():
            bytes = cast(integers, "int8", LANES)
            store(parts[name], at, T.reinterpret(f"int32x{DEPTH}", bytes), DEPTH)
        added = {"shift": whole, "rest_shift": finer, "magnitude": T.abs(whole)}
        for name, buffer in sums.items():
            store(buffer, 0, load(buffer, 0, LANES) + added[name], LANES)


@dataclass(frozen=True)
class VectorScale:
    """Numbers by which values become integers: float32, of one vector for each of `lanes`."""

    bits: int
    lanes: int
    inverse: Expr
    scale: Expr
    finer: Expr

    @classmethod
    def of(cls, bits: int, largest: Expr, lanes: int) -> VectorScale:
        """Those of vectors with such largest magnitudes, as in `quantise` of the oracle."""

        def number(value: float) -> Expr:
            return splat(T.float32(value), lanes)

        most, none = number(largest_integer(bits)), number(0)
        zero = largest < number(float(LEAST_LARGEST))
        divisor = T.Select(zero, number(1), largest)
        inverse = held(T.Select(zero, none, most / divisor), lanes)
        scale = held(T.Select(zero, none, divisor / most), lanes)
        return cls.with_lanes(bits, inverse, scale, lanes)

    @classmethod
    def with_lanes(cls, bits: int, inverse: Expr, scale: Expr, lanes: int = LANES) -> VectorScale:
        """Those of vectors whose inverse and scale are known."""
        finer = inverse * splat(T.float32(2 * largest_integer(bits)), lanes)
        return cls(bits, lanes, inverse, scale, held(finer, lanes))

    def splat(self) -> VectorScale:
        """The numbers of one vector in LANES lanes."""
        wide = (held(splat(part, LANES), LANES) for part in (self.inverse, self.scale, self.finer))
        return VectorScale(self.bits, LANES, *wide)

    def quantised(self, value: Expr, rests: bool) -> tuple[Expr, Expr | None]:
        """int32 integers of float32 values, and those of their residuals."""
        lanes, most = self.lanes, float(largest_integer(self.bits))
        value = held(value, lanes)
        whole = held(T.nearbyint(value * self.inverse), lanes)
        integers = held(cast(whole, "int32", lanes), lanes, "int32")
        if not rests:
            return integers, None
        rest = value - unfused(whole * self.scale, lanes)
        finer = T.nearbyint(rest * self.finer)
        finer = T.max(T.min(finer, splat(T.float32(most), lanes)), splat(T.float32(-most), lanes))
        return integers, held(cast(finer, "int32", lanes), lanes, "int32")


def joined(buffer: Buffer, join: Callable[[Expr, Expr], Expr], lanes: int = LANES) -> Expr:
    """One number of all lanes of a vector in a buffer."""
    lanes //= 2
    while lanes:
        store(buffer, 0, join(load(buffer, 0, lanes), load(buffer, lanes, lanes)), lanes)
        lanes //= 2
    return T.bind(buffer[0])
