"""Pruned, sampled and sparse-attention kernels on a GPU, every output element against numpy."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from gpu_kernels import assert_right, gpu_target, sampled

from autoq.templates.base import Template
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

FAMILIES = ("pruned", "sampled", "sparse_attention")
"""Folders of `templates/cuda` whose kernels no other GPU test runs by themselves."""

_FILE = Path(__file__).parents[3] / "scripts" / "cases" / "small_cases.py"
# What some GPU computes: the one at hand may decline it.
KNOWN = [parse_target(f"cuda:{arch}") for arch in ("sm_80", "sm_90a")]
CASES = [
    (template, workload)
    for template in TEMPLATES
    if template.module.startswith(tuple(f"autoq.templates.cuda.{name}." for name in FAMILIES))
    for workload in runpy.run_path(str(_FILE))["CASES"]
    if any(template.matches(workload, target) for target in KNOWN)
]


@pytest.mark.parametrize(
    ("template", "workload"), CASES, ids=lambda case: getattr(case, "name", None) or str(case)
)
def test_every_element_is_right(template: Template, workload: Workload) -> None:
    """Kernels of older GPUs too, which this one runs."""
    target = gpu_target()
    forms = [one for one in KNOWN if one.compute_capability < target.compute_capability]
    form = next((one for one in (target, *forms) if template.matches(workload, one)), None)
    if form is None:
        pytest.skip("another GPU's workload")
    configs = [template.default(workload, form), *sampled(template, workload, form, 17, 2)]
    assert_right(template, workload, [(config, form) for config in configs], target)
