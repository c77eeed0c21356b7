"""Bit-exact comparison of a template's kernels with numpy on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gpu_kernels import compiled, hopper_target, sampled
from halo_cases import random_arrays

from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.runtime.cuda.kernel import LoadedKernel
from autoq.templates.base import Template
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.oracle.reference import reference
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
GUARD = 4096


def on_device(array: np.ndarray) -> Memory:
    memory = Memory(array.nbytes)
    memory.write(np.ascontiguousarray(array))
    return memory


def wrong_configurations(template: Template, workload: Conv2d, samples: int) -> list[str]:
    """The default and sampled configurations that differ anywhere, over poisoned memory."""
    configs = [template.default(workload, TARGET)]
    configs += sampled(template, workload, TARGET, 11, samples)
    return wrong_among(template, workload, configs)


def wrong_among(template: Template, workload: Conv2d, configs: Sequence[Any]) -> list[str]:
    """Those of the configurations that differ anywhere, over poisoned memory.

    Skips the test where there is no GPU of compute capability 9.0.
    """
    target = hopper_target()
    kernels = compiled(template, workload, [(config, TARGET) for config in configs], target)
    device = Device()
    rng = np.random.default_rng(11)
    activations, constants = random_arrays(workload, rng)
    expected = reference(workload, activations, constants)
    stream = Stream()
    inputs = [on_device(array) for array in activations]
    wrong = []
    for config, machine_code in zip(configs, kernels, strict=True):
        kernel = LoadedKernel(machine_code)
        packed = [on_device(array) for array in template.pack(workload, config, constants)]
        output = Memory(expected.nbytes + GUARD)
        bound = kernel.bind([m.address for m in (*inputs, *packed, output)])
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
    return wrong
