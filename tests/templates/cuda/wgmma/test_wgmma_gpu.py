"""The wgmma kernels on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from wgmma_cases import CASES, SHARING, TARGET, TEMPLATES, case_id, few_shared

from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SAMPLES = 6
ALL_CASES = CASES + [
    (name, workload)
    for name, template in TEMPLATES.items()
    for workload in SHARING
    if template.matches(workload, TARGET)
]


def configurations(case: tuple[str, Workload]) -> list[Any]:
    """The default and some sampled configurations of a case, clusters among them."""
    name, workload = case
    space = TEMPLATES[name].space(workload, TARGET)
    configs = [TEMPLATES[name].default(workload, TARGET)]
    configs += sampled(TEMPLATES[name], workload, TARGET, 11, SAMPLES)
    configs += few_shared(space, each=3) if workload in SHARING else []
    return list(dict.fromkeys(configs))


@pytest.mark.parametrize("case", ALL_CASES, ids=case_id)
def test_every_element_is_exact(case: tuple[str, Workload]) -> None:
    target = hopper_target()
    name, workload = case
    candidates = [(config, TARGET) for config in configurations(case)]
    assert_right(TEMPLATES[name], workload, candidates, target)
