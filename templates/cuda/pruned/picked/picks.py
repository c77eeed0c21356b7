"""Which two words of a row of x each register of wgmma's left factor is put together from.

A register of a fragment holds a word's worth of values along k. A PRMT picks them out of any two
words of a row, so that values that a tile keeps become neighbours. Words lie in stages of up to 128
bytes of k, of which the newest two are there for a block of steps, those of a stage of weights.
Lanes of four read eight rows each: the banks of swizzled rows differ where the places of their
words in units of 16 bytes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autoq.templates.cuda.pruned.picked.steps import (
    LANES,
    NO_ROW,
    STEP_WORDS,
    WORD_BYTES,
    Picks,
    Slot,
    StepBuilder,
    Word,
)


def pick_rows(kept: np.ndarray, size: int, stages: int, row_bytes: int, depth: int) -> Picks:
    """The steps of a tile that keeps these places of stages, in ascending order.

    Values have `size` bytes, and rows of stages so many. Steps are blocks of `depth` of them, at
    least one, and never more than those of all places.
    """
    per_word, stage_words = WORD_BYTES // size, row_bytes // WORD_BYTES
    builder = StepBuilder(per_word, stage_words, depth)
    words, ends = np.unique(kept // per_word, return_index=True)
    groups = np.split(kept % per_word, ends[1:]) if len(words) else []
    by_stage: list[list[Word]] = [[] for _ in range(stages)]
    for word, values in zip(words.tolist(), groups, strict=True):
        stage = word // stage_words
        by_stage[stage].append(Word(stage, word % stage_words, values.tolist()))
    pool: list[Word] = []
    full = depth * STEP_WORDS * per_word
    for stage in range(stages):
        builder.wait()
        pool += by_stage[stage]
        last = stage == stages - 1
        while pool and (last or pool[0].stage < stage or _values(pool) >= full):
            builder.block(_take_block(pool, per_word, depth), stage)
    if not builder.rows:  # which reads something that is there
        builder.advance = 1
        builder.block([], 0)
    every = StepBuilder(per_word, stage_words, depth)
    if len(builder.rows) > blocks_of_all(stages, row_bytes, depth) * depth:
        found = _all_places(every, stages)
        return replace(found, rows=np.where(np.isin(found.rows, kept), found.rows, NO_ROW))
    return builder.picks()


def blocks_of_all(stages: int, row_bytes: int, depth: int) -> int:
    """Blocks of `depth` steps of all places of stages; a block reads two stages at most."""
    return -(-stages * (row_bytes // WORD_BYTES // STEP_WORDS) // depth)


def _all_places(builder: StepBuilder, stages: int) -> Picks:
    """Each register a word of its own, of all places."""
    taken = [(0, value) for value in range(builder.per_word)]
    steps: list[list[Slot]] = []
    for stage in range(stages):
        builder.wait()
        for first in range(0, builder.stage_words, STEP_WORDS):
            steps.append([Slot([Word(stage, first + i, [])], taken) for i in range(STEP_WORDS)])
            if len(steps) == builder.depth:
                builder.block(steps, stage)
                steps = []
    if steps:
        builder.block(steps, stages - 1)
    return builder.picks()


def _values(pool: Sequence[Word]) -> int:
    return sum(len(word.values) for word in pool)


def _take_block(pool: list[Word], per_word: int, depth: int) -> list[list[Slot]]:
    """The steps of a block, as long as the pool has words, oldest words first.

    Quads whose registers are a word each come first.
    """
    whole = _whole_words(pool, per_word, depth)
    for word in whole:
        pool.remove(word)
    quads = [_take_quad(whole, per_word) for _ in range(len(whole) // LANES)]
    while pool and len(quads) < 2 * depth:
        quads.append(_take_quad(pool, per_word))
    pairs = [quads[at : at + 2] for at in range(0, len(quads), 2)]
    return [[slot for quad in pair for slot in quad] for pair in pairs]


def _whole_words(pool: Sequence[Word], per_word: int, depth: int) -> list[Word]:
    """Words that are registers alone, those of whole quads, among what a block can take."""
    found, values = [], 0
    for word in pool:
        values += len(word.values)
        if values > depth * STEP_WORDS * per_word:
            break
        if len(word.values) == per_word:
            found.append(word)
    return found[: len(found) // LANES * LANES]


def _take_quad(pool: list[Word], per_word: int) -> list[Slot]:
    """Up to four registers, whose words of one read are in different banks where there are such."""
    quad: list[Slot] = []
    columns: tuple[set[int], set[int]] = set(), set()
    while pool and len(quad) < LANES:
        slot = _take_slot(pool, per_word, columns)
        quad.append(slot)
        for word, held in zip(slot.words, columns, strict=False):
            held.add(word.column)
    return quad


def _take_slot(pool: list[Word], per_word: int, columns: tuple[set[int], set[int]]) -> Slot:
    """One register: an old word, and one that fills it up, in columns that are free."""
    oldest = [word for word in pool if word.stage == pool[0].stage]
    first = min(oldest, key=lambda word: sum(word.column in taken for taken in columns))
    pool.remove(first)
    needed = per_word - len(first.values)
    if not needed or not pool:
        return Slot([first], [(0, value) for value in first.values])
    turned = first.column in columns[0] and first.column not in columns[1]
    free = columns[0] if turned else columns[1]

    def preference(word: Word) -> tuple[bool, bool, int]:
        """Words that fill up, in a free column, with the least rest; then the largest."""
        count = len(word.values)
        return count < needed, word.column in free, abs(count - needed)

    second = min(pool, key=preference)
    more, second.values = second.values[:needed], second.values[needed:]
    if not second.values:
        pool.remove(second)
    taken = [(0, value) for value in first.values] + [(1, value) for value in more]
    slot = Slot([first, second], taken)
    return slot.turned if turned else slot
