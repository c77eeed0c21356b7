"""The chunks of four k of which a sparse instruction keeps two, picked from rows of x.

A chunk holds rows of one group of a tile, or any two rows, of which no column has more than two
either. Of bytes a chunk is a register, put together of two words at most; of 16-bit floats it is
two registers of neighbouring lanes. Rows of one chunk lie in stages of x that are there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoq.templates.cuda.pruned.picked.steps import (
    LANES,
    STEP_WORDS,
    WORD_BYTES,
    Picks,
    Slot,
    StepBuilder,
    Word,
)
from autoq.templates.sparse.two_four import GROUP

REGISTERS = 4
"""Of a fragment of x, which a lane picks: two times those of a dense instruction."""
_DEPTH = REGISTERS * LANES // STEP_WORDS
_WORDS_OF_REGISTER = 2


@dataclass(frozen=True)
class Places:
    """How places of k lie: values of a word, and words of a stage."""

    per_word: int
    stage_words: int

    @property
    def chunks(self) -> int:
        """Chunks of a step."""
        return REGISTERS * LANES * self.per_word // GROUP

    def word(self, place: int) -> int:
        return place // self.per_word

    def stage(self, place: int) -> int:
        return place // (self.per_word * self.stage_words)


def chunk_picks(groups: Sequence[np.ndarray], size: int, stages: int, row_bytes: int) -> Picks:
    """The steps of a tile whose groups keep these places of stages, in ascending order.

    Values have `size` bytes, and rows of stages so many. What a step has is twice that of
    `pick_rows`: rows [2 * steps, values], of which each two belong together.
    """
    lying = Places(WORD_BYTES // size, row_bytes // WORD_BYTES)
    builder = StepBuilder(lying.per_word, lying.stage_words, _DEPTH)
    begun: list[list[list[int]]] = [[] for _ in range(stages)]
    for group in groups:
        for part in _parts([int(place) for place in group], lying):
            begun[lying.stage(part[-1])].append(part)
    pool: list[list[int]] = []
    for stage in range(stages):
        builder.wait()
        pool += begun[stage]
        while pool:
            chunks = _chunks(pool, lying)
            full = sum(len(chunk) > 1 for chunk in chunks) >= lying.chunks
            leaving = stage == stages - 1 or lying.stage(min(pool)[0]) < stage
            if not full and not leaving:
                break
            taken = chunks[: lying.chunks]
            builder.block(_quads(taken, lying), stage)
            held = {place for chunk in taken for place in chunk}
            pool = [part for part in pool if part[0] not in held]
    if not builder.rows:  # which reads something that is there
        builder.advance = 1
        builder.block([], 0)
    return builder.picks()


def most_steps(rows: int, groups: int, size: int, stages: int) -> int:
    """Most steps of a tile's rows in groups: full ones, and one that is not for each stage.

    All chunks of a full step but one have two rows at least. A group is in parts by the words of a
    register, and where two of its rows are two stages apart.
    """
    per_word = WORD_BYTES // size
    chunks = REGISTERS * LANES * per_word // GROUP
    parts = groups * (_WORDS_OF_REGISTER if per_word == GROUP else 1) + stages // 2
    return min(rows // (2 * chunks - 1), parts // chunks) + stages + 1


def _parts(group: list[int], lying: Places) -> list[list[int]]:
    """The group's places in as few chunks as there are, by the window and by words of a register.

    Of places in three words three are together, which leaves a place that any other one joins.
    """
    words = sorted({lying.word(place) for place in group})
    if lying.per_word == GROUP and len(words) > _WORDS_OF_REGISTER:
        first = [place for place in group if lying.word(place) in words[:_WORDS_OF_REGISTER]]
        last = [place for place in group if lying.word(place) in words[-_WORDS_OF_REGISTER:]]
        own = last if len(words) == 3 and len(last) > len(first) else first
        rest = [place for place in group if place not in own]
        return [part for half in sorted((own, rest)) for part in _near(half, lying)]
    return _near(group, lying)


def _near(places: list[int], lying: Places) -> list[list[int]]:
    """Places in parts that two neighbouring stages hold."""
    parts: list[list[int]] = []
    for place in places:
        if parts and lying.stage(place) - lying.stage(parts[-1][0]) <= 1:
            parts[-1].append(place)
        else:
            parts.append([place])
    return parts


def _chunks(pool: Sequence[list[int]], lying: Places) -> list[list[int]]:
    """What is to be picked, oldest stages first; places that are alone go two together."""
    alone = sorted(part[0] for part in pool if len(part) == 1)
    pairs = [alone[at : at + 2] for at in range(0, len(alone), 2)]
    chunks = [part for part in pool if len(part) > 1] + pairs
    return sorted(chunks, key=lambda chunk: (lying.stage(chunk[0]), len(chunk) == 1))


def _slots(chunk: Sequence[int], lying: Places) -> list[Slot]:
    """The registers of a chunk. Of two, words that both values of are kept are one alone."""
    if lying.per_word == GROUP:
        return [_slot(chunk, lying)]
    whole = [p for p in chunk if sum(lying.word(q) == lying.word(p) for q in chunk) == 2]
    ordered = [*whole, *(place for place in chunk if place not in whole)]
    first = _slot(ordered[:2], lying)
    second = _slot(ordered[2:], lying) if ordered[2:] else replace(first, spare=True)
    return [first, second]


def _slot(places: Sequence[int], lying: Places) -> Slot:
    numbers = sorted({lying.word(place) for place in places})
    words = [Word(*divmod(number, lying.stage_words), []) for number in numbers]
    taken = [(numbers.index(lying.word(place)), place % lying.per_word) for place in places]
    return Slot(words, taken)


def _quads(chunks: Sequence[Sequence[int]], lying: Places) -> list[list[Slot]]:
    """The registers of a step in the order of lanes, four of which read different banks at best.

    Those of one word each come together, as no lane of theirs reads a second one.
    """
    made = [_slots(chunk, lying) for chunk in chunks]
    left = sorted(made, key=lambda slots: max(len(slot.words) for slot in slots))
    ordered: list[Slot] = []
    while left:
        quad: list[Slot] = []
        while left and len(quad) < LANES:
            at, turned = _least_meeting(quad, left)
            quad += _turned(left.pop(at), turned)
        ordered += quad
    return [ordered[at : at + STEP_WORDS] for at in range(0, len(ordered), STEP_WORDS)]


def _least_meeting(quad: Sequence[Slot], left: Sequence[Sequence[Slot]]) -> tuple[int, bool]:
    """The next registers of a quad, and whether they are turned: the first ones that meet least."""
    found, least = (0, False), LANES * _WORDS_OF_REGISTER
    for at, slots in enumerate(left):
        for turned in (False, True):
            met = _meeting(quad, _turned(slots, turned))
            if met == 0:
                return at, turned
            if met < least:
                found, least = (at, turned), met
    return found


def _turned(slots: Sequence[Slot], turned: bool) -> list[Slot]:
    """The same registers with their two words the other way round, where they have two."""
    return [slot.turned if turned and len(slot.words) > 1 else slot for slot in slots]


def _meeting(quad: Sequence[Slot], more: Sequence[Slot]) -> int:
    """How many words of further registers lie in a bank of another word of the same read."""
    met = 0
    for number in range(_WORDS_OF_REGISTER):
        held = {_at(slot, number) for slot in quad if number < len(slot.words)}
        for slot in more:
            if number < len(slot.words):
                own = _at(slot, number)
                met += any(other[0] == own[0] and other != own for other in held)
                held.add(own)
    return met


def _at(slot: Slot, number: int) -> tuple[int, int, int]:
    word = slot.words[number]
    return word.column, word.stage, word.word
