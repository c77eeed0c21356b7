"""CPU templates for a Gemm with int32 output whose candidates can be made to misbehave."""

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tvm.script import tirx as T

from autoq.errors import BuildError
from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

BEHAVIOURS = (
    "right",
    "wrong",
    "unwritten",
    "overwrites_input",
    "crash",
    "hang",
    "build_error",
    "build_bug",
    "build_crash",
    "build_hang",
)

HANG_AT = "AUTOQ_TEST_HANG_AT"
"""Holds FILE:LINES where compilers hang as soon as a file of records has so many lines."""


@dataclass(frozen=True)
class FakeConfig:
    block: int
    order: str
    behaviour: str


def workload(m: int = 16, n: int = 24, k: int = 32) -> Gemm:
    return Gemm(m, n, k, epilogue=Epilogue(out_dtype="int32"))


def _matches(workload: object, target: Target) -> bool:
    integer = isinstance(workload, Gemm) and workload.epilogue.out_dtype == "int32"
    return integer and target.kind == "cpu"


def _space(behaviours: tuple[str, ...]):
    def space(workload: Gemm, target: Target) -> Space[FakeConfig]:
        def divides(config: FakeConfig) -> bool:
            """block must divide the columns"""
            return workload.n % config.block == 0

        knobs = {
            "block": (1, 2, 3, 4, 6, 8, 12, 16, 24),
            "order": ("mn", "nm"),
            "behaviour": behaviours,
        }
        return Space(FakeConfig, knobs, (divides,))

    return space


def _default(workload: Gemm, target: Target) -> FakeConfig:
    return FakeConfig(1, "mn", "right")


def _hang_at(records: Path, least: int) -> None:
    """Wait to be killed if a file has so many lines, and say so in a file beside it."""
    while records.exists() and records.read_bytes().count(b"\n") >= least:
        records.with_name("held").touch()
        time.sleep(0.05)


def _build(workload: Gemm, config: FakeConfig, target: Target):
    if HANG_AT in os.environ:
        records, _, least = os.environ[HANG_AT].rpartition(":")
        _hang_at(Path(records), int(least))
    if config.behaviour == "build_error":
        raise BuildError("the compiler refuses")
    if config.behaviour == "build_bug":
        raise ZeroDivisionError("a bug in the template")
    if config.behaviour == "build_crash":
        os.abort()
    if config.behaviour == "build_hang":
        time.sleep(1000)
    if config.behaviour == "full_disk" and workload.k < 32:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    m, n, k, block = workload.m, workload.n, workload.k, config.block
    extra = 1 if config.behaviour == "wrong" else 0
    rows = m - 1 if config.behaviour == "unwritten" else m
    outer, inner = (rows, n // block) if config.order == "mn" else (n // block, rows)
    by_rows = config.order == "mn"

    @T.prim_func
    def main(
        x: T.Buffer((m, k), "int8"),
        w: T.Buffer((n, k), "int8"),
        bias: T.Buffer((n,), "int32"),
        y: T.Buffer((m, n), "int32"),
    ):
        if config.behaviour == "crash":
            T.evaluate(T.call_extern("int32", "abort"))
        if config.behaviour == "hang":
            T.evaluate(T.call_extern("int32", "sleep", 1000))
        if config.behaviour == "overwrites_input":
            x[0, 0] = x[0, 0] + T.int8(1)
        for first in range(outer):
            for second in range(inner):
                for lane in range(block):
                    row: T.let[T.int32] = T.Select(by_rows, first, second)
                    column: T.let[T.int32] = T.Select(by_rows, second, first) * block + lane
                    y[row, column] = bias[column] + extra
                    for step in range(k):
                        y[row, column] = y[row, column] + T.cast(x[row, step], "int32") * T.cast(
                            w[column, step], "int32"
                        )

    return main


def pack(workload: Gemm, config: FakeConfig, constants):
    weight = constants["weight"]
    sums = weight.astype(np.int64).sum(axis=1)
    bias = constants["bias"].astype(np.int64) - constants["x_zero_point"] * sums
    return weight, bias.astype(np.int32)


def packed(workload: Gemm, config: FakeConfig) -> tuple[TensorSpec, ...]:
    weight = TensorSpec("w", (workload.n, workload.k), "int8")
    return weight, TensorSpec("bias", (workload.n,), "int32")


def _fake(name: str, behaviours: tuple[str, ...], version: int = 1) -> Template:
    return Template(name, version, _matches, _space(behaviours), _default, _build, pack, packed)


TEMPLATES = (_fake("good", ("right",)), _fake("rogue", BEHAVIOURS))
GOOD_ONLY = (_fake("good", ("right",)),)
NEWER = (_fake("good", ("right",), version=2),)
SHADY = (_fake("shady", ("right", "wrong", "build_error")),)
FULL_DISK = (_fake("full", ("right", "full_disk")),)
