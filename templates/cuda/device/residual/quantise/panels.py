"""How columns are divided into panels, and the clusters of blocks that hold these."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.target import Target

_THREADS = 256
"""Threads of a block, each of which has 16 rows of four columns."""
THREADS_A_UNIT = 512
"""Threads of a multiprocessor, which leave each of them 128 registers."""
_CLUSTERS = (1, 2, 4, 8, 16)
"""Blocks of a cluster: of more than 8 a launch has to ask for, which the runtime does."""


@dataclass(frozen=True)
class Panels:
    """How clusters take panels, one after another of those that are left.

    threads: of a block; blocks: of a cluster; count: panels; clusters: that share them; columns: of
    a panel.
    """

    threads: int
    blocks: int
    count: int
    clusters: int
    columns: int = 16

    @property
    def rounds(self) -> bool:
        """Whether clusters take more than one."""
        return self.clusters < self.count


def panels_of(columns: int, length: int, target: Target, wide: bool = False) -> Panels | None:
    """Clusters that run together; None where none holds a panel.

    A few less of large ones than multiprocessors have room for, since those of a GPC may be no
    whole clusters. wide: panels have 32 columns instead of 16, and blocks half as many rows.
    """
    panel = 32 if wide else 16
    rows = 16 * _THREADS * 4 // panel
    blocks = next((n for n in _CLUSTERS if n * rows >= length), None)
    if target.compute_capability < 90 or blocks is None:
        return None
    count = blocks_for(columns, panel)
    resident = target.units * (THREADS_A_UNIT // _THREADS) // blocks
    if blocks > 2:
        resident = resident * (15 if blocks <= 8 else 14) // 16
    return Panels(_THREADS, blocks, count, min(count, max(1, resident)), panel)
