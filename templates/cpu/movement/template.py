"""What the CPU kernels of memory-bound workloads share: their one knob and its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

LANES = 16
"""float32 lanes of a vector; LLVM splits it where registers are shorter."""

# Waking a second thread takes as long as moving about this much.
_TASK_BYTES = 128 << 10


@dataclass(frozen=True)
class MovementConfig:
    """Configuration of a kernel whose only choice is its number of tasks.

    tasks: parallel tasks that share the work.
    """

    tasks: int


def span(task: Expr, extent: int, tasks: int, multiple: int = 1) -> tuple[Expr, int]:
    """First element and constant length of a task's share of `extent` elements.

    The last shares move back over elements that others write too (with the same values).
    """
    share = -(-extent // (tasks * multiple)) * multiple
    share = min(share, extent)
    start = task * share
    return (start if share * tasks <= extent else T.min(start, extent - share)), share


def task_count(moved: int, target: Target) -> int:
    """Tasks that share the work of moving so many bytes with profit."""
    return max(1, min(target.units, moved // _TASK_BYTES))


def movement_template(
    name: str, kind: type, build: Callable[[Any, MovementConfig], PrimFunc]
) -> Template:
    """A template without searched knobs for workloads of one type."""

    def matches(workload: Any, target: Target) -> bool:
        """Every workload of its kind, but for values of 4 bits."""
        return target.kind == "cpu" and isinstance(workload, kind) and not workload.has_four_bits

    def default(workload: Any, target: Target) -> MovementConfig:
        return MovementConfig(task_count(workload.bytes, target))

    def space(workload: Any, target: Target) -> Space[MovementConfig]:
        return Space(MovementConfig, {"tasks": (default(workload, target).tasks,)})

    def kernel(workload: Any, config: MovementConfig, target: Target) -> PrimFunc:
        return build(workload, config)

    def pack(workload: Any, config: MovementConfig, constants: Constants) -> tuple[np.ndarray, ...]:
        return (np.ascontiguousarray(constants["scalars"], np.float32),)

    def packed(workload: Any, config: MovementConfig) -> tuple[TensorSpec, ...]:
        return (workload.constant("scalars"),)

    return Template(name, 1, matches, space, default, kernel, pack, packed, tunable=False)
