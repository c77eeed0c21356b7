"""Clusters and split reductions of the wgmma pipeline: parts, slices, places, tiles, kernels."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tvm.sym
from wgmma_cases import TARGET, TEMPLATES, case_id, shared_cases

from autoq.kernel import compile_kernel
from autoq.templates.cuda.wgmma import conv2d_im2col, conv2d_tap, gemm_wgmma
from autoq.templates.cuda.wgmma.config import Grid, Operand, Shared
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.operators.gemm import Gemm
from autoq.templates.workload import Workload

ANALYZER = tvm.sym.Analyzer()
LOADS = {module.TEMPLATE.name: module._load for module in (gemm_wgmma, conv2d_im2col, conv2d_tap)}

Case = tuple[str, Workload, Any]


# Drawn when a test first wants them: every process of a test run collects this file.
@functools.cache
def cases() -> list[Case]:
    """Kernels whose blocks or consumers share work."""
    return shared_cases(each=2)


def split() -> list[Case]:
    """Those that split the reduction."""
    return [case for case in cases() if case[2].parts > 1]


def multicast() -> list[Case]:
    """Those whose blocks load for each other."""
    return [case for case in cases() if case[2].receivers > 1]


def each_of(drawn: Callable[[], list[Case]]) -> Callable[[Callable[[Case], None]], Any]:
    """Makes a test over cases of what checks a single one."""

    def decorate(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            complaints = []
            for case in drawn():
                try:
                    check(case)
                except AssertionError as error:
                    complaints.append(f"{label(case)}: {error}")
            assert not complaints, "\n".join(complaints)

        return test

    return decorate


def plan_of(case: Case) -> PipelinePlan:
    """The plan of a kernel with a split reduction."""
    name, workload, config = case
    work = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    load = LOADS[name](work, config)
    return PipelinePlan(work, config, load.layout, load, TARGET)


def label(case: Case) -> str:
    """A readable test name."""
    config = case[2]
    grid = f"{config.grid.cluster}{config.grid.shared.value}"
    return f"{case_id(case[:2])}-{grid}-groups{config.team.k_groups}"


def constant(value: Any) -> int:
    """An expression over integers."""
    return value if isinstance(value, int) else int(ANALYZER.simplify(value))


def members(plan: PipelinePlan) -> list[tuple[int, int]]:
    """Rank and consumer of every warpgroup that shares a tile."""
    config = plan.config
    return list(itertools.product(range(config.split_k), range(config.consumers)))


def test_a_gpu_of_one_multiprocessor_runs_no_cluster() -> None:
    workload = Gemm(108, 71, 288)
    few, one = (gemm_wgmma.space(workload, TARGET.of_units(units)) for units in (2, 1))
    drawn = few.sample(np.random.default_rng(3), 100)
    grid = Grid(True, 2, Shared.WEIGHTS)
    clusters = (replace(each, grid=grid, stages=4, stream_k=False) for each in drawn)
    config = next(config for config in clusters if few.rejection(config) is None)
    assert "which run at once" in str(one.rejection(config))


def test_every_kind_is_covered() -> None:
    kinds = {(config.split_k, config.team.k_groups) for _, _, config in split()}
    assert {(2, 1), (4, 1), (8, 1), (1, 2), (2, 2)} <= kinds
    kinds = {(config.grid.shared, config.grid.cluster) for _, _, config in multicast()}
    assert kinds == {(Shared.WEIGHTS, 2), (Shared.WEIGHTS, 4), (Shared.ACTIVATIONS, 2)}


@each_of(split)
def test_parts_cover_the_reduction_of_every_row_once(case: Case) -> None:
    plan = plan_of(case)
    config = plan.config
    for row in range(config.row_team):
        covered = [
            plan.first_stage(rank) + plan.first_step(consumer) + i * config.team.k_groups
            for rank, consumer in members(plan)
            if consumer % config.row_team == row
            for i in range(plan.own_stages)
        ]
        assert sorted(covered) == list(range(plan.layout.stages))


@each_of(split)
def test_slices_cover_the_accumulators_once(case: Case) -> None:
    plan = plan_of(case)
    config = plan.config
    finished = []
    for part in range(config.parts):
        for step in range(plan.units):
            unit = plan.unit(step, part)
            first = part * config.slice_words + unit.accumulator
            assert first == unit.block * plan.block_accumulators + unit.group * 2 * plan.channels
            finished.append((unit.block, unit.group))
    every = itertools.product(range(config.m_blocks), range(plan.groups))
    assert sorted(finished) == sorted(every)


@each_of(split)
def test_partial_sums_have_places_of_their_own(case: Case) -> None:
    plan = plan_of(case)
    config = plan.config
    for receiver in range(config.consumers):
        for rank in range(config.split_k):
            part = plan.part(rank, receiver)
            senders = [other for other in range(config.parts) if other != part]
            places = [plan.memory.partial_at(receiver, part, sender) for sender in senders]
            assert sorted(places) == [
                plan.memory.arrived_at(receiver, i) for i in range(config.parts - 1)
            ]
    every = [
        plan.memory.arrived_at(receiver, i)
        for receiver, i in itertools.product(range(config.consumers), range(config.parts - 1))
    ]
    assert sorted(every) == list(
        range(plan.memory.exchange_offset, plan.memory.barrier_offset, plan.memory.slice_bytes)
    )
    end_of_slots = plan.memory.slot_offset + config.slots * config.slot_bytes
    assert plan.memory.exchange_offset == end_of_slots and end_of_slots % 16 == 0
    assert plan.memory.exchange_transaction == (config.parts - 1) * plan.memory.slice_bytes


@each_of(multicast)
def test_clusters_compute_every_tile_once(case: Case) -> None:
    plan = plan_of(case)
    tiles = []
    for work in range(plan.works):
        found = [plan.tile(work, rank) for rank in range(plan.receivers)]
        tiles += [(constant(m), constant(n)) for m, n in found]
        common = 1 if plan.config.grid.shared is Shared.WEIGHTS else 0
        assert len({tile[common] for tile in tiles[-plan.receivers :]}) == 1
    every = itertools.product(range(plan.load.m_tiles), range(plan.n_tiles))
    assert sorted(tiles) == sorted(every)


@each_of(multicast)
def test_every_block_of_a_multicast_computes_the_whole_reduction(case: Case) -> None:
    plan = plan_of(case)
    assert plan.block_stages == plan.layout.stages
    for rank in range(plan.config.grid.cluster):
        assert plan.first_stage(rank) == 0
        parts = {plan.part(rank, consumer) for consumer in range(plan.config.consumers)}
        assert parts == set(range(plan.config.parts))


@each_of(multicast)
def test_one_block_loads_the_shared_part_of_a_stage(case: Case) -> None:
    plan = plan_of(case)
    config = plan.config
    warps = 4 * config.row_team
    shared = Operand(config.grid.shared.value)
    own = Operand.WEIGHTS if shared is Operand.ACTIVATIONS else Operand.ACTIVATIONS
    for stage in range(config.stages):
        loaders = [r for r in range(config.grid.cluster) if plan.loads(shared, stage, r)]
        assert len(loaders) == 1
        assert all(plan.loads(own, stage, rank) for rank in range(config.grid.cluster))
        arrivals = [constant(plan.empty_arrivals(stage, r)) for r in range(config.grid.cluster)]
        expected = [
            warps * (config.grid.cluster if r in loaders else 1) for r in range(config.grid.cluster)
        ]
        assert arrivals == expected
    assert plan.delivery(shared).blocks == config.grid.cluster
    assert plan.delivery(own).blocks == 1


@each_of(lambda: cases()[::12])
def test_kernel_compiles_without_spills(case: Case) -> None:
    name, workload, config = case
    kernel = compile_kernel(TEMPLATES[name].build(workload, config, TARGET), TARGET)
    assert kernel.spill_bytes == 0
    (launch,) = kernel.launches
    plan = plan_of(case)
    assert launch.cluster == (config.grid.cluster, 1, 1)
    assert launch.grid == (plan.grid * config.grid.cluster, 1, 1)
    if config.split_k > 1:
        assert plan.grid == plan.tiles


def ends(stages: int, k_groups: int, steps: int) -> bool:
    """Whether a ring passes `steps`: each group leaves a stage behind its next one's products."""
    filled = 0
    taken = [0] * k_groups
    left: set[int] = set()
    while min(taken) < steps // k_groups:
        before = filled, tuple(taken)
        while filled < steps and (filled < stages or filled - stages in left):
            filled += 1
        for group in range(k_groups):
            step = group + taken[group] * k_groups
            if taken[group] < steps // k_groups and step < filled:
                left.add(step - k_groups)
                taken[group] += 1
        if before == (filled, tuple(taken)):
            return False
    return True


@each_of(split)
def test_no_ring_waits_for_itself(case: Case) -> None:
    plan = plan_of(case)
    assert ends(plan.config.stages, plan.config.team.k_groups, plan.block_stages)


def test_consumers_with_one_stage_each_are_not_legal() -> None:
    assert not ends(stages=2, k_groups=2, steps=8)
    name, workload, config = next(case for case in split() if case[2].team.k_groups == 2)
    complaint = TEMPLATES[name].space(workload, TARGET).rejection(replace(config, stages=2))
    assert complaint is not None and "two or more each" in complaint
