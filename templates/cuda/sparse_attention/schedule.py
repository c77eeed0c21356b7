"""When each group of queries goes along which of its keys, while a ring of keys passes by.

Time is the newest block of keys in shared memory. A step of a group takes 32 keys that are all
there; the oldest block leaves with the time, and before it does, groups have taken their keys of
it. Within that freedom steps are full, spread evenly over time so that warps of a block need not
wait for each other, and made of keys that differ modulo 8 by eights, which lie in different banks.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.sparse_attention.config import STEP, FusedTiling
from autoq.templates.operators.sparse_attention import GROUP
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_BANK_ROWS = 8
"""Rows of the ring that are read at once, without a conflict where they differ modulo 8."""


NEVER = 1 << 15
"""The word of every lane of a step of no time."""

PARTLY = 2 * NEVER
"""In the heading of a step, above its time: some query does not see all of its keys."""

_ALL = (1 << STEP) - 1

_LATE = 1.0
"""Of the blocks that are there besides the newest, those that groups let wait."""


def schedule_specs(tiling: FusedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_schedule`."""
    groups = tiling.parts * tiling.of_block
    return (
        TensorSpec("order", (groups,), "int32"),
        TensorSpec("firsts", (groups,), "int32"),
        TensorSpec("words", (tiling.steps, STEP), "uint32"),
        TensorSpec("kept", (tiling.steps, GROUP), "uint32"),
    )


def pack_schedule(tiling: FusedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The mask in steps.

    order: the group of each place of a block, -1 for none. firsts: the first step of each of them.
    words: what lanes read of a step, see `_words`; behind a group's last step lies one of no time.
    kept: of each query of a step's group, which of its keys it sees.
    """
    mask = tiling.workload.mask(constants)
    order = dealt(mask.lengths, tiling)
    firsts = np.zeros(len(order), np.int64)
    words = np.zeros((tiling.steps, STEP), np.uint32)
    kept = np.zeros((tiling.steps, GROUP), np.uint32)
    step = 0
    for number, group in enumerate(order):
        firsts[number] = step
        if group >= 0:
            own = slice(mask.pointers[group], mask.pointers[group + 1])
            columns = mask.indices[own].astype(np.int64)
            phase = number % tiling.config.groups / tiling.config.groups
            chosen, counts = in_steps(columns, tiling, phase)
            here = slice(step, step + len(chosen))
            kept[here] = _kept(mask.values[own], chosen)
            partly = (kept[here] != _ALL).any(axis=1)
            times = np.repeat(np.arange(len(counts)), counts)
            words[here] = _words(tiling, columns, chosen, times + PARTLY * partly)
            step += len(chosen)
        words[step] = NEVER
        step += 1
    arrays = (order, firsts, words, kept)
    specs = schedule_specs(tiling)
    return tuple(
        np.ascontiguousarray(array, spec.dtype) for array, spec in zip(arrays, specs, strict=True)
    )


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
    total, counts = -(-len(columns) // STEP), np.zeros(times, np.int64)
    # What waits is what eights of different residues are chosen from.
    late = min(_LATE * (tiling.window - 1), times / 2)
    waiting, done, found = np.arange(len(columns)), 0, [np.zeros(0, np.int64)]
    for time in range(times):
        there = waiting[: np.searchsorted(blocks[waiting], time, side="right")]
        leaving = int(np.searchsorted(blocks[there], time - tiling.window + 1, side="right"))
        if time == times - 1:
            steps, leaving = -(-len(there) // STEP), 0
        else:
            pace = int(total * max(0.0, time + 1 - late) / (times - late) + phase) - done
            steps = max(-(-leaving // STEP), min(pace, len(there) // STEP))
        if not steps:
            continue
        chosen = chosen_of(columns[there], STEP * steps, leaving)
        padded = np.full(STEP * steps, -1, np.int64)
        padded[: len(chosen)] = there[chosen]
        found.append(padded)
        rest = np.ones(len(waiting), bool)
        rest[chosen] = False
        waiting = waiting[rest]
        done += steps
        counts[time] = steps
    return np.concatenate(found).reshape(-1, STEP), counts


def chosen_of(columns: np.ndarray, most: int, leaving: int) -> np.ndarray:
    """The numbers of up to `most` of some rising columns, arranged by eights that differ modulo 8.

    The first `leaving` are among them.
    """
    residue = columns % _BANK_ROWS
    chosen = _by_turns(residue)[:most]
    left_out = np.ones(leaving, bool)
    left_out[chosen[chosen < leaving]] = False
    missing = np.flatnonzero(left_out)
    if not len(missing):
        return chosen
    others = chosen[chosen >= leaving]
    chosen = np.sort(np.concatenate([chosen[chosen < leaving], missing, others])[:most])
    return chosen[_by_turns(residue[chosen])]


def _by_turns(residue: np.ndarray) -> np.ndarray:
    """An order that takes one of each residue in turn, as long as there are such."""
    by_class = np.argsort(residue, kind="stable")
    counts = np.bincount(residue, minlength=_BANK_ROWS)
    turn = np.arange(len(residue)) - np.repeat(np.cumsum(counts) - counts, counts)
    return by_class[np.argsort(turn * _BANK_ROWS + residue[by_class], kind="stable")]


def _words(
    tiling: FusedTiling, columns: np.ndarray, chosen: np.ndarray, headings: np.ndarray
) -> np.ndarray:
    """Of some steps, [steps, 32]: rows in the ring that lanes give to ldmatrix, and the heading.

    Keys of a step are X, Y, Z and W, eight each. A lane reads a row of X or Y, then one of Z or W,
    and of both the first or the second of two chunks. Of a place, in chunks of 16 bytes, the low
    bits also turn a row's chunks. Where there is no key, the first of the step stands. Bit 15 of
    the lanes is the heading, one bit each.
    """
    keys = np.append(columns, 0)[np.where(chosen < 0, chosen[:, :1], chosen)]
    units = tiling.row_bytes // 16
    places = keys % (tiling.config.slot * tiling.config.slots) * units + keys % _BANK_ROWS
    lane = np.arange(STEP)
    row = lane // 16 * 8 + lane % 8
    second_chunk = lane // 8 % 2
    low, high = places[:, row] ^ second_chunk, places[:, row + 16] ^ second_chunk
    bits = headings[:, None] >> lane & 1
    return (low | bits << 15 | high << 16).astype(np.uint32)


def _kept(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Which keys each query sees, [steps, 8], the first in the lowest bit."""
    seen = np.append(values != 0, np.zeros((1, GROUP), bool), axis=0)[chosen]
    bits = np.packbits(seen.transpose(0, 2, 1), axis=2, bitorder="little")
    return np.ascontiguousarray(bits).view("<u4")[:, :, 0]
