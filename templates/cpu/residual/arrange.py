"""Rows of words as tiles of columns: words are transposed, and their bytes made unsigned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.words import LANES, OFFSETS, WordTiles
from autoq.templates.cpu.transposed import transposed
from autoq.templates.cpu.vector import held, load, loop, splat, store


def arrange_kernel(
    tiles: WordTiles,
    source: str,
    target: str,
    threads: bool,
    wanted: tuple[TensorSpec, Callable[[Mapping[str, Buffer]], Expr]] | None = None,
) -> PrimFunc:
    """Parameters: what `wanted` reads, rows int32 [count, words] `source`, tiles `target`.

    A task takes a tile. wanted: an array, and the condition on which there is anything to do.
    """
    rows = TensorSpec(source, (tiles.count, tiles.words), "int32")
    specs = [rows, tiles.spec(target)]
    if wanted is not None:
        specs.insert(0, wanted[0])

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        if wanted is None:
            _tile(tiles, buffers[source], buffers[target], task)
            return
        with T.If(wanted[1](buffers)), T.Then():
            _tile(tiles, buffers[source], buffers[target], task)

    return task_kernel(specs, tiles.tiles, emit, "quantise_arrange", threads)


def _tile(tiles: WordTiles, source: Buffer, target: Buffer, tile: Expr) -> None:
    base = T.bind(tile * (tiles.words * tiles.columns))
    with loop(tiles.columns // LANES) as group, loop(tiles.words // LANES) as block:
        first = T.bind(tile * tiles.columns + group * LANES)
        word = T.bind(block * LANES)

        def row(place: int) -> Expr:
            at = T.min(first + place, tiles.count - 1) * tiles.words + word
            return held(load(source, at, LANES), LANES, "int32")

        columns = transposed([row(place) for place in range(LANES)], "int32")
        for place, vector in enumerate(columns):
            at = base + (word + place) * tiles.columns + group * LANES
            store(target, at, vector ^ splat(T.int32(OFFSETS), LANES), LANES)
