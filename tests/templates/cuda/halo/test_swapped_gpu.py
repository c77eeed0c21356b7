"""conv2d_swapped on the GPU: every output bit against numpy, over poisoned memory."""

from __future__ import annotations

import pytest
from halo_cases import CASES
from halo_check import TARGET, wrong_configurations

from autoq.templates.cuda.halo.swapped.conv2d_swapped import TEMPLATE

SERVED = [workload for workload in CASES if TEMPLATE.matches(workload, TARGET)]


@pytest.mark.gpu
@pytest.mark.parametrize("workload", SERVED, ids=str)
def test_bit_exact(workload):
    wrong = wrong_configurations(TEMPLATE, workload, samples=6)
    assert not wrong, "\n".join(wrong)
