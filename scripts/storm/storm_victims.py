"""The processes below a tuner, and the ways in which a storm ends them."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from pathlib import Path

import numpy as np

KINDS = {
    "tuner": 0.3,
    "worker": 0.25,
    "compiler": 0.1,
    "term": 0.1,
    "memory": 0.15,
    "largest": 0.1,
}
"""How likely each kind of kill is. "worker": SIGKILL to one process that the tuner has started;
"compiler": to something that such a process has started, else as "worker"; "term": SIGTERM;
"memory": a worker gets no more memory than it has; "largest": SIGKILL to the two that use most,
which is what the kernel does where memory runs out."""


def children(pid: int) -> list[int]:
    """Processes that the threads of a process have started."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Processes below a process."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def strike(kind: str, tuner: int, rng: np.random.Generator) -> list[int]:
    """End what `kind` says; the processes that were hit, none when there are none of the kind."""
    if kind == "tuner":
        return _send([tuner], signal.SIGKILL)
    workers = children(tuner)
    if not workers:
        return []
    chosen = [int(rng.choice(workers))]
    if kind == "compiler":
        below = [pid for worker in workers for pid in descendants(worker)]
        chosen = [int(rng.choice(below))] if below else chosen
    if kind == "largest":
        chosen = sorted(descendants(tuner), key=_resident, reverse=True)[:2]
    if kind == "memory":
        return [pid for pid in chosen if _starve(pid)]
    return _send(chosen, signal.SIGTERM if kind == "term" else signal.SIGKILL)


def _send(pids: list[int], number: signal.Signals) -> list[int]:
    hit = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            hit.append(pid)
    return hit


def _starve(pid: int) -> bool:
    """Let a process have no more address space than it has."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (_pages(pid)[0], hard))
        return True
    return False


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        return _pages(pid)[1]
    return 0


def _pages(pid: int) -> tuple[int, int]:
    """Bytes of a process's address space and of its memory."""
    size, resident, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    page = resource.getpagesize()
    return int(size) * page, int(resident) * page
