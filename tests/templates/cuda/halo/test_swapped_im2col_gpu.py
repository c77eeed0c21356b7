"""conv2d_swapped_im2col on the GPU: every output bit against numpy, over poisoned memory."""

from __future__ import annotations

import pytest
from halo_check import wrong_configurations
from test_swapped_im2col import SERVED

from autoq.templates.cuda.halo.swapped.conv2d_swapped_im2col import TEMPLATE


@pytest.mark.gpu
@pytest.mark.parametrize("workload", SERVED, ids=str)
def test_bit_exact(workload):
    wrong = wrong_configurations(TEMPLATE, workload, samples=6)
    assert not wrong, "\n".join(wrong)
