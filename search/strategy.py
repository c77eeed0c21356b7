"""What every search strategy is: something that is asked for configurations and told trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from autoq.search.trial import Trial

C = TypeVar("C")


class Strategy(Protocol[C]):
    """Ask and tell; the caller measures in between, in any order and number.

    A strategy is built as ``make(space, seed)``; the same seed and the same trials give the
    same sequence of configurations.
    """

    def ask(self, n: int) -> list[C]:
        """At most n distinct legal configurations, none asked for or told before.

        An empty list ends the search: every legal configuration has been seen.
        """
        ...

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in measurements, failures included.

        Old records may be replayed: configurations that were never asked for count as seen
        from now on, and those that are not in the space are passed over.
        """
        ...
