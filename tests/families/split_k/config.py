"""What both templates share: knobs, their space, constants and the workspaces between stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.program import Initially, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants
from split_k.operator import LongProduct

GROUP = 32
"""Outputs that a semaphore counts the parts of."""


@dataclass(frozen=True)
class SplitConfig:
    """Knobs.

    splits: parts of the reduction.
    ending: "stage" writes partial sums for a second stage to add up, "sum" adds into one set of
        sums that a second stage takes up, "semaphore" lets the last part finish in one stage.
    """

    splits: int
    ending: str


def space(workload: LongProduct, target: Target) -> Space[SplitConfig]:
    def divides(config: SplitConfig) -> bool:
        """splits divide the reduction"""
        return workload.k % config.splits == 0

    knobs = {"splits": (1, 2, 4, 8), "ending": ("stage", "sum", "semaphore")}
    return Space(SplitConfig, knobs, (divides,))


def default(workload: LongProduct, target: Target) -> SplitConfig:
    return SplitConfig(1, "stage")


def pack(
    workload: LongProduct, config: SplitConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The weight as it is, then scale and bias float32 [2, n]."""
    return constants["weight"], np.stack([constants["scale"], constants["bias"]])


def packed(workload: LongProduct, config: SplitConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    weight = TensorSpec("weight", (workload.n, workload.k), "int8")
    return weight, TensorSpec("affine", (2, workload.n), "float32")


def workspaces(workload: LongProduct, config: SplitConfig) -> dict[str, Workspace]:
    """The workspaces of a configuration by name."""
    outputs = workload.m * workload.n
    if config.ending == "sum":
        return {"sums": Workspace(TensorSpec("sums", (1, outputs), "int32"), Initially.ZERO)}
    partial = Workspace(TensorSpec("partial", (config.splits, outputs), "int32"))
    if config.ending == "stage":
        return {"partial": partial}
    arrived = TensorSpec("arrived", (-(-outputs // GROUP),), "int32")
    return {"partial": partial, "arrived": Workspace(arrived, Initially.STAYS_ZERO)}
