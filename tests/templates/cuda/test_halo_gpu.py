"""conv2d_halo on the GPU: every output bit against numpy, over poisoned memory."""

from __future__ import annotations

import numpy as np
import pytest
from halo_cases import CASES, random_operands

from autoq.kernel import compile_kernel
from autoq.runtime.cuda_driver import Device, Memory, Stream, device_count
from autoq.runtime.cuda_kernel import LoadedKernel
from autoq.templates.cuda.conv2d_halo import TEMPLATE
from autoq.templates.reference import reference
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
GUARD = 4096
SAMPLES = 5


def on_device(array: np.ndarray) -> Memory:
    memory = Memory(array.nbytes)
    memory.write(np.ascontiguousarray(array))
    return memory


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CASES, ids=str)
def test_bit_exact(workload):
    if not device_count():
        pytest.skip("no CUDA GPU")
    device = Device()
    device.make_current()
    if device.arch != "sm_90a":
        pytest.skip(f"needs sm_90a, this GPU is {device.arch}")
    rng = np.random.default_rng(11)
    activations, operands = random_operands(workload, rng)
    expected = reference(workload, activations, operands)
    stream = Stream()
    inputs = [on_device(array) for array in activations]
    configs = [TEMPLATE.default(workload, TARGET)]
    configs += TEMPLATE.space(workload, TARGET).sample(rng, SAMPLES)
    wrong = []
    for config in configs:
        kernel = LoadedKernel(compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET))
        constants = [on_device(array) for array in TEMPLATE.pack(workload, config, operands)]
        output = Memory(expected.nbytes + GUARD)
        bound = kernel.bind([m.address for m in (*inputs, *constants, output)])
        got = np.empty(expected.nbytes + GUARD, np.uint8)
        for poison in (0xA5, 0x3C):
            output.fill(poison)
            device.synchronize()
            bound.launch(stream)
            stream.synchronize()
            output.read(got)
            y = got[: expected.nbytes].view(expected.dtype).reshape(expected.shape)
            differing = int((y != expected).sum())
            if differing or (got[expected.nbytes :] != poison).any():
                wrong.append(f"{differing} of {expected.size} elements: {config}")
                break
    assert not wrong, "\n".join(wrong)
