"""The layer that MetaSchedule tunes computes what the other peers compute."""

from __future__ import annotations

import numpy as np
import pytest
from peers.layer import LayerData
from peers.metaschedule_workload import convolution

from autoq.kernel import compile_kernel
from autoq.measure.bench import POISON, CpuBench
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import host_cpu

CASES = [
    Conv2d(2, 7, 6, 8, 12, 3, 3, (2, 2), (1, 1, 1, 1)),
    Conv2d(2, 5, 5, 4, 8, 4, 4, padding=(2, 2, 1, 1)),
    Conv2d(1, 6, 6, 8, 4, 3, 3, dilation=(2, 2)),
    Conv2d(3, 4, 4, 16, 8, 1, 1, epilogue=Epilogue("int8", "int8")),
]


@pytest.mark.parametrize("workload", CASES, ids=str)
def test_unscheduled_function_on_the_cpu(workload: Conv2d) -> None:
    data = LayerData(workload)
    inputs = [data.x, data.weight, data.scale]
    if data.residual is not None:
        inputs.append(data.residual)
    bench = CpuBench(inputs, [np.empty(workload.y_shape, np.int8)])
    kernel = compile_kernel(convolution(workload), host_cpu())
    (y,) = bench.load(kernel, []).run_over(POISON[0])
    assert data.max_steps(y, per_channel=True) == 0
