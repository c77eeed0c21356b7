"""Steps of a tile as they are made: which words each register of a fragment is put together from.

A register of a fragment of x holds a word's worth of values along k. A PRMT picks them out of any
two words of a row, so that values that a tile keeps become neighbours. Lanes of four read eight
rows each: the banks of swizzled rows differ where the places of their words in units of 16 bytes
do.
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
MOST_ADVANCE = 7
_FIRST_AT, _SECOND_AT, ADVANCE_AT, _ALONE_AT = 16, 22, 28, 31


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
class Word:
    """A word of a row of x, and which of its values are kept and not picked yet."""

    stage: int
    word: int
    values: list[int]

    @property
    def column(self) -> int:
        """Its place in a unit, on which its bank depends."""
        return self.word % UNIT_WORDS


@dataclass
class Slot:
    """A register: the words that it is put together from, and (word, value) of each place.

    spare: whether it multiplies weights of 0, as another one has what it reads.
    """

    words: list[Word]
    taken: list[tuple[int, int]]
    spare: bool = False

    @property
    def turned(self) -> Slot:
        """The same with its two words the other way round."""
        taken = [(1 - word, value) for word, value in self.taken]
        return replace(self, words=self.words[::-1], taken=taken)


@dataclass
class StepBuilder:
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
        if self.advance == MOST_ADVANCE:
            self.block([], 0)
        self.advance += 1

    def block(self, steps: Sequence[Sequence[Slot]], stage: int) -> None:
        """A block of steps of up to eight registers each."""
        spare = steps[0][0] if steps else Slot([Word(stage, 0, [])], [(0, 0)])
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

    def _quad(self, slots: Sequence[Slot], spare: Slot) -> None:
        """Words of four lanes. Places without a value read what another one has."""
        filled = [*slots, *[spare] * (LANES - len(slots))]
        second = {slot.words[1].column for slot in filled if len(slot.words) > 1}
        free = [column for column in range(UNIT_WORDS) if column not in second]
        alone = all(len(slot.words) == 1 for slot in filled)
        for at, slot in enumerate(filled):
            own = slot.taken if at < len(slots) and not slot.spare else []
            first = slot.words[0]
            if len(slot.words) > 1:
                other = slot.words[1]
            else:  # which nothing is picked from
                other = Word(first.stage, free.pop() if free else first.word, [])
            self.rows[-1] += [self._row(slot.words[word], value) for word, value in own]
            self.rows[-1] += [NO_ROW] * (self.per_word - len(own))
            told = self.advance << ADVANCE_AT | alone << _ALONE_AT
            self.how[-1].append(self._selector(slot) | told)
            self.words[-1].append((self._place(first), self._place(other)))

    def _place(self, word: Word) -> int:
        return word.stage * self.stage_words + word.word

    def _row(self, word: Word, value: int) -> int:
        return self._place(word) * self.per_word + value

    def _selector(self, slot: Slot) -> int:
        size = WORD_BYTES // self.per_word
        found = 0
        for place in range(self.per_word):
            word, value = slot.taken[min(place, len(slot.taken) - 1)]
            for byte in range(size):
                found |= (word * WORD_BYTES + value * size + byte) << 4 * (place * size + byte)
        return found
