"""What is known of a task's candidates, and which of them meet its untuned default in a comparison.

A time that was measured alone may be lucky, so it is a claim only: it counts for good once the
candidate was timed in turn with the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from autoq.records.record import Record

# A claim this much slower than the best still takes part: times measured alone vary as much.
_WITHIN = 1.1
_MOST_CHALLENGERS = 3
# One challenger, and a further one for each so many claims.
_CLAIMS_A_CHALLENGER = 8


class Contest:
    """The latest word on every timed candidate of one task, by its code in the task's space.

    find_default: gives the code of the configuration that is used without tuning, None where there
    is none. It is asked when that matters first, since finding one takes up to a fifth of a second.

    Attributes:
        confirmed: whether there was a comparison yet.
        fastest: the fastest by the latest word on each, confirmed or not.
    """

    def __init__(self, find_default: Callable[[], int | None]) -> None:
        self._find_default = find_default
        self.confirmed = False
        self.fastest: Record | None = None
        self._records: dict[int, Record] = {}
        self._claims: set[int] = set()
        self._winner: int | None = None
        self._entrants: list[int] | None = None
        self._judged: set[int] | None = None

    @cached_property
    def default(self) -> int | None:
        """Code of the untuned default, None where there is none."""
        return self._find_default()

    @property
    def best(self) -> Record | None:
        """What `compile` will choose: the last comparison's fastest, else the fastest claim."""
        return self.fastest if self._winner is None else self._records[self._winner]

    @property
    def default_seconds(self) -> float | None:
        """The default's time, None while it is not known or when it does not work."""
        if not self._records or self.default is None:
            return None
        record = self._records.get(self.default)
        return None if record is None else record.seconds

    @property
    def default_is_best(self) -> bool:
        """Whether nothing is known to be better than the default."""
        return self.best is not None and self.best is self._records.get(self.default)

    @property
    def standing_seconds(self) -> float | None:
        """The time of the last comparison's winner, else that of the default."""
        winner = None if self._winner is None else self._records[self._winner]
        return self.default_seconds if winner is None else winner.seconds

    def claim(self, code: int, record: Record) -> None:
        """Take in a trial; of several of one candidate the last counts."""
        if record.seconds is not None:
            self._entrants = None
            self._records[code] = record
            self._claims.add(code)
            if self.fastest is None or _seconds(record) < _seconds(self.fastest):
                self.fastest = record

    def settle(self, found: Iterable[tuple[int, Record]], keep_claims: bool = False) -> None:
        """Take in a comparison.

        Claims from before it began that were not in it are given up, unless `keep_claims`.
        """
        if not keep_claims:
            self._give_up_judged()
        self._entrants = None
        timed: dict[int, Record] = {}
        for code, record in found:
            self._claims.discard(code)
            self._records.pop(code, None)
            if record.seconds is not None:
                self._records[code] = timed[code] = record
        if timed:
            self.confirmed = True
            self._winner = min(timed, key=lambda code: _seconds(timed[code]))
        elif self._winner not in self._records:
            self._winner = None
        self.fastest = min(self._records.values(), key=_seconds, default=None)

    def entrants(self) -> list[int]:
        """Codes for a comparison: the default, the winner so far, the best claims; [] without need.

        There is no need where no claim comes near what is known to be fastest, or where nothing
        is there to compare a claim with.
        """
        if self._entrants is None:
            self._entrants = self._choose_entrants()
        return self._entrants

    def begin(self) -> list[int]:
        """The entrants of a comparison that begins now; later claims await the next one."""
        entrants, standing = self.entrants(), self._standing()
        self._judged = set(self._claims if set(entrants) - set(standing) else standing)
        return entrants

    def _give_up_judged(self) -> None:
        """Give up the claims that a comparison was about: all, where none was begun here."""
        self._claims -= self._claims if self._judged is None else self._judged
        self._judged = None

    def fail(self) -> None:
        """Take in that a comparison could not be made: one of the claims may be to blame.

        All that it was about are given up, and what stood without them is confirmed alone.
        """
        standing = self._standing()
        self._give_up_judged()
        self._entrants = [] if standing == self._entrants else standing

    def _standing(self) -> list[int]:
        """The default and the winner so far, where they work."""
        codes = dict.fromkeys((self.default, self._winner))
        return [code for code in codes if code is not None and code in self._records]

    def _choose_entrants(self) -> list[int]:
        if not self._claims:
            return []
        standing = self._standing()
        bound = _WITHIN * min((_seconds(self._records[c]) for c in standing), default=float("inf"))
        claims = sorted(
            (code for code in self._claims if code not in standing),
            key=lambda code: _seconds(self._records[code]),
        )
        most = min(_MOST_CHALLENGERS, 1 + len(claims) // _CLAIMS_A_CHALLENGER)
        challengers = [code for code in claims if _seconds(self._records[code]) < bound][:most]
        together = [*standing, *challengers]
        return together if challengers and len(together) > 1 else []


def _seconds(record: Record) -> float:
    if record.seconds is None:
        raise ValueError(f"{record.identity} has no time")
    return record.seconds
