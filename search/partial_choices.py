"""Choices of some knobs that no rule forbids, from which legal codes are drawn.

Of a space under many rules hardly any code is legal, and most rules read few knobs. The knobs are
therefore chosen one rule after the other: what is allowed of the knobs so far is multiplied by the
values of those that the next rule reads besides, and only what it allows is kept. A uniform draw of
these choices and of the other knobs' values, kept where the remaining rules hold, is a uniform draw
of the legal codes: every legal code is one choice with one completion, and all of these are as
likely as each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, prod

import numpy as np

from autoq.errors import AutoqError
from autoq.search.knobs import Knobs
from autoq.search.rule_table import RuleTable

# Choices that are kept, at most: a mebibyte of codes.
_MOST_CHOICES = 1 << 17
# Random codes by which the knobs that a rule reads are found, before it is asked for choices.
_PROBES = 256
# What a rule may raise about a code that an earlier rule forbids; it is then asked behind that one.
_REFUSALS = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, AutoqError)


class PartialChoices:
    """The choices of some knobs that are not forbidden, and how they are completed.

    Args:
        knobs: of the codes.
        tables: the rules in their order; each depends on nothing but the configuration.

    Attributes:
        codes: of the choices, int64 [choices], the other knobs at their first values.
        open_rules: the rules that the choices do not decide, in their order.
    """

    def __init__(self, knobs: Knobs, tables: Sequence[RuleTable]) -> None:
        self._knobs = knobs
        self.codes = np.zeros(1, np.int64)
        self.open_rules = list(tables)
        self._chosen: set[int] = {i for i, dim in enumerate(knobs.dims.tolist()) if dim == 1}
        shares = self._shares(tables)
        while found := self._next(shares):
            self._choose(found)
            decided = [one for one in shares if one.reads <= self._chosen]
            self._keep_allowed(decided)
            for one in decided:
                del shares[one]
        # The verdicts of rules that read little are soon all known, and cost a lookup.
        self._quick_first = sorted(self.open_rules, key=self._entries)
        dims = knobs.dims.tolist()
        self._open_knobs = [i for i in range(len(dims)) if i not in self._chosen]
        self._completions = prod(dims[i] for i in self._open_knobs)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Legal codes among n uniform draws of completed choices: int64 [at most n]."""
        if not len(self.codes):
            return self.codes
        choice, rest = np.divmod(
            rng.integers(0, len(self.codes) * self._completions, n), self._completions
        )
        codes = self.codes[choice]
        for knob in self._open_knobs:
            rest, position = np.divmod(rest, self._knobs.dims[knob])
            codes += position * self._knobs.strides[knob]
        try:
            return codes[allowed(self._knobs, self._quick_first, codes)]
        except _REFUSALS:
            # A rule was asked about what one before it forbids.
            self._quick_first = self.open_rules
            return codes[allowed(self._knobs, self.open_rules, codes)]

    def _entries(self, table: RuleTable) -> int:
        """Choices of the knobs that a rule reads."""
        return prod(int(self._knobs.dims[knob]) for knob in table.reads)

    def _shares(self, tables: Sequence[RuleTable]) -> dict[RuleTable, float]:
        """The share of random codes that each rule allows, of those that may be asked about them.

        Which knobs a rule reads is known then.
        """
        probes = np.random.default_rng(0).integers(0, self._knobs.size, _PROBES)
        columns, rows = self._knobs.positions(probes), np.arange(_PROBES)
        found = {}
        for table in tables:
            try:
                found[table] = max(table.mask(columns, rows).mean(), 0.5 / _PROBES)
            except _REFUSALS:
                continue
        return found

    def _next(self, shares: Mapping[RuleTable, float]) -> set[int]:
        """The knobs to choose next, none where too many choices would be to keep.

        Those that a rule still reads, of the rule with which most is forbidden for what they
        multiply the choices by, by all the rules together that are decided then.
        """
        best, found = 0.0, set[int]()
        for table in shares:
            more = table.reads - self._chosen
            growth = prod(int(self._knobs.dims[knob]) for knob in more)
            if growth * len(self.codes) > _MOST_CHOICES:
                continue
            decided = [share for one, share in shares.items() if one.reads - self._chosen <= more]
            score = (1e-3 - sum(map(log, decided))) / log(1 + growth)
            if score > best:
                best, found = score, more
        return found

    def _choose(self, knobs: set[int]) -> None:
        """Multiply the choices by the values of some knobs."""
        for knob in sorted(knobs):
            values = np.arange(self._knobs.dims[knob]) * self._knobs.strides[knob]
            self.codes = (self.codes[:, None] + values).ravel()
        self._chosen |= knobs

    def _keep_allowed(self, tables: Sequence[RuleTable]) -> None:
        """Keep the choices that rules allow which read nothing but what is chosen."""
        columns = self._knobs.positions(self.codes)
        rows = np.arange(len(self.codes))
        for table in tables:
            try:
                holds = table.mask(columns, rows)
            except _REFUSALS:
                continue
            if table.reads <= self._chosen:
                rows = rows[holds]
                self.open_rules.remove(table)
        self.codes = self.codes[rows]


def allowed(knobs: Knobs, tables: Sequence[RuleTable], codes: np.ndarray) -> np.ndarray:
    """Which of codes [n] all rules allow, each asked where those before it hold: bool [n]."""
    columns = knobs.positions(codes)
    rows = np.arange(len(codes))
    for table in tables:
        if not len(rows):
            break
        rows = rows[table.mask(columns, rows)]
    found = np.zeros(len(codes), dtype=bool)
    found[rows] = True
    return found
