"""Clusters: where a kernel arrives at the barrier of its cluster, and where it waits."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from autoq.kernel.lowering import cuda_source, lower
from autoq.templates.base import Template
from autoq.templates.cuda.halo import conv2d_halo
from autoq.templates.cuda.halo.swapped import conv2d_swapped
from autoq.templates.cuda.wgmma import conv2d_im2col
from autoq.templates.cuda.wgmma.config import Grid, Shared, SplitTeam
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOAD = Conv2d(n=4, h=16, w=16, c=256, k=256, r=3, s=3, padding=(1, 1, 1, 1))


def calls(template: Template, changes: dict[str, Any]) -> tuple[int, int]:
    """Places of a kernel's body that arrive at the cluster's barrier, and that wait there."""
    config = dataclasses.replace(template.default(WORKLOAD, TARGET), **changes)
    assert template.space(WORKLOAD, TARGET).rejection(config) is None
    source = cuda_source(lower(template.build(WORKLOAD, config, TARGET), TARGET), TARGET)
    lines = [line for line in source.splitlines() if line.rstrip().endswith("();")]
    arrives = sum("barrier_cluster_arrive" in line for line in lines)
    return arrives, sum("barrier_cluster_wait" in line for line in lines)


@pytest.mark.parametrize("template", [conv2d_halo.TEMPLATE, conv2d_swapped.TEMPLATE])
def test_halo_kernels_meet_at_the_start(template: Template) -> None:
    assert calls(template, {"cluster": 2}) == (1, 1)
    assert calls(template, {"cluster": 1}) == (0, 0)


@pytest.mark.parametrize("shared", [Shared.WEIGHTS, Shared.ACTIVATIONS, Shared.REDUCTION])
def test_producers_and_consumers_of_the_pipeline_both_wait(shared: Shared) -> None:
    grid = Grid(shared is not Shared.REDUCTION, 2, shared)
    changes = {"grid": grid, "stages": 4, "block_n": 64, "m_blocks": 1}
    assert calls(conv2d_im2col.TEMPLATE, {**changes, "team": SplitTeam(1, True)}) == (1, 2)
