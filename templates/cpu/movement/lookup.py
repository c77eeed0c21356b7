"""A table applied to a tensor of bytes on the CPU: 64 at a time by vpermi2b where there is one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.table import ENTRIES
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.frame import kernel_frame
from autoq.templates.cpu.movement.template import MovementConfig
from autoq.templates.cpu.tasks import span, task_count
from autoq.templates.cpu.vector import cast, for_chunks, load, store, tasks_loop
from autoq.templates.operators.lookup import Lookup, packed_table
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LANES = 64
"""Bytes of a zmm register, a quarter of a table."""
_UNROLLED = 16
"""Values of a step without vpermi2b; each is a load of its own."""


def matches(workload: object, target: Target) -> bool:
    """Bytes to bytes or float32."""
    return (
        isinstance(workload, Lookup)
        and target.kind == "cpu"
        and workload.in_dtype in ("int8", "uint8")
        and workload.out_dtype in ("int8", "uint8", "float32")
    )


def default(workload: Lookup, target: Target) -> MovementConfig:
    """As many tasks as share the work with profit."""
    return MovementConfig(task_count(workload.bytes, target))


def space(workload: Lookup, target: Target) -> Space[MovementConfig]:
    """The default alone."""
    return Space(MovementConfig, {"tasks": (default(workload, target).tasks,)})


def build(workload: Lookup, config: MovementConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, table [256], y. Tasks share the elements."""
    elements = math.prod(workload.shape)
    permutes = target.avx512vbmi and workload.out_dtype != "float32"
    with kernel_frame(
        x=(workload.shape, workload.in_dtype),
        table=((ENTRIES,), workload.out_dtype),
        y=(workload.shape, workload.out_dtype),
    ) as frame:
        x, table, y = frame["x"], frame["table"], frame["y"]
        with tasks_loop(config.tasks) as task:
            first, share = span(task, elements, config.tasks, _LANES)
            quarters = _quarters(table) if permutes else []

            def chunk(at: Expr | int, lanes: int) -> None:
                if lanes == _LANES and permutes:
                    value = load(x, first + at, lanes).astype(f"int8x{lanes}")
                    found = _permuted(quarters, value).astype(f"{workload.out_dtype}x{lanes}")
                    store(y, first + at, found, lanes)
                    return
                for lane in range(lanes):
                    byte = T.reinterpret("uint8", x[first + at + lane])
                    store(y, first + at + lane, table[cast(byte, "int32", 1)], 1)

            for_chunks(share, _LANES if permutes else _UNROLLED, chunk)
    return frame.result


def _quarters(table: Buffer) -> list[Expr]:
    """The table in four registers."""
    return [
        T.bind(load(table, quarter * _LANES, _LANES).astype(f"int8x{_LANES}"))
        for quarter in range(ENTRIES // _LANES)
    ]


def _permuted(quarters: list[Any], value: Expr) -> Expr:
    """Entries of 64 bytes: an index of vpermi2b has 7 bits, the eighth chooses between two."""

    def half(low: Any, high: Any) -> Expr:
        name = "llvm.x86.avx512.vpermi2var.qi.512"
        return T.call_llvm_pure_intrin(f"int8x{_LANES}", name, low, value, high)

    negative = value < T.broadcast(T.int8(0), _LANES)
    return T.Select(negative, half(*quarters[2:]), half(*quarters[:2]))


def pack(workload: Lookup, config: MovementConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The table alone."""
    return (packed_table(workload, constants["table"]),)


def packed(workload: Lookup, config: MovementConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return workload.constants


TEMPLATE = Template("lookup_cpu", 1, matches, space, default, build, pack, packed, tunable=False)
"""Element-wise functions of bytes."""
