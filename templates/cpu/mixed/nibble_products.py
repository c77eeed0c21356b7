"""Products of float32 with words of eight values of 4 bits, which are widened in registers."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.mixed.nibbles import VALUES, exponent, in_place, stored_zero, words
from autoq.templates.cpu.mixed.tiles import MixedTiling, Turn
from autoq.templates.cpu.vector import cast, held, load, loop, splat, store


def scale_rows(tiling: MixedTiling, x: Buffer) -> Buffer:
    """Multiplies x, of `wide_rows`, by the powers that `in_place` leaves.

    Gives what the products of a turn start with, [turns, rows]: less the sum of x, times what a
    value of 0 is stored as where that is the same everywhere.
    """
    workload, depth, rows = tiling.workload, tiling.depth, tiling.rows
    turns, rest = divmod(tiling.k, depth)
    starts = T.alloc_buffer(((turns + bool(rest)) * rows,), "float32")
    powers = T.alloc_buffer((VALUES,), "float32")
    for number in range(VALUES):
        store(powers, number, T.float32(16.0 ** -exponent(number)), 1)
    factor = load(powers, 0, VALUES)
    zero = -1.0 if workload.zero_points else -float(stored_zero(workload))

    def of_turn(turn: Expr | int, depth: int) -> None:
        base = turn * tiling.depth * rows
        with loop(rows) as row:
            line = T.alloc_buffer((VALUES,), "float32")
            store(line, 0, splat(T.float32(0), VALUES), VALUES)
            with loop(depth // VALUES) as step:
                at = base + row * depth + step * VALUES
                value = held(load(x, at, VALUES), VALUES)
                store(line, 0, load(line, 0, VALUES) + value, VALUES)
                store(x, at, value * factor, VALUES)
            parts = [line[lane] for lane in range(VALUES)]
            while len(parts) > 1:
                parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
            store(starts, turn * rows + row, parts[0] * T.float32(zero), 1)

    with loop(turns) as turn:
        of_turn(turn, depth)
    if rest:
        of_turn(turns, rest)
    return starts


def multiply_words(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], turn: Turn, x: Buffer, starts: Buffer,
    sums: Buffer,
) -> None:  # fmt: skip
    """Adds a turn's products to sums [rows, columns]; x and starts are those of `scale_rows`."""
    lanes, columns = tiling.lanes, tiling.columns
    tile = [(row, vector) for row in range(tiling.tile_rows) for vector in range(tiling.vectors)]
    scales, zeros = _of_group(tiling, buffers, turn)
    with loop(tiling.row_tiles) as row_tile:
        first = T.bind(row_tile * tiling.tile_rows)
        registers = {place: T.alloc_buffer((lanes,), "float32") for place in tile}
        for (row, vector), register in registers.items():
            start = splat(starts[turn.number * tiling.rows + first + row], lanes)
            store(register, 0, start * zeros[vector] if zeros else start, lanes)
        with loop(turn.depth // VALUES) as step:
            _multiply_step(tiling, buffers["weight"], turn, x, first, step, registers)
        for (row, vector), register in registers.items():
            result = load(register, 0, lanes)
            result = result * scales[vector] if scales else result
            at = (first + row) * columns + vector * lanes
            store(sums, at, load(sums, at, lanes) + result, lanes)


def _multiply_step(
    tiling: MixedTiling, weight: Buffer, turn: Turn, x: Buffer, first: Expr, step: Expr,
    registers: Mapping[tuple[int, int], Buffer],
) -> None:  # fmt: skip
    """The products of a word of each column with rows `first` and on."""
    lanes, vectors = tiling.lanes, range(tiling.vectors)
    at = (turn.tile * words(tiling.workload) + turn.start // VALUES + step) * tiling.columns
    loaded = [held(load(weight, at + v * lanes, lanes), lanes, "int32") for v in vectors]
    for number in range(VALUES):
        values = [T.bind(cast(in_place(word, number, lanes), "float32", lanes)) for word in loaded]
        for row in range(tiling.tile_rows):
            place = turn.start * tiling.rows + (first + row) * turn.depth
            factor = T.bind(splat(x[place + step * VALUES + number], lanes))
            for vector in vectors:
                register = registers[row, vector]
                store(register, 0, load(register, 0, lanes) + factor * values[vector], lanes)


def _of_group(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], turn: Turn
) -> tuple[list[Expr], list[Expr]]:
    """A turn's scales and zero points, for each vector; nothing where all turns share them."""
    workload, lanes = tiling.workload, tiling.lanes
    group = turn.start // workload.group if workload.group else 0
    first = (turn.tile * workload.groups + group) * tiling.columns
    places = [first + vector * lanes for vector in range(tiling.vectors)]
    scales, zeros = [], []
    for at in places if workload.group else ():
        scales.append(held(load(buffers["scale"], at, lanes), lanes))
    for at in places if workload.zero_points else ():
        zero = cast(load(buffers["zero_point"], at, lanes), "int32", lanes)
        zeros.append(held(cast(zero, "float32", lanes), lanes))
    return scales, zeros
