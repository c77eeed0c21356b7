"""Split products on a CPU, in plain loops."""

from __future__ import annotations

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.base import Template
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from split_k.config import GROUP, SplitConfig, default, pack, packed, space, workspaces
from split_k.operator import LongProduct


def computes(workload: Workload, target: Target) -> bool:
    """Every product, on every CPU."""
    return target.kind == "cpu" and isinstance(workload, LongProduct)


def build(workload: LongProduct, config: SplitConfig, target: Target) -> Program:
    return program_of(workload, config, left=0)


def program_of(workload: LongProduct, config: SplitConfig, left: int) -> Program:
    """The program, whose semaphores are left at `left`: 0 in a right one."""
    spaces = workspaces(workload, config)
    given = ("a", "weight")
    if config.ending == "sum":
        stages = (
            Stage(add_parts(workload, config), (*given, "sums"), ("sums",)),
            Stage(finish(workload, 1), ("sums", "affine"), ("y",)),
        )
    elif config.ending == "stage":
        stages = (
            Stage(multiply(workload, config), given, ("partial",)),
            Stage(finish(workload, config.splits), ("partial", "affine"), ("y",)),
        )
    else:
        reads = (*given, "affine", "arrived")
        writes = ("arrived", "partial", "y")
        stages = (Stage(count_parts(workload, config, left), reads, writes),)
    return Program(stages, tuple(spaces.values()))


def multiply(workload: LongProduct, config: SplitConfig) -> PrimFunc:
    """Partial sums, each of one part of the reduction."""
    m, n, k, splits = workload.m, workload.n, workload.k, config.splits
    depth = k // splits

    @T.prim_func
    def main(
        a: T.Buffer((m, k), "int8"),
        weight: T.Buffer((n, k), "int8"),
        partial: T.Buffer((splits, m * n), "int32"),
    ):
        for split in range(splits):
            for row in range(m):
                for column in range(n):
                    partial[split, row * n + column] = 0
                    for step in range(depth):
                        partial[split, row * n + column] = partial[
                            split, row * n + column
                        ] + T.cast(a[row, split * depth + step], "int32") * T.cast(
                            weight[column, split * depth + step], "int32"
                        )

    return main


def add_parts(workload: LongProduct, config: SplitConfig) -> PrimFunc:
    """All parts added into sums that were cleared before."""
    m, n, k = workload.m, workload.n, workload.k

    @T.prim_func
    def main(
        a: T.Buffer((m, k), "int8"),
        weight: T.Buffer((n, k), "int8"),
        sums: T.Buffer((1, m * n), "int32"),
    ):
        for row in range(m):
            for column in range(n):
                for step in range(k):
                    sums[0, row * n + column] = sums[0, row * n + column] + T.cast(
                        a[row, step], "int32"
                    ) * T.cast(weight[column, step], "int32")

    return main


def finish(workload: LongProduct, splits: int) -> PrimFunc:
    """The epilogue over sums of `splits` parts."""
    m, n = workload.m, workload.n

    @T.prim_func
    def main(
        partial: T.Buffer((splits, m * n), "int32"),
        affine: T.Buffer((2, n), "float32"),
        y: T.Buffer((m, n), "float32"),
    ):
        for row in range(m):
            for column in range(n):
                y[row, column] = T.float32(0)
                for split in range(splits):
                    y[row, column] = y[row, column] + T.cast(
                        partial[split, row * n + column], "float32"
                    )
                y[row, column] = T.max(
                    y[row, column] * affine[0, column] + affine[1, column], T.float32(0)
                )

    return main


def count_parts(workload: LongProduct, config: SplitConfig, left: int) -> PrimFunc:
    """Each part counts itself for its group of outputs; the last one finishes the group."""
    m, n, k, splits = workload.m, workload.n, workload.k, config.splits
    depth, groups = k // splits, -(-m * n // GROUP)

    @T.prim_func
    def main(
        a: T.Buffer((m, k), "int8"),
        weight: T.Buffer((n, k), "int8"),
        affine: T.Buffer((2, n), "float32"),
        arrived: T.Buffer((groups,), "int32"),
        partial: T.Buffer((splits, m * n), "int32"),
        y: T.Buffer((m, n), "float32"),
    ):
        for split in range(splits):
            for group in range(groups):
                for lane in range(GROUP):
                    at: T.let[T.int32] = group * GROUP + lane
                    if at < m * n:
                        partial[split, at] = 0
                        for step in range(depth):
                            partial[split, at] = partial[split, at] + T.cast(
                                a[at // n, split * depth + step], "int32"
                            ) * T.cast(weight[at % n, split * depth + step], "int32")
                arrived[group] = arrived[group] + 1
                if arrived[group] == splits:
                    for lane in range(GROUP):
                        end: T.let[T.int32] = group * GROUP + lane
                        if end < m * n:
                            for part in range(splits - 1):
                                partial[splits - 1, end] = (
                                    partial[splits - 1, end] + partial[part, end]
                                )
                            y[end // n, end % n] = T.max(
                                T.cast(partial[splits - 1, end], "float32") * affine[0, end % n]
                                + affine[1, end % n],
                                T.float32(0),
                            )
                    arrived[group] = left

    return main


TEMPLATE = Template("long_product_cpu", 1, computes, space, default, build, pack, packed)
