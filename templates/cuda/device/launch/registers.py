"""Register budgets of warp-specialised blocks: what setmaxnreg gives producer and consumers."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.hardware import HARDWARE

# The architecture that has setmaxnreg.
_FILE = HARDWARE["sm_90a"].register_file
_WARPGROUP = 128
_STEP = 8
_MOST_CONSUMER = 232
_LEAST_PRODUCER, _MOST_PRODUCER = 24, 40


@dataclass(frozen=True)
class RegisterBudget:
    """Registers a thread at launch, of the producer warpgroup and of each consumer warpgroup."""

    launch: int
    producer: int
    consumer: int


def register_budget(
    consumers: int, blocks_per_unit: int, least_producer: int = _LEAST_PRODUCER, other: int = 0
) -> RegisterBudget:
    """Budget of blocks with one producer, which needs so many, and `consumers` consumer warpgroups.

    other: registers of a thread of one more warpgroup, 0 where there is none.

    A block's pool is what it was launched with; asking setmaxnreg for more than the pool holds
    would wait for ever.
    """
    warpgroups = consumers + 1 + (other > 0)
    launch = _FILE // _WARPGROUP // blocks_per_unit // warpgroups // _STEP * _STEP
    launch = min(launch, 256)
    pool = launch * warpgroups - other
    consumer = min(_MOST_CONSUMER, (pool - least_producer) // consumers // _STEP * _STEP)
    producer = min(max(_MOST_PRODUCER, least_producer), pool - consumers * consumer)
    return RegisterBudget(launch, producer, consumer)
