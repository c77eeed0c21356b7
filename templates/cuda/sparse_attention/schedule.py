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
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_BANK_ROWS = 8
"""Rows of the ring that are read at once, without a conflict where they differ modulo 8."""


PARTLY = 1 << 15
"""Added to the places of a step of which some query does not see all keys."""

_ALL = (1 << STEP) - 1

_LATE = 1.0
"""Of the blocks that are there besides the newest, those that groups let wait."""


def schedule_specs(tiling: FusedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_schedule`."""
    groups, steps = tiling.parts * tiling.of_block, tiling.steps + 1
    return (
        TensorSpec("order", (groups,), "int32"),
        TensorSpec("stops", (tiling.key_blocks + 1, groups), "int32"),
        TensorSpec("places", (steps, STEP), "uint16"),
        TensorSpec("kept", (steps, GROUP), "uint32"),
    )


def pack_schedule(tiling: FusedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The mask in steps.

    order: the group of each place of a block, -1 for none. stops: where the steps of each of them
    start, and which are done by each time. places: of a step's keys in the ring, in chunks of 16
    bytes, with the turn of a row's chunks in the low bits, and PARTLY. kept: of each query of a
    step's group, which of its keys it sees.
    """
    mask = tiling.workload.mask(constants)
    order = dealt(mask.lengths, tiling)
    stops = np.zeros((tiling.key_blocks + 1, len(order)), np.int64)
    places = np.zeros((tiling.steps + 1, STEP), np.int64)
    kept = np.zeros((tiling.steps + 1, GROUP), np.uint32)
    step = 0
    for number, group in enumerate(order):
        stops[:, number] = step
        if group < 0:
            continue
        own = slice(mask.pointers[group], mask.pointers[group + 1])
        columns = mask.indices[own].astype(np.int64)
        phase = number % tiling.config.groups / tiling.config.groups
        for time, chosen in rounds(columns, tiling, phase):
            count = -(-len(chosen) // STEP)
            places[step : step + count] = _places(tiling, columns[chosen], count)
            kept[step : step + count] = _kept(mask, own, chosen, count)
            partly = (kept[step : step + count] != _ALL).any(axis=1)
            places[step : step + count] |= PARTLY * partly[:, None]
            step += count
            stops[time + 1 :, number] = step
    arrays = (order, stops, places, kept)
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


def rounds(columns: np.ndarray, tiling: FusedTiling, phase: float) -> list[tuple[int, np.ndarray]]:
    """Of each time with steps of a group, its keys [32 * steps or fewer] by their number."""
    blocks, times = columns // tiling.config.slot, tiling.key_blocks
    total = -(-len(columns) // STEP)
    # What waits is what eights of different residues are chosen from.
    late = min(_LATE * (tiling.window - 1), times / 2)
    waiting, done, found = np.arange(len(columns)), 0, []
    for time in range(times):
        there = waiting[: np.searchsorted(blocks[waiting], time, side="right")]
        if time == times - 1:
            steps = -(-len(there) // STEP)
        else:
            leaving = np.searchsorted(blocks[there], time - tiling.window + 1, side="right")
            pace = int(total * max(0.0, time + 1 - late) / (times - late) + phase) - done
            steps = max(-(-leaving // STEP), min(pace, len(there) // STEP))
        if not steps:
            continue
        chosen = chosen_of(columns[there], STEP * steps, 0 if time == times - 1 else leaving)
        found.append((time, there[chosen]))
        waiting = np.setdiff1d(waiting, there[chosen], assume_unique=True)
        done += steps
    return found


def chosen_of(columns: np.ndarray, most: int, leaving: int) -> np.ndarray:
    """The numbers of up to `most` of some rising columns, arranged by eights that differ modulo 8.

    The first `leaving` are among them.
    """
    residue = columns % _BANK_ROWS
    chosen = _by_turns(residue)[:most]
    if leaving and len(chosen) == most:
        missing = np.setdiff1d(np.arange(leaving), chosen, assume_unique=True)
        if len(missing):
            others = chosen[chosen >= leaving]
            chosen = np.concatenate([chosen[chosen < leaving], missing, others])[:most]
    chosen = np.sort(chosen)
    return chosen[_by_turns(residue[chosen])]


def _by_turns(residue: np.ndarray) -> np.ndarray:
    """An order that takes one of each residue in turn, as long as there are such."""
    by_class = np.argsort(residue, kind="stable")
    firsts = np.searchsorted(residue[by_class], residue[by_class], side="left")
    turn = np.empty(len(residue), np.int64)
    turn[by_class] = np.arange(len(residue)) - firsts
    return np.lexsort((residue, turn))


def _places(tiling: FusedTiling, columns: np.ndarray, steps: int) -> np.ndarray:
    """Of the keys of some steps, [steps, 32]; what is left of the last one repeats its first."""
    rows = np.full(steps * STEP, columns[0] if len(columns) else 0)
    rows[: len(columns)] = columns
    units = tiling.row_bytes // 16
    in_ring = rows % (tiling.config.slot * tiling.config.slots)
    return (in_ring * units + rows % _BANK_ROWS).reshape(steps, STEP)


def _kept(mask: VectorMatrix, own: slice, chosen: np.ndarray, steps: int) -> np.ndarray:
    """Which keys each query sees, [steps, 8], the first in the lowest bit."""
    seen = np.zeros((steps * STEP, GROUP), np.uint64)
    seen[: len(chosen)] = mask.values[own][chosen] != 0
    weights = np.left_shift(np.uint64(1), np.arange(STEP, dtype=np.uint64))
    words = (seen.reshape(steps, STEP, GROUP) * weights[None, :, None]).sum(axis=1)
    return words.astype(np.uint32)
