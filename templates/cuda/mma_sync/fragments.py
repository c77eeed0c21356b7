"""Which fragments a warp loads, when, and into which registers: worked out before the kernel runs.

Loads and operands are indexed by genuine indices, as in the paper's Algorithm 1: fragments of
different filter taps that are the same data are one load and stay in registers until their last
use. Without reuse every tap loads all its fragments again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoq.templates.cuda.mma_sync.box import PixelBox


@dataclass(frozen=True)
class FragmentLoad:
    """One ldmatrix of one or two fragments, each 32 bytes of 8 pixels.

    slots: of the fragments' first pixels, counted from the warp's first; registers: the pair of
    registers that each goes to.
    """

    k_tile: int
    slots: tuple[int, ...]
    pairs: tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """The multiplications of one k-tile of one filter tap.

    loads: what has to be read before, in addition to what is held; operands: the register pair of
    each of the warp's fragments.
    """

    k_tile: int
    tap: int
    loads: tuple[FragmentLoad, ...]
    operands: tuple[int, ...]


@dataclass(frozen=True)
class FragmentSchedule:
    """The turns of one stage, and how many register pairs hold their fragments."""

    turns: tuple[Turn, ...]
    pairs: int

    @functools.cached_property
    def loaded(self) -> int:
        """Fragments read from shared memory."""
        return sum(len(load.slots) for turn in self.turns for load in turn.loads)


@functools.lru_cache(maxsize=1024)
def fragment_schedule(box: PixelBox, fragments: int, k_tiles: int, reuse: bool) -> FragmentSchedule:
    """The schedule of a warp with the first `fragments` fragments of a box.

    A turn's loads are issued one turn ahead. Taps are walked filter column by filter column or
    filter row by filter row, whichever holds fewer registers.
    """
    rows, columns = box.index.filter
    walks = (
        [row * columns + column for column in range(columns) for row in range(rows)],
        list(range(rows * columns)),
    )
    found = [_schedule(box, fragments, k_tiles, reuse, walk) for walk in walks]
    return min(found, key=lambda schedule: schedule.pairs)


def _schedule(
    box: PixelBox, fragments: int, k_tiles: int, reuse: bool, walk: Sequence[int]
) -> FragmentSchedule:
    order = [(k_tile, tap) for k_tile in range(k_tiles) for tap in walk]
    slots = [[box.fragment_slot(f, tap) for f in range(fragments)] for _, tap in order]
    keys = [
        [(k_tile, slot) if reuse else (k_tile, slot, tap) for slot in named]
        for (k_tile, tap), named in zip(order, slots, strict=True)
    ]
    pair_of, loaded, pairs = _allocate(keys)
    turns = tuple(
        Turn(
            k_tile,
            tap,
            tuple(
                FragmentLoad(k_tile, tuple(key[1] for key in two), tuple(pair_of[k] for k in two))
                for two in _by_twos(loaded[turn])
            ),
            tuple(pair_of[key] for key in keys[turn]),
        )
        for turn, (k_tile, tap) in enumerate(order)
    )
    return FragmentSchedule(turns, pairs)


def _allocate(keys: Sequence[Sequence[tuple]]) -> tuple[dict, list[list[tuple]], int]:
    """Register pair of each key, the keys first needed in each turn, and the number of pairs.

    A pair is taken one turn before the first use, and free again behind the turn of the last.
    """
    last = {key: turn for turn, named in enumerate(keys) for key in named}
    pair_of: dict[tuple, int] = {}
    free: list[int] = []
    held: list[tuple] = []
    loaded: list[list[tuple]] = []
    pairs = 0
    for turn, named in enumerate(keys):
        released = [key for key in held if last[key] < turn - 1]
        free = sorted([*free, *(pair_of[key] for key in released)])
        held = [key for key in held if last[key] >= turn - 1]
        fresh = [key for key in dict.fromkeys(named) if key not in pair_of]
        for key in fresh:
            if not free:
                free, pairs = [pairs], pairs + 1
            pair_of[key] = free.pop(0)
        held += fresh
        loaded.append(fresh)
    return pair_of, loaded, pairs


def _by_twos(keys: Sequence[tuple]) -> Iterable[Sequence[tuple]]:
    return (keys[i : i + 2] for i in range(0, len(keys), 2))
