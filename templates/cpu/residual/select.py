"""Lists of the words that hold values which matter, for each row of a or column of b."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.quantise_rows import joined
from autoq.templates.cpu.residual.words import (
    DEPTH,
    OFFSET,
    OFFSETS,
    WordDot,
    WordTiles,
    words_of,
)
from autoq.templates.cpu.vector import held, load, loop, splat, store

_ONES = 0x01010101
_LARGEST = 127


@dataclass(frozen=True)
class WordLists:
    """Lists of a side's vectors, rows of a or columns of b.

    Arrays are called side and what they are.

    words, places: int32 [count, words], the words with values that are kept, 0 in place of others,
    and where they lie along k, in order; ends: int32 [count, blocks], how many of them are before
    the end of each block of `block` words; kept: int32 [count], how many values; kept_shift: their
    shift, int32 [count].
    """

    side: str
    count: int
    k: int
    block: int

    @property
    def words(self) -> int:
        """Words of a vector, for all of which a list has room."""
        return words_of(self.k)

    @property
    def blocks(self) -> int:
        """Blocks along k."""
        return -(-self.words // self.block)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays."""

        def spec(name: str, *shape: int) -> TensorSpec:
            return TensorSpec(f"{self.side}_{name}", (self.count, *shape), "int32")

        return (
            spec("words", self.words), spec("places", self.words), spec("ends", self.blocks),
            spec("kept"), spec("kept_shift"),
        )  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """What is kept of a side: values whose magnitude is above the cut of their vector.

    values, weight: specs of the side's integers, in rows of a or tiles of b, and of its
    `WeighedSums`. A cut is twice the threshold times the weight over the total of the other side.
    """

    lists: WordLists
    dot: WordDot
    values: TensorSpec
    weight: TensorSpec
    tasks: int

    @property
    def reads(self) -> tuple[TensorSpec, ...]:
        """The parameters that are given."""
        total = TensorSpec("total", (2,), "float64")
        return (self.values, self.weight, total, TensorSpec("threshold", (1,), "float32"))

    def rows_kernel(self) -> PrimFunc:
        """Parameters: `reads`, the lists' arrays. A task takes neighbouring rows of a."""
        lists, lanes = self.lists, self.dot.lanes
        share = -(-lists.count // min(self.tasks, lists.count))

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            first = T.bind(task * share)
            with loop(T.min(share, lists.count - first)) as index:
                row = T.bind(first + index)
                limit = splat(self._limit(buffers, buffers[self.weight.name][row], 1), lanes)
                parts = self._parts(buffers)
                walk = _Walk(self, parts, held(limit, lanes, "int32"))
                end = T.alloc_buffer((1,), "int32")
                store(end, 0, T.int32(0), 1)

                def vector(word: Expr) -> None:
                    given = load(buffers[self.values.name], row * lists.words + word, lanes)

                    def append(line: Buffer) -> None:
                        for lane in range(lanes):
                            at = T.bind(end[0])
                            place = T.bind(row * lists.words + at)
                            store(parts["words"], place, line[lane], 1)
                            store(parts["places"], place, word + lane, 1)
                            store(end, 0, at + T.cast(line[lane] != 0, "int32"), 1)

                    walk.vector(given, append)

                def ended(block: Expr) -> None:
                    store(parts["ends"], row * lists.blocks + block, end[0], 1)

                self._blocks(lanes, vector, ended)
                for name, buffer in walk.sums.items():
                    total = joined(buffer, lambda one, other: one + other, lanes)
                    store(parts[name], row, _sum_of(name, total, 1), 1)

        tasks = -(-lists.count // share)
        return task_kernel((*self.reads, *lists.specs), tasks, emit, "reduce_rows")

    def columns_kernel(self, tiles: WordTiles, threads: bool) -> PrimFunc:
        """Parameters: `reads`, the lists' arrays. A task takes a vector of columns of b."""
        lists, lanes = self.lists, self.dot.lanes

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            parts = self._parts(buffers)
            first = T.bind(task * lanes)
            base = first // tiles.columns * (tiles.words * tiles.columns) + first % tiles.columns
            base = T.bind(base)
            limit = T.alloc_buffer((lanes,), "int32")
            with loop(lanes) as lane:
                weight = buffers[self.weight.name]
                total = T.alloc_buffer((1,), "float64")
                store(total, 0, T.float64(0), 1)
                for part in range(self.weight.shape[0]):
                    at = part * self.weight.shape[1] + first + lane
                    store(total, 0, total[0] + weight[at], 1)
                cut = self._limit(buffers, total[0], 0)
                inside = first + lane < tiles.count
                store(limit, lane, T.Select(inside, cut, T.int32(_LARGEST * _ONES)), 1)
            walk = _Walk(self, parts, held(load(limit, 0, lanes), lanes, "int32"))
            ends = T.alloc_buffer((lanes,), "int32")
            store(ends, 0, splat(T.int32(0), lanes), lanes)

            def vector(word: Expr) -> None:
                given = load(buffers[self.values.name], base + word * tiles.columns, lanes)

                def append(line: Buffer) -> None:
                    for lane in range(lanes):
                        at = T.bind(ends[lane])
                        place = T.bind((first + lane) * lists.words + at)
                        store(parts["words"], place, line[lane], 1)
                        store(parts["places"], place, word, 1)
                        store(ends, lane, at + T.cast(line[lane] != 0, "int32"), 1)

                walk.vector(given ^ splat(T.int32(OFFSETS), lanes), append)

            def ended(block: Expr) -> None:
                with loop(lanes) as lane:
                    store(parts["ends"], (first + lane) * lists.blocks + block, ends[lane], 1)

            self._blocks(1, vector, ended)
            for name, buffer in walk.sums.items():
                total = load(buffer, 0, lanes)
                store(parts[name], first, _sum_of(name, total, lanes), lanes)

        tasks = lists.count // lanes
        specs = (*self.reads, *lists.specs)
        return task_kernel(specs, tasks, emit, "reduce_columns", threads)

    def _parts(self, buffers: Mapping[str, Buffer]) -> dict[str, Buffer]:
        prefix = f"{self.lists.side}_"
        return {spec.name.removeprefix(prefix): buffers[spec.name] for spec in self.lists.specs}

    def _limit(self, buffers: Mapping[str, Buffer], weight: Expr, other: int) -> Expr:
        """The largest magnitude that is not kept, in each byte of a word."""
        twice = T.float64(2) * T.cast(buffers["threshold"][0], "float64")
        cut = T.bind(twice * (weight / buffers["total"][other]))
        below = cut < T.float64(_LARGEST)  # NaN keeps nothing
        return T.bind(T.Select(below, T.cast(cut, "int32"), T.int32(_LARGEST)) * T.int32(_ONES))

    def _blocks(
        self, step: int, vector: Callable[[Expr], None], ended: Callable[[Expr], None]
    ) -> None:
        """Walks the words along k, `step` at a time, and says where each block ends."""
        lists = self.lists
        with loop(lists.blocks) as block:
            first = T.bind(block * lists.block)
            with loop(T.min(lists.block, lists.words - first) // step) as index:
                vector(T.bind(first + index * step))
            ended(block)


class _Walk:
    """Vectors of words on their way to lists, and the sums of what is kept in each lane."""

    def __init__(self, selection: Selection, parts: Mapping[str, Buffer], limit: Expr) -> None:
        self.dot, self.lanes = selection.dot, selection.dot.lanes
        self.bytes = f"int8x{DEPTH * self.lanes}"
        self.limit = T.reinterpret(self.bytes, limit)
        self.sums = {
            name: T.alloc_buffer((self.lanes,), "int32") for name in ("kept", "kept_shift")
        }
        for buffer in self.sums.values():
            store(buffer, 0, splat(T.int32(0), self.lanes), self.lanes)

    def vector(self, words: Expr, append: Callable[[Buffer], None]) -> None:
        """What is kept of signed words goes to `append`, in a line of them, if anything is."""
        lanes, size = self.lanes, DEPTH * self.lanes
        zeros = splat(T.int8(0), size)
        bytes = held(T.reinterpret(self.bytes, words), size, "int8")
        magnitude = T.max(bytes, zeros - bytes)
        kept = held(T.Select(magnitude > self.limit, bytes, zeros), size, "int8")
        line = T.alloc_buffer((lanes,), "int32")
        store(line, 0, T.reinterpret(f"int32x{lanes}", kept), lanes)
        some = T.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", load(line, 0, lanes))
        with T.If(some != 0), T.Then():
            ones = splat(T.int32(_ONES), lanes)
            counted = T.Select(kept != zeros, splat(T.int8(1), size), zeros)
            counted = T.reinterpret(f"int32x{lanes}", counted)
            pairs = {"kept": (counted, ones), "kept_shift": (ones, load(line, 0, lanes))}
            for name, pair in pairs.items():
                total = self.dot.step(load(self.sums[name], 0, lanes), *pair)
                store(self.sums[name], 0, total, lanes)
            append(line)


def _sum_of(name: str, total: Expr, lanes: int) -> Expr:
    return total * splat(T.int32(-OFFSET), lanes) if name == "kept_shift" else total
