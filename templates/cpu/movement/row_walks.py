"""In which walk over a row each value of a row formula is computed, and what is kept between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Walk:
    """One walk over a row, and what is computed of the row behind it.

    All are places among a formula's operands and values, in their order. values: of elements;
    reductions: what is joined on the way; kept: those values that later walks read; behind: values
    of the whole row.
    """

    values: list[int] = field(default_factory=list)
    reductions: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)


def walks_of(
    arguments: Sequence[Sequence[int]],
    operands: int,
    reduces: Sequence[bool],
    spans: Sequence[bool],
) -> list[Walk]:
    """The fewest walks for values with these arguments.

    arguments and reduces are those of the values, spans of the operands and the values. The first
    walk is empty: behind it lies what follows from the operands that a row has one number of.
    """
    walks = [Walk()]
    place_of = [0] * operands
    last_reading = [0] * len(spans)
    for index, read in enumerate(arguments):
        place = operands + index
        elements = spans[place] or reduces[index]
        # A number of the whole row is known to the elements of the next walk.
        number = max(place_of[a] + (elements and not spans[a]) for a in read)
        number = max(number, 1) if elements else number
        walks += [Walk() for _ in range(len(walks), number + 1)]
        place_of.append(number)
        if elements:
            for argument in read:
                last_reading[argument] = max(last_reading[argument], number)
        walk = walks[number]
        (walk.reductions if reduces[index] else walk.values if elements else walk.behind).append(
            place
        )
    for number, walk in enumerate(walks):
        walk.kept = [place for place in walk.values if last_reading[place] > number]
    return walks
