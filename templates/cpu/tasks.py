"""How the parallel tasks of a CPU kernel that moves memory share its elements."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.target import Target

LANES = 16
"""float32 lanes of a vector; LLVM splits it where registers are shorter."""

# Waking a second thread takes as long as moving about this much.
_TASK_BYTES = 128 << 10


def span(task: Expr, extent: int, tasks: int, multiple: int = 1) -> tuple[Expr, int]:
    """First element and constant length of a task's share of `extent` elements.

    The last shares move back over elements that others write too (with the same values).
    """
    share = -(-extent // (tasks * multiple)) * multiple
    share = min(share, extent)
    start = task * share
    return (start if share * tasks <= extent else T.min(start, extent - share)), share


def task_count(moved: int, target: Target) -> int:
    """Tasks that share the work of moving so many bytes with profit."""
    return max(1, min(target.units, moved // _TASK_BYTES))
