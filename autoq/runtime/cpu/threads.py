"""How many threads CPU kernels run on: one for each core of this process."""

from __future__ import annotations

import os
from pathlib import Path

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def use_every_core() -> None:
    """Make TVM's thread pool as large as there are cores, unless TVM_NUM_THREADS says otherwise.

    By itself TVM takes half of the logical processors, in the belief that each core shows up
    twice. Child processes inherit the setting.
    """
    os.environ.setdefault("TVM_NUM_THREADS", str(cores()))


def cores() -> int:
    """Cores this process may run on; the hyper-threads of one core count once."""
    processors = os.sched_getaffinity(0)
    return len({_siblings(processor) for processor in processors})


def _siblings(processor: int) -> str:
    try:
        return Path(_TOPOLOGY.format(processor)).read_text().strip()
    except OSError:
        return str(processor)
