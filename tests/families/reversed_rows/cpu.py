"""A template for CPUs with one knob, which changes nothing but the order of its loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload
from reversed_rows.operator import ReversedRows


@dataclass(frozen=True)
class ReversalConfig:
    """The one knob.

    upwards: whether rows are written from the last to the first.
    """

    upwards: bool = False


def computes(workload: Workload, target: Target) -> bool:
    """Every reversal, on every CPU."""
    return target.kind == "cpu" and isinstance(workload, ReversedRows)


def space(workload: ReversedRows, target: Target) -> Space[ReversalConfig]:
    return Space(ReversalConfig, {"upwards": (False, True)}, ())


def default(workload: ReversedRows, target: Target) -> ReversalConfig:
    return ReversalConfig()


def build(workload: ReversedRows, config: ReversalConfig, target: Target) -> PrimFunc:
    rows, n, dtype = workload.rows, workload.n, workload.dtype

    @T.prim_func
    def main(
        x: T.Buffer((rows, n), dtype),
        added: T.Buffer((n,), dtype),
        y: T.Buffer((2 * rows, n), dtype),
    ):
        for step in range(rows):
            row = T.meta_var(rows - 1 - step if config.upwards else step)
            for column in range(n):
                y[row, column] = x[row, n - 1 - column]
                y[rows + row, column] = added[column]

    return main


def pack(
    workload: ReversedRows, config: ReversalConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    return (np.ascontiguousarray(constants["added"]),)


def packed(workload: ReversedRows, config: ReversalConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return workload.constants


TEMPLATE = Template("reversed_rows_cpu", 1, computes, space, default, build, pack, packed)
