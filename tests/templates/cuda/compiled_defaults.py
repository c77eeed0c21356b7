"""Kernels of templates' untuned choices, compiled by nvcc and held against their plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoq.kernel import compile_kernel
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def compiled_default(
    template: Template,
    workload: Workload,
    target: Target,
    plan_of: Callable[[Any, Any, Target], Any],
) -> tuple[Kernel, Any]:
    """The default's kernel, which spills nothing, and its plan, with whose memory it launches.

    plan_of: what a workload and a configuration are on a target, with `smem_bytes`."""
    config = template.default(workload, target)
    kernel = compile_kernel(template.build(workload, config, target), target)
    plan = plan_of(workload, config, target)
    (launch,) = kernel.launches
    assert kernel.spill_bytes == 0
    assert launch.block == (config.threads, 1, 1)
    assert launch.smem_bytes == plan.smem_bytes <= target.smem_bytes
    return kernel, plan
