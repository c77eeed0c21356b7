"""All kernel templates, in the order of preference for untuned compilation."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cpu import CPU_TEMPLATES
from autoq.templates.cuda import CUDA_TEMPLATES
from autoq.templates.target import Target
from autoq.templates.workload import Workload

TEMPLATES: tuple[Template, ...] = (*CUDA_TEMPLATES, *CPU_TEMPLATES)
"""Every template; names are unique, since records go by them."""


def matching(workload: Workload, target: Target) -> list[Template]:
    """Templates that can compute the workload on the target, the preferred one first."""
    return [template for template in TEMPLATES if template.matches(workload, target)]
