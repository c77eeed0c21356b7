"""Configurations that pack alike, as templates say by `Template.packs_by`."""

from collections import defaultdict

import numpy as np
import pytest
from workloads.contract import OF_ALL

from autoq.measure.arrays import random_case
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CASES = [
    (template, workload)
    for workload in OF_ALL
    for template in matching(workload, TARGET)
    if template.packs_by is not None
]


NAMES = [f"{template.name} {workload}" for template, workload in CASES]


@pytest.mark.parametrize(("template", "workload"), CASES, ids=NAMES)
def test_configurations_that_pack_by_the_same_have_the_same_constants(template, workload) -> None:
    _, constants = random_case(workload, 0)
    alike = defaultdict(list)
    for config in template.space(workload, TARGET).sample(np.random.default_rng(0), 48):
        alike[template.packs_by(workload, config)].append(config)
    assert len(alike) < 48
    for configs in alike.values():
        packs = [template.constants(workload, config, constants) for config in configs[:6]]
        # As bytes: some constants are integers in the guise of floats, which may be NaN.
        assert len({tuple(array.tobytes() for array in arrays) for arrays in packs}) == 1


def test_every_template_that_says_so_is_tested() -> None:
    assert {t.name for t in TEMPLATES if t.packs_by is not None} == {t.name for t, _ in CASES}
