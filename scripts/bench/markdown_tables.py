"""Tables of docs/performance.md, and how they say times."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def us(value: float | None) -> str:
    """Microseconds to three digits, "-" for none."""
    if value is None:
        return "-"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(text: str, titles: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table behind a sentence."""
    lines = [titles, ["---"] * len(titles), *cells]
    rows = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([*textwrap.wrap(text, 100), "", *rows])
