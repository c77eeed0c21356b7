"""A template for CPUs: rows padded to the longest that the class of matrices allows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload
from spmm_peak.operator import SpmmPeak


@dataclass(frozen=True)
class PaddedConfig:
    """Knobs.

    lanes: columns of y that are summed together.
    """

    lanes: int


def computes(workload: Workload, target: Target) -> bool:
    """Every matrix, on every CPU."""
    return target.kind == "cpu" and isinstance(workload, SpmmPeak)


def space(workload: SpmmPeak, target: Target) -> Space[PaddedConfig]:
    def divides(config: PaddedConfig) -> bool:
        """lanes divide the columns"""
        return workload.n % config.lanes == 0

    return Space(PaddedConfig, {"lanes": (1, 2, 4, 8, 16)}, (divides,))


def default(workload: SpmmPeak, target: Target) -> PaddedConfig:
    return PaddedConfig(1)


def build(workload: SpmmPeak, config: PaddedConfig, target: Target) -> PrimFunc:
    m, n, k, lanes = workload.m, workload.n, workload.k, config.lanes
    longest = workload.structure.longest_row

    @T.prim_func
    def main(
        b: T.Buffer((k, n), "int8"),
        addend: T.Buffer((m, n), "int32"),
        values: T.Buffer((m, longest), "int32"),
        columns: T.Buffer((m, longest), "int32"),
        y: T.Buffer((m, n), "int32"),
        peak: T.Buffer((m,), "int32"),
    ):
        for row in range(m):
            for group in range(n // lanes):
                for lane in range(lanes):
                    y[row, group * lanes + lane] = addend[row, group * lanes + lane]
                for step in range(longest):
                    for lane in range(lanes):
                        y[row, group * lanes + lane] = y[row, group * lanes + lane] + values[
                            row, step
                        ] * T.cast(b[columns[row, step], group * lanes + lane], "int32")
            peak[row] = y[row, 0]
            for column in range(n):
                peak[row] = T.max(peak[row], y[row, column])

    return main


def pack(
    workload: SpmmPeak, config: PaddedConfig, constants: Constants
) -> tuple[np.ndarray, np.ndarray]:
    """Values and columns int32 [m, longest row], rows filled up with zeros."""
    values = np.zeros((workload.m, workload.structure.longest_row), np.int32)
    columns = np.zeros_like(values)
    pointers = constants["pointers"]
    for row, (start, stop) in enumerate(itertools.pairwise(pointers)):
        values[row, : stop - start] = constants["values"][start:stop]
        columns[row, : stop - start] = constants["columns"][start:stop]
    return values, columns


def packed(workload: SpmmPeak, config: PaddedConfig) -> tuple[TensorSpec, TensorSpec]:
    """What `pack` gives."""
    shape = (workload.m, workload.structure.longest_row)
    return TensorSpec("values", shape, "int32"), TensorSpec("columns", shape, "int32")


TEMPLATE = Template("spmm_peak_cpu", 1, computes, space, default, build, pack, packed)
