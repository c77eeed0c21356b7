"""A template for CPUs, without knobs."""

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
from batched_product.operator import BatchedProduct


@dataclass(frozen=True)
class PlainConfig:
    """The one configuration.

    unused: a knob of one value.
    """

    unused: int = 0


def computes(workload: Workload, target: Target) -> bool:
    """Every product, on every CPU."""
    return target.kind == "cpu" and isinstance(workload, BatchedProduct)


def space(workload: BatchedProduct, target: Target) -> Space[PlainConfig]:
    return Space(PlainConfig, {"unused": (0,)}, ())


def default(workload: BatchedProduct, target: Target) -> PlainConfig:
    return PlainConfig()


def build(workload: BatchedProduct, config: PlainConfig, target: Target) -> PrimFunc:
    batch, m, n, k = workload.batch, workload.m, workload.n, workload.k

    @T.prim_func
    def main(
        a: T.Buffer((batch, m, k), "int8"),
        b: T.Buffer((batch, n, k), "int8"),
        y: T.Buffer((batch, m, n), "int32"),
    ):
        for i in range(batch):
            for row in range(m):
                for column in range(n):
                    y[i, row, column] = 0
                    for step in range(k):
                        y[i, row, column] = y[i, row, column] + T.cast(
                            a[i, row, step], "int32"
                        ) * T.cast(b[i, column, step], "int32")

    return main


def pack(
    workload: BatchedProduct, config: PlainConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    return ()


def packed(workload: BatchedProduct, config: PlainConfig) -> tuple[TensorSpec, ...]:
    """No constants."""
    return ()


TEMPLATE = Template(
    "batched_product_cpu", 1, computes, space, default, build, pack, packed, tunable=False
)
