"""conv2d_halo on the GPU: every output bit against numpy, over poisoned memory."""

from __future__ import annotations

import pytest
from halo_cases import CASES
from halo_check import wrong_configurations

from autoq.templates.cuda.halo.conv2d_halo import TEMPLATE


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CASES, ids=str)
def test_bit_exact(workload):
    wrong = wrong_configurations(TEMPLATE, workload, samples=5)
    assert not wrong, "\n".join(wrong)
