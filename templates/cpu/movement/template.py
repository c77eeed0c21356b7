"""What the CPU kernels of memory-bound workloads share: a template with one knob, their tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.tasks import task_count
from autoq.templates.target import Target
from autoq.templates.workload import Constants


@dataclass(frozen=True)
class MovementConfig:
    """Configuration of a kernel whose only choice is its number of tasks.

    tasks: parallel tasks that share the work.
    """

    tasks: int


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

    return Template(
        name, 1, matches, space, default, kernel, pack, packed, tunable=False,
        module=build.__module__,
    )  # fmt: skip
