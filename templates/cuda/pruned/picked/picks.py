"""Which two words of a row of x each register of wgmma's left factor is put together from.

A register of a fragment holds a word's worth of values along k. A PRMT picks them out of any two
words of a row, so that values that a tile keeps become neighbours. Words lie in stages of up to 128
bytes of k, of which the newest two are there for a block of steps, those of a stage of weights.
Lanes of four read eight rows each: the banks of swizzled rows differ where the places of their
words in units of 16 bytes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

WORD_BYTES, UNIT_WORDS = 4, 4
"""Bytes of a word, and words of a unit of 16 bytes."""
STEP_WORDS = 8
"""Words of a row that an instruction multiplies: two of each of four lanes."""
LANES = 4
"""Lanes that read words of the same row."""
NO_ROW = -1
_MOST_ADVANCE = 7
_FIRST_AT, _SECOND_AT, _ADVANCE_AT, _ALONE_AT = 16, 22, 28, 31


@dataclass(frozen=True)
class Picks:
    """The steps of a tile, one instruction's reduction each.

    rows: int64 [steps, values], which place of all stages each value of a step is, NO_ROW for a
    weight of 0.
    how: uint32 [steps, 4, 2] of a lane of four and a half of a step: the selector of PRMT, in three
    bits how many stages begin with the block, which all of its first step have, and in the highest
    bit that no lane of the half picks anything of its second word.
    words: int64 [steps, 4, 2, 2], which two words of all stages it picks from.
    """

    rows: np.ndarray
    how: np.ndarray
    words: np.ndarray

    def near(self, stage_words: int) -> np.ndarray:
        """uint32 [steps, 4, 2]: `how`, and of words of the newest two stages in six bits each.

        They are five of its place in a stage and one that tells odd stages.
        """
        stage, word = np.divmod(self.words, stage_words)
        places = (word | (stage & 1) << 5).astype(np.uint32)
        return self.how | places[..., 0] << _FIRST_AT | places[..., 1] << _SECOND_AT


@dataclass
class _Word:
    """A word of a row of x, and which of its values are kept and not picked yet."""

    stage: int
    word: int
    values: list[int]

    @property
    def column(self) -> int:
        """Its place in a unit, on which its bank depends."""
        return self.word % UNIT_WORDS


@dataclass
class _Slot:
    """A register: the words that it is put together from, and (word, value) of each place."""

    words: list[_Word]
    taken: list[tuple[int, int]]

    @property
    def turned(self) -> _Slot:
        """The same with its two words the other way round."""
        return _Slot(self.words[::-1], [(1 - word, value) for word, value in self.taken])


@dataclass
class _Builder:
    """Steps of a tile as they are made."""

    per_word: int
    stage_words: int
    depth: int
    rows: list[list[int]] = field(default_factory=list)
    how: list[list[int]] = field(default_factory=list)
    words: list[list[tuple[int, int]]] = field(default_factory=list)
    advance: int = 0

    def wait(self) -> None:
        """A stage more, which begins with the next block."""
        if self.advance == _MOST_ADVANCE:
            self.block([], 0)
        self.advance += 1

    def block(self, steps: Sequence[Sequence[_Slot]], stage: int) -> None:
        """A block of steps of up to eight registers each."""
        spare = steps[0][0] if steps else _Slot([_Word(stage, 0, [])], [(0, 0)])
        for slots in [*steps, *[[]] * (self.depth - len(steps))]:
            self.rows.append([])
            self.how.append([])
            self.words.append([])
            for half in range(2):
                self._quad(slots[LANES * half : LANES * (half + 1)], spare)
            self.advance = 0

    def picks(self) -> Picks:
        """All steps; [steps, halves, lanes] of words become [steps, lanes, halves]."""
        how = np.array(self.how, np.uint32).reshape(-1, 2, LANES).transpose(0, 2, 1)
        words = np.array(self.words, np.int64).reshape(-1, 2, LANES, 2).transpose(0, 2, 1, 3)
        return Picks(np.array(self.rows, np.int64), how, words)

    def _quad(self, slots: Sequence[_Slot], spare: _Slot) -> None:
        """Words of four lanes. Places without a value read what another one has."""
        filled = [*slots, *[spare] * (LANES - len(slots))]
        second = {slot.words[1].column for slot in filled if len(slot.words) > 1}
        free = [column for column in range(UNIT_WORDS) if column not in second]
        alone = all(len(slot.words) == 1 for slot in filled)
        for at, slot in enumerate(filled):
            own = slot.taken if at < len(slots) else []
            first = slot.words[0]
            if len(slot.words) > 1:
                other = slot.words[1]
            else:  # which nothing is picked from
                other = _Word(first.stage, free.pop() if free else first.word, [])
            self.rows[-1] += [self._row(slot.words[word], value) for word, value in own]
            self.rows[-1] += [NO_ROW] * (self.per_word - len(own))
            told = self.advance << _ADVANCE_AT | alone << _ALONE_AT
            self.how[-1].append(self._selector(slot) | told)
            self.words[-1].append((self._place(first), self._place(other)))

    def _place(self, word: _Word) -> int:
        return word.stage * self.stage_words + word.word

    def _row(self, word: _Word, value: int) -> int:
        return self._place(word) * self.per_word + value

    def _selector(self, slot: _Slot) -> int:
        size = WORD_BYTES // self.per_word
        found = 0
        for place in range(self.per_word):
            word, value = slot.taken[min(place, len(slot.taken) - 1)]
            for byte in range(size):
                found |= (word * WORD_BYTES + value * size + byte) << 4 * (place * size + byte)
        return found


def pick_rows(kept: np.ndarray, size: int, stages: int, row_bytes: int, depth: int) -> Picks:
    """The steps of a tile that keeps these places of stages, in ascending order.

    Values have `size` bytes, and rows of stages so many. Steps are blocks of `depth` of them, at
    least one, and never more than those of all places.
    """
    per_word, stage_words = WORD_BYTES // size, row_bytes // WORD_BYTES
    builder = _Builder(per_word, stage_words, depth)
    words, ends = np.unique(kept // per_word, return_index=True)
    groups = np.split(kept % per_word, ends[1:]) if len(words) else []
    by_stage: list[list[_Word]] = [[] for _ in range(stages)]
    for word, values in zip(words.tolist(), groups, strict=True):
        stage = word // stage_words
        by_stage[stage].append(_Word(stage, word % stage_words, values.tolist()))
    pool: list[_Word] = []
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
    every = _Builder(per_word, stage_words, depth)
    if len(builder.rows) > blocks_of_all(stages, row_bytes, depth) * depth:
        found = _all_places(every, stages)
        return replace(found, rows=np.where(np.isin(found.rows, kept), found.rows, NO_ROW))
    return builder.picks()


def blocks_of_all(stages: int, row_bytes: int, depth: int) -> int:
    """Blocks of `depth` steps of all places of stages; a block reads two stages at most."""
    return -(-stages * (row_bytes // WORD_BYTES // STEP_WORDS) // depth)


def _all_places(builder: _Builder, stages: int) -> Picks:
    """Each register a word of its own, of all places."""
    taken = [(0, value) for value in range(builder.per_word)]
    steps: list[list[_Slot]] = []
    for stage in range(stages):
        builder.wait()
        for first in range(0, builder.stage_words, STEP_WORDS):
            steps.append([_Slot([_Word(stage, first + i, [])], taken) for i in range(STEP_WORDS)])
            if len(steps) == builder.depth:
                builder.block(steps, stage)
                steps = []
    if steps:
        builder.block(steps, stages - 1)
    return builder.picks()


def _values(pool: Sequence[_Word]) -> int:
    return sum(len(word.values) for word in pool)


def _take_block(pool: list[_Word], per_word: int, depth: int) -> list[list[_Slot]]:
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


def _whole_words(pool: Sequence[_Word], per_word: int, depth: int) -> list[_Word]:
    """Words that are registers alone, those of whole quads, among what a block can take."""
    found, values = [], 0
    for word in pool:
        values += len(word.values)
        if values > depth * STEP_WORDS * per_word:
            break
        if len(word.values) == per_word:
            found.append(word)
    return found[: len(found) // LANES * LANES]


def _take_quad(pool: list[_Word], per_word: int) -> list[_Slot]:
    """Up to four registers, whose words of one read are in different banks where there are such."""
    quad: list[_Slot] = []
    columns: tuple[set[int], set[int]] = set(), set()
    while pool and len(quad) < LANES:
        slot = _take_slot(pool, per_word, columns)
        quad.append(slot)
        for word, held in zip(slot.words, columns, strict=False):
            held.add(word.column)
    return quad


def _take_slot(pool: list[_Word], per_word: int, columns: tuple[set[int], set[int]]) -> _Slot:
    """One register: an old word, and one that fills it up, in columns that are free."""
    oldest = [word for word in pool if word.stage == pool[0].stage]
    first = min(oldest, key=lambda word: sum(word.column in taken for taken in columns))
    pool.remove(first)
    needed = per_word - len(first.values)
    if not needed or not pool:
        return _Slot([first], [(0, value) for value in first.values])
    turned = first.column in columns[0] and first.column not in columns[1]
    free = columns[0] if turned else columns[1]

    def preference(word: _Word) -> tuple[bool, bool, int]:
        """Words that fill up, in a free column, with the least rest; then the largest."""
        count = len(word.values)
        return count < needed, word.column in free, abs(count - needed)

    second = min(pool, key=preference)
    more, second.values = second.values[:needed], second.values[needed:]
    if not second.values:
        pool.remove(second)
    taken = [(0, value) for value in first.values] + [(1, value) for value in more]
    slot = _Slot([first, second], taken)
    return slot.turned if turned else slot
