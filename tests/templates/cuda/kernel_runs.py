"""Kernels on the emulator and on a GPU: every output bit over poisoned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_kernels import compiled, gpu_target, sampled
from ptx.kernels import LATE, run
from tvm.tirx import PrimFunc

from autoq.measure.arrays import stored_activations, stored_outputs
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.runtime.cuda.kernel import LoadedKernel
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.oracle.reference import reference
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

GUARD = 256
POISON = 0xA5


def emulated(
    template: Template,
    workload: Workload,
    config: Any,
    target: Target,
    activations: list[np.ndarray],
    constants: Constants,
) -> np.ndarray:
    """The output of a kernel for `target` as it is stored, computed by the emulator."""
    packed = template.pack(workload, config, constants)
    inputs = [*stored_activations(workload, activations), *packed]
    function = template.build(workload, config, target)
    (y,) = run(function, target, inputs, [workload.outputs[0].stored], LATE)
    return y


def emulated_function(
    function: PrimFunc, target: Target, arrays: list[np.ndarray], output: np.ndarray
) -> np.ndarray:
    """What a function writes to an array like `output`, its last parameter, on the emulator."""
    (y,) = run(function, target, arrays, [(output.shape, str(output.dtype))], LATE)
    return y


def assert_equal(workload: Workload, got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits of a stored output; float32 arithmetic may sum in another order."""
    (expected,) = stored_outputs(workload, (expected,))
    dtype = getattr(workload, "in_dtype", None) or getattr(workload, "a_dtype", "int8")
    if dtype == "float32" and got.dtype == np.float32:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    else:
        np.testing.assert_array_equal(got, expected)


def check_on_gpu(
    template: Template, workload: Workload, activations: list[np.ndarray], constants: Constants
) -> None:
    """The default configuration and three samples on this host's GPU, or a skip."""
    target = gpu_target()
    configs = [template.default(workload, target)]
    configs += sampled(template, workload, target, seed=3, count=3)
    kernels = compiled(template, workload, [(config, target) for config in configs], target)
    values = reference(workload, activations, constants)
    (expected,) = stored_outputs(workload, (values,))
    for config, machine_code in zip(configs, kernels, strict=True):
        packed = template.pack(workload, config, constants)
        inputs = [*stored_activations(workload, activations), *packed]
        assert_equal(workload, run_function_on_gpu(machine_code, inputs, expected), values)


def run_function_on_gpu(
    machine_code: Kernel, arrays: list[np.ndarray], output: np.ndarray
) -> np.ndarray:
    """What a kernel of one launch writes on this host's GPU to an array like `output`."""
    device, stream = Device(), Stream()
    memories = []
    for array in arrays:
        memories.append(Memory(array.nbytes))
        memories[-1].write(np.ascontiguousarray(array))
    written = Memory(output.nbytes + GUARD)
    written.fill(POISON)
    device.synchronize()
    kernel = LoadedKernel(machine_code)
    kernel.bind([memory.address for memory in (*memories, written)]).launch(stream)
    stream.synchronize()
    got = np.empty(output.nbytes + GUARD, np.uint8)
    written.read(got)
    assert (got[output.nbytes :] == POISON).all(), "out of bounds"
    return got[: output.nbytes].view(output.dtype).reshape(output.shape)
