"""Sums of the mixed-input product that are scaled group by group, in float32.

A second set of accumulators holds the products of one group; its sum times the group's scale is
added to the accumulators that all groups share.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.mixed.conversion import Conversion
from autoq.templates.cuda.mixed.wgmma.config import STEP_K, MixedConfig
from autoq.templates.cuda.mixed.wgmma.multiply import convert, leave, multiply, next_stage


class GroupStages:
    """How the stages of a ring and the groups of a weight share the reduction.

    length: values of k that one sum adds up, at most a stage's; units: such sums of a stage;
    stages: consecutive stages of a consumer that add up to one sum.
    """

    def __init__(self, conversion: Conversion, config: MixedConfig) -> None:
        self.conversion, self.config = conversion, config
        group, stage_k = conversion.workload.group, STEP_K * config.steps
        self.length = math.gcd(group, stage_k)
        self.units = stage_k // self.length
        together = self.units == 1 and config.k_groups == 1
        self.stages = group // stage_k if together else 1

    def scales_at(self, unit: Any) -> Any:
        """Byte offset in a row block's stage of the scales of one of its sums."""
        first = unit * self.length
        within = first % STEP_K // self.length  # a group of less than a step is one sum
        return first // STEP_K * self.conversion.tile_bytes + (
            self.conversion.sum_scales_at + 256 * within
        )

    def starts(self, stage: Any) -> Any:
        """Whether a tile's stage, counted from k = 0, begins a sum."""
        return stage % self.stages == 0

    def ends(self, stage: Any) -> Any:
        """Whether it ends one."""
        return (stage + 1) % self.stages == 0


@T.inline
def add_sums(plan, accumulator, sums, words, stage, unit, thread):
    """Consumer: one sum of each row block, times its group's scale, to the accumulators.

    words: shared memory as float32.
    """
    for block in T.unroll(plan.config.row_blocks):
        at = T.meta_var(
            stage * plan.stage_bytes + plan.weight_offset
            + (thread.consumer * plan.config.row_blocks + block) * plan.block_bytes
            + plan.groups.scales_at(unit)
        )  # fmt: skip
        for half in T.unroll(2):
            row = T.meta_var(thread.warp * 16 + thread.lane // 4 + 8 * half)
            scale: T.float32 = words[at // 4 + row]
            for i in T.unroll(plan.atom.d_registers // 4):
                for value in T.unroll(2):
                    index = T.meta_var(block * plan.atom.d_registers + 4 * i + 2 * half + value)
                    accumulator[index] = accumulator[index] + sums[index] * scale


@T.inline
def main_loop_of_groups(plan, accumulator, sums, words, operands, cursor, piece, thread):
    """Consumer: all products of a piece of an output tile, scaled by groups."""
    for i in T.unroll(plan.config.accumulators):
        accumulator[i] = T.float32(0)
    cursor.wait()
    convert(plan, operands, 0, cursor.stage, thread)
    for pair in T.serial(piece.portions):
        for parity in T.unroll(2):
            at = T.meta_var(2 * (piece.first + pair) + parity)
            more = T.meta_var((pair < piece.portions - 1) | (parity < 1))
            kept = T.meta_var(
                T.Not(plan.groups.starts(at) | ((pair == 0) & (parity == 0)))
                if plan.groups.stages > 1 else False
            )  # fmt: skip
            cursor.held.stage = cursor.stage
            multiply(plan, sums, operands, parity, cursor.stage, kept, 0)
            next_stage(plan, cursor)
            if more:
                cursor.wait()
                convert(plan, operands, 1 - parity, cursor.stage, thread)
            for unit in T.unroll(plan.groups.units):
                if unit > 0:
                    multiply(plan, sums, operands, parity, cursor.held.stage, False, unit)
                T.ptx.wgmma.wait_group.sync.aligned(0)
                if plan.groups.ends(at) | T.Not(more):
                    add_sums(plan, accumulator, sums, words, cursor.held.stage, unit, thread)
            leave(plan, cursor.ring, cursor.held.stage, thread.lane)
