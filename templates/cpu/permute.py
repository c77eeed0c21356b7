"""Transposition on a CPU: rows that stay are copied, others turned 16 x 16 in registers."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.permuted_axes import PermutedAxes
from autoq.templates.cpu.frame import kernel_frame
from autoq.templates.cpu.tasks import LANES, span, task_count
from autoq.templates.cpu.transposed import transposed
from autoq.templates.cpu.vector import (
    WIDEST_BYTES,
    for_chunks,
    held,
    load,
    loop,
    store,
    tasks_loop,
)
from autoq.templates.target import Target

_BYTES = {"int8": 1, "uint8": 1, "float32": 4}


def permutes(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> bool:
    """Whether `emit_permutation` is for such an array: its rows, or both sides, fill a vector."""
    if dtype not in _BYTES:
        return False
    axes = PermutedAxes.of(shape, perm)
    sides = (axes.sizes[-1],) if axes.keeps_rows else (axes.sizes[-1], axes.sizes[axes.across])
    return min(sides) >= LANES


def permute_kernel(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, target: Target
) -> PrimFunc:
    """The kernel whose y has axis perm[i] of x, `shape`, as axis i; parameters x, y."""
    turned = tuple(shape[axis] for axis in perm)
    with kernel_frame(x=(shape, dtype), y=(turned, dtype)) as frame:
        emit_permutation(lambda: (frame["x"], frame["y"]), shape, perm, dtype, target)
    return frame.result


def emit_permutation(
    buffers: Callable[[], tuple[Buffer, Buffer]], shape: tuple[int, ...], perm: tuple[int, ...],
    dtype: str, target: Target,
) -> None:  # fmt: skip
    """Writes the second of two flat buffers from the first, a dense array of `shape`.

    Tasks share rows, or bands of 16 rows. buffers gives views for one task.
    """
    axes = PermutedAxes.of(shape, perm)
    tasks = task_count(2 * math.prod(shape) * _BYTES[dtype], target)
    if axes.keeps_rows:
        units, emit = math.prod(axes.sizes[:-1]), _copy_row
    else:
        bands = -(-axes.sizes[axes.across] // LANES)
        units, emit = bands * math.prod(axes.sizes[axis] for axis in axes.others), _turn_band
    tasks = min(tasks, units)
    with tasks_loop(tasks) as task:
        x, y = buffers()
        first, share = span(task, units, tasks)
        with loop(share) as index:
            emit(axes, x, y, T.bind(first + index), dtype)


def _places(axes: PermutedAxes, over: tuple[int, ...], index: Expr) -> tuple[Expr, Expr]:
    """Where an index that counts through some axes starts in the input and in the output."""
    source: Expr | int = 0
    target: Expr | int = 0
    after = 1
    for axis in reversed(over):
        place = index // after if after > 1 else index
        place = place % axes.sizes[axis]
        source = source + place * axes.strides[axis]
        target = target + place * axes.out_strides[axis]
        after *= axes.sizes[axis]
    return T.bind(T.int32(0) + source), T.bind(T.int32(0) + target)


def _copy_row(axes: PermutedAxes, x: Buffer, y: Buffer, row: Expr, dtype: str) -> None:
    source, target = _places(axes, tuple(range(len(axes.sizes) - 1)), row)

    def chunk(at: Expr | int, lanes: int) -> None:
        store(y, target + at, load(x, source + at, lanes), lanes)

    for_chunks(axes.sizes[-1], WIDEST_BYTES // _BYTES[dtype], chunk)


def _turn_band(axes: PermutedAxes, x: Buffer, y: Buffer, unit: Expr, dtype: str) -> None:
    """16 neighbours of the input, and all that become their rows' elements."""
    across, row = axes.sizes[axes.across], axes.sizes[-1]
    bands = -(-across // LANES)
    source, target = _places(axes, axes.others, unit // bands)
    band = T.bind(T.min(unit % bands * LANES, across - LANES))
    with loop(-(-row // LANES)) as tile:
        at = T.bind(T.min(tile * LANES, row - LANES))
        start = source + band + at * axes.strides[-1]
        rows = [
            held(load(x, start + i * axes.strides[-1], LANES), LANES, dtype) for i in range(LANES)
        ]
        for i, vector in enumerate(transposed(rows, dtype)):
            place = target + (band + i) * axes.out_strides[axes.across] + at
            store(y, place, vector, LANES)
