"""What `autoq prune` prints: what was pruned of each layer, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoq.report.text import counts, duration, table


@dataclass(frozen=True)
class PrunedRow:
    """A weight that was pruned.

    k, n: its matrix. sparsity, lost: the shares of its weights and of their importance that went.
    dense_seconds, seconds: estimates; None where nothing is known.
    """

    layer: str
    k: int
    n: int
    sparsity: float
    lost: float
    structure: str
    dense_seconds: float | None
    seconds: float | None


def pruning_text(
    rows: Sequence[PrunedRow],
    left: Mapping[str, int],
    sparsity: float,
    dead_channels: int,
    estimated: str,
) -> str:
    """The report of a pruned model.

    left: why products were not pruned, and how many each. sparsity: of all pruned weights
    together. dead_channels: that were left out. estimated: which target the times are of, or why
    there are none.
    """
    header = (
        "layer", "k x n", "sparsity", "importance lost", "structure", "dense, estimated",
        "pruned, estimated",
    )  # fmt: skip
    cells = [
        (row.layer, f"{row.k} x {row.n}", f"{row.sparsity:.1%}", f"{row.lost:.1%}", row.structure,
         duration(row.dense_seconds), duration(row.seconds))
        for row in rows
    ]  # fmt: skip
    weights = sum(row.k * row.n for row in rows)
    known = [
        (r.dense_seconds, r.seconds) for r in rows if r.dense_seconds and r.seconds is not None
    ]
    lines = [
        table(header, cells, ("layer", "structure")),
        "",
        f"pruned {sparsity:.2%} of {weights:,} weights in {len(rows)} layers",
    ]
    if dead_channels:
        lines.append(f"left out: {dead_channels} channels that are constant")
    if left:
        lines.append(f"left as they are: {counts(left)}")
    if known:
        dense, pruned = (sum(column) for column in zip(*known, strict=True))
        estimated += f": {duration(dense)} dense, {duration(pruned)} pruned"
    lines.append(estimated)
    return "\n".join(lines)
