"""When each group of queries goes along which of its keys, while a ring of keys passes by.

Time is the newest block of keys in shared memory. A step of a group takes 32 keys that are all
there; the oldest block leaves with the time, and before it does, groups have taken their keys of
it. Within that freedom steps are full, spread evenly over time, and made of keys that differ modulo
8 by eights, which lie in different banks: places of keys are such that groups see about as many of
each residue (`places.py`), and how many of each are taken looks ahead, since a residue of which
many come would otherwise crowd the last steps.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.sparse_attention.config import STEP, FusedTiling
from autoq.templates.cuda.sparse_attention.eights import ROWS, by_eights
from autoq.templates.cuda.sparse_attention.places import places_of
from autoq.templates.operators.sparse_attention import GROUP
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.workload import Constants

MOST_PLACES = 1 << 15
"""Chunks of the ring whose numbers a word has room for."""

NEVER = 1 << 31
"""The word of every lane of a step of no time."""

_TIME_BITS = 16
OF_PLACE = 1 << _TIME_BITS
"""In the heading of a step, above its time: a group of the warp, times this."""

PARTLY = 1 << 31
"""In the heading of a step, the highest bit: some query does not see all of its keys."""

_ALL = (1 << STEP) - 1

_NEIGHBOURS = 16
"""On either side, of the same residue modulo 8, over which a column's turn is an average."""


