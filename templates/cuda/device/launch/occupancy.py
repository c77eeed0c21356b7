"""What the blocks that share a multiprocessor may each have of its registers and shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autoq.templates.target import Target

_REGISTER_STEP = 8
"""Registers of a thread are allocated in such steps."""
# Bytes that sm_75, which reserves no shared memory for a block, is left in each as well.
_LEAST_MARGIN = 1 << 10


def smem_margin(target: Target) -> int:
    """Shared memory that a block costs its multiprocessor beside its own, bytes."""
    return max(target.reserved_smem_bytes, _LEAST_MARGIN)


def shared_memory_fits(smem_bytes: int, blocks: int, target: Target) -> bool:
    """Whether so many blocks of so much shared memory fit a multiprocessor."""
    margin = smem_margin(target)
    together = blocks * (smem_bytes + margin)
    return smem_bytes <= target.smem_bytes and together <= target.smem_bytes + margin


def register_limit(threads: int, blocks: int, target: Target) -> int:
    """Registers that a thread may have within the multiprocessor's file."""
    share = target.register_file // (threads * blocks) // _REGISTER_STEP * _REGISTER_STEP
    return min(target.thread_registers, share)


def allocated(registers: int) -> int:
    """Registers that a thread takes of the file which needs so many."""
    return -(-registers // _REGISTER_STEP) * _REGISTER_STEP


def blocks_held(smem_bytes: int, registers: int, threads: int, target: Target) -> int:
    """Blocks that a multiprocessor holds at once, by the limits of the hardware alone.

    smem_bytes: of a block; registers: that each of its `threads` is allocated. 0 where one block
    does not fit.
    """
    return min(
        target.unit_smem_bytes // (smem_bytes + target.reserved_smem_bytes),
        target.register_file // (registers * threads),
        target.unit_threads // threads,
        target.unit_blocks,
    )


def blocks_that_fit(smem_bytes: int, registers: int, threads: int, target: Target) -> int:
    """Blocks that a multiprocessor has the shared memory, the registers and the threads for.

    smem_bytes: of a block, which has a margin here even where the hardware takes none; registers:
    of each of its `threads`, as a model of them says, not rounded to what is allocated.
    """
    margin = smem_margin(target)
    by_smem = (target.smem_bytes + margin) // (smem_bytes + margin)
    by_registers = target.register_file // (threads * registers)
    return min(by_smem, by_registers, target.unit_threads // threads)


def blocks_together(plan: Any, registers: int, target: Target) -> int:
    """Blocks of a plan that share a multiprocessor, as far as its grid has so many.

    plan: with `smem_bytes`, `blocks` of the grid and `config.threads`; registers: of a thread.
    """
    fitting = blocks_that_fit(plan.smem_bytes, registers, plan.config.threads, target)
    return max(1, min(fitting, -(-plan.blocks // target.units)))


def resource_rules(
    tiling_of: Callable[[Any], Any], registers: Callable[[Any, Target], int], target: Target
) -> list[Callable[[Any], bool]]:
    """What a target asks of configurations with `threads` and `blocks_per_sm`.

    tiling_of: the tiling of a configuration, with `smem_bytes`; registers: what a thread of a
    tiling needs.
    """

    def registers_suffice(config: Any) -> bool:
        """a thread's accumulators, fragments and copies fit its share of the registers"""
        limit = register_limit(config.threads, config.blocks_per_sm, target)
        return registers(tiling_of(config), target) <= limit

    def shared_memory_suffices(config: Any) -> bool:
        """the stages, or the results, of all blocks of a multiprocessor fit its shared memory"""
        return shared_memory_fits(tiling_of(config).smem_bytes, config.blocks_per_sm, target)

    return [registers_suffice, shared_memory_suffices]


def thread_rule(target: Target) -> Callable[[Any], bool]:
    """What a multiprocessor asks of configurations with `threads` and `blocks_per_sm`."""

    def threads_suffice(config: Any) -> bool:
        """All blocks of a multiprocessor have no more threads than it holds."""
        return config.threads * config.blocks_per_sm <= target.unit_threads

    return threads_suffice


def wave_features(blocks: int, together: int, target: Target) -> dict[str, float]:
    """Features of a grid: its blocks, and the waves that `together` a multiprocessor make of them.

    tail: how full waves are on average, as the last one is rarely whole.
    """
    waves = blocks / (target.units * together)
    return {"blocks": float(blocks), "waves": waves, "tail": waves / math.ceil(waves)}