def schedule_specs(tiling: FusedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_schedule`."""
    warps = tiling.parts * tiling.config.warps
    return (
        TensorSpec("order", (warps * tiling.config.groups,), "int32"),
        TensorSpec("firsts", (warps,), "int32"),
        TensorSpec("words", (tiling.steps, 2, STEP), "uint32"),
    )


def pack_schedule(tiling: FusedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The mask in steps.

    order: the group of each place of a block, -1 for none. firsts: the first step of each warp.
    words: what lanes read of a step, see `_words`, and which of the step's keys their queries see,
    see `_seen`; those of a warp lie in the order in which it takes them, and behind the last lies
    one of no time. Behind these, where each key lies.
    """
    mask = tiling.workload.mask(constants)
    places = places_of(mask, tiling.padded_keys, tiling.config.slot)
    order = dealt(mask.lengths, tiling)
    by_warp = order.reshape(-1, tiling.config.groups)
    firsts = np.zeros(len(by_warp), np.int64)
    words = np.zeros((tiling.steps, 2, STEP), np.uint32)
    step = 0
    for warp, groups in enumerate(by_warp):
        firsts[warp] = step
        own = [
            _of_group(tiling, mask, places, g, group)
            for g, group in enumerate(groups)
            if group >= 0
        ]
        if own:
            turns, of_steps = map(np.concatenate, zip(*own, strict=True))
            words[step : step + len(turns)] = of_steps[np.argsort(turns, kind="stable")]
            step += len(turns)
        words[step, 0] = NEVER
        step += 1
    arrays = [order, firsts, words, places]
    specs = (*schedule_specs(tiling), tiling.quantisation.places)
    return tuple(
        np.ascontiguousarray(array, spec.dtype) for array, spec in zip(arrays, specs, strict=True)
    )


def _of_group(
    tiling: FusedTiling, mask: VectorMatrix, places: np.ndarray, place: int, group: int
) -> tuple[np.ndarray, np.ndarray]:
    """When each step of a group has its turn in its warp, where it is the one of a place, and the
    words of steps.
    """
    groups = tiling.config.groups
    own = slice(mask.pointers[group], mask.pointers[group + 1])
    columns = places[mask.indices[own]]
    rising = np.argsort(columns)
    columns = columns[rising]
    chosen, counts = in_steps(columns, tiling, place / groups)
    times = np.repeat(np.arange(len(counts)), counts)
    kept = _kept(mask.values[own][rising], chosen)
    headings = times + PARTLY * (kept != _ALL).any(axis=1) + OF_PLACE * place
    words = np.stack([_words(tiling, columns, chosen, headings), _seen(kept)], axis=1)
    return times * groups + place, words


def dealt(lengths: np.ndarray, tiling: FusedTiling) -> np.ndarray:
    """The group of each place of a block: long and short ones in every block and every warp."""
    places = tiling.parts * tiling.of_block
    warps = places // tiling.config.groups
    longest_first = np.full(places, -1, np.int64)
    longest_first[: len(lengths)] = np.argsort(-lengths, kind="stable")
    rounds_of = longest_first.reshape(tiling.config.groups, warps)
    rounds_of[1::2] = rounds_of[1::2, ::-1]
    # Neighbours in length go to different blocks.
    by_block = rounds_of.reshape(tiling.config.groups, tiling.config.warps, tiling.parts)
    return by_block.transpose(2, 1, 0).reshape(-1)


def in_steps(
    columns: np.ndarray, tiling: FusedTiling, phase: float
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a group's rising columns in steps, [steps, 32], and the steps of each time.

    -1 stands for no column. phase: a share of a step by which groups of a warp are apart.
    """
    blocks, times = columns // tiling.config.slot, tiling.key_blocks
    due = due_times(columns, tiling)
    waiting = np.argsort(due, kind="stable")
    in_time = np.searchsorted(due[waiting], np.arange(1, times + 1), side="right")
    done = np.zeros(len(columns), bool)
    counts, found = np.zeros(times, np.int64), [np.zeros((0, STEP), np.int64)]
    for time in range(times):
        there = waiting[blocks[waiting] <= time]
        if time == times - 1:
            steps = -(-len(there) // STEP)
        else:
            pace = int(in_time[time] / STEP + phase) - int(counts.sum())
            leaving = np.count_nonzero(blocks[there] <= time - tiling.window + 1)
            steps = max(0, -(-leaving // STEP), min(pace, len(there) // STEP))
        for step in range(steps):
            # What the steps behind this one of the same time cannot take has to be in it.
            leaving = np.flatnonzero(blocks[there] <= time - tiling.window + 1)
            first = leaving[: max(0, len(leaving) - STEP * (steps - 1 - step))]
            chosen = there[chosen_of(columns[there], first)]
            padded = np.full((1, STEP), -1, np.int64)
            padded[0, : len(chosen)] = chosen
            found.append(padded)
            done[chosen] = True
            there = there[~done[there]]
        waiting = waiting[~done[waiting]]
        counts[time] = steps
    return np.concatenate(found), counts


def due_times(columns: np.ndarray, tiling: FusedTiling) -> np.ndarray:
    """When rising columns of a group should have their turns, so that each residue's come evenly.

    In the middle of the time that a column is there, on an average over its neighbours of the same
    residue: what comes in a crowd waits, or goes ahead, as far as it may.
    """
    places = columns / tiling.config.slot
    due = np.empty(len(columns))
    for residue in range(ROWS):
        own = np.flatnonzero(columns % ROWS == residue)
        number = np.arange(len(own))
        reach = np.minimum(np.minimum(number, number[::-1]), _NEIGHBOURS)
        sums = np.concatenate([[0.0], np.cumsum(places[own])])
        due[own] = (sums[number + reach + 1] - sums[number - reach]) / (2 * reach + 1)
    due += (tiling.window - 1) / 2
    latest = columns // tiling.config.slot + tiling.window - 1e-6
    return np.minimum(np.maximum(due, places), latest)


def chosen_of(columns: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The numbers of up to 32 of some columns, the more urgent ones in front, arranged by eights
    that differ modulo 8; those that `first` numbers are among them.

    No more than four of a residue, unless there are too few others.
    """
    residue = columns % ROWS
    urgent = np.zeros(len(columns), bool)
    urgent[first] = True
    order = np.argsort(~urgent, kind="stable") if len(first) else np.arange(len(columns))
    crowd = np.maximum(_rank(residue[order]) - STEP // ROWS + 1, 0)
    crowd[: len(first)] = -1
    chosen = np.sort(order[np.argsort(crowd, kind="stable")[:STEP]])
    own = residue[chosen]
    return chosen[by_eights(own) if len(chosen) == STEP else _by_turns(own)]


def _rank(residue: np.ndarray) -> np.ndarray:
    """How many of the same residue stand in front of each."""
    by_class = np.argsort(residue, kind="stable")
    counts = np.bincount(residue, minlength=ROWS)
    rank = np.empty(len(residue), np.int64)
    rank[by_class] = np.arange(len(residue)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank


def _by_turns(residue: np.ndarray) -> np.ndarray:
    """An order that takes one of each residue in turn, as long as there are such."""
    return np.argsort(_rank(residue) * ROWS + residue, kind="stable")


def _words(
    tiling: FusedTiling, columns: np.ndarray, chosen: np.ndarray, headings: np.ndarray
) -> np.ndarray:
    """Of some steps, [steps, 32]: rows in the ring that lanes give to ldmatrix, and the heading.

    Keys of a step are X, Y, Z and W, eight each. A lane reads a row of X or Y, then one of Z or W,
    and of both the first or the second of two chunks. Of a place, in chunks of 16 bytes, the low
    bits also turn a row's chunks, by its number modulo 8 where it has eight, and by half of that
    where it has four. Where there is no key, the first of the step stands. The highest bit of the
    lanes is the heading, one bit each.
    """
    keys = np.append(columns, 0)[np.where(chosen < 0, chosen[:, :1], chosen)]
    slot, chunks = tiling.config.slot, tiling.wide // 16
    in_ring = keys // slot % tiling.config.slots * 2 * slot + keys % slot
    places = in_ring * chunks + keys % ROWS * chunks // ROWS
    lane = np.arange(STEP)
    row = lane // 16 * 8 + lane % 8
    second_chunk = lane // 8 % 2
    low, high = places[:, row] ^ second_chunk, places[:, row + 16] ^ second_chunk
    bits = headings[:, None] >> lane & 1
    return (low | high << 16 | bits << 31).astype(np.uint32)


def _kept(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Which keys each query sees, [steps, 8], the first in the lowest bit."""
    seen = np.append(values != 0, np.zeros((1, GROUP), bool), axis=0)[chosen]
    bits = np.packbits(seen.transpose(0, 2, 1), axis=2, bitorder="little")
    return np.ascontiguousarray(bits).view("<u4")[:, :, 0]


def _seen(kept: np.ndarray) -> np.ndarray:
    """Of some steps, [steps, 32]: which of its eight scores each lane's query sees, by bits.

    kept as of `_kept`. Four lanes have a query's, two neighbours of each eight keys each.
    """
    lane, score = np.arange(STEP)[:, None], np.arange(STEP // 4)
    key = score // 2 * ROWS + lane % 4 * 2 + score % 2
    bits = kept[:, lane // 4] >> key.astype(np.uint32) & 1
    return (bits << score.astype(np.uint32)).sum(axis=2).astype(np.uint32)
