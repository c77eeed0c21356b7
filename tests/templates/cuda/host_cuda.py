"""Running CUDA kernels without a GPU, and on one: every output bit over poisoned memory.

On the host a kernel's CUDA source is compiled by g++ behind `host_cuda.h` and run thread by
thread, with real threads where it synchronises. That proves indices and arithmetic, not speed.
"""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_kernels import compiled, gpu_target, sampled
from host_compiler import compile_for_host
from tvm.tirx import PrimFunc

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower
from autoq.measure.arrays import stored_activations, stored_outputs
from autoq.runtime.cuda_driver import Device, Memory, Stream
from autoq.runtime.cuda_kernel import LoadedKernel
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.reference import reference
from autoq.templates.storage import stored
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

GUARD = 256
POISON = 0xA5

needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)

_SERIAL = """
extern "C" void run(void** p) {
  for (int b = 0; b < BLOCKS; ++b)
    for (int t = 0; t < THREADS; ++t) {
      blockIdx = {b, 0, 0}, threadIdx = {t, 0, 0};
      main_kernel(ARGUMENTS);
    }
}
"""
_THREADED = """
extern "C" void run(void** p) {
  for (int b = 0; b < BLOCKS; ++b) {
    std::barrier<> together(THREADS);
    barrier = &together;
    std::vector<std::thread> threads;
    for (int t = 0; t < THREADS; ++t)
      threads.emplace_back([=] {
        blockIdx = {b, 0, 0}, threadIdx = {t, 0, 0};
        main_kernel(ARGUMENTS);
      });
    for (auto& thread : threads) thread.join();
  }
}
"""
_BARRIER = """
static std::barrier<>* barrier;
static void __syncthreads() { barrier->arrive_and_wait(); }
"""
_SHUFFLE = """
static float exchanged[1024];
static float __shfl_xor_sync(unsigned lanes, float value, int apart) {
  exchanged[threadIdx.x] = value;
  __syncthreads();
  const float other = exchanged[threadIdx.x ^ apart];
  __syncthreads();
  return other;
}
"""


def out_dtype(workload: Workload) -> str:
    """dtype of a workload's output."""
    return workload.outputs[0].dtype


def run_on_host(
    template: Template,
    workload: Workload,
    config: Any,
    target: Target,
    activations: list[np.ndarray],
    constants: Constants,
    folder: Path,
) -> np.ndarray:
    """The output of a one-launch kernel for `target` as it is stored, computed by this CPU."""
    function = template.build(workload, config, target)
    packed = template.pack(workload, config, constants)
    shape, dtype = stored(workload.y_shape, out_dtype(workload))
    arrays = [*stored_activations(workload, activations), *packed]
    return run_function_on_host(function, target, arrays, np.zeros(shape, dtype), folder)


def run_function_on_host(
    function: PrimFunc, target: Target, arrays: list[np.ndarray], output: np.ndarray, folder: Path
) -> np.ndarray:
    """What a function of one launch writes to an array like `output`, its last parameter."""
    lowered = lower(function, target)
    (launch,), _ = host_launches(lowered.host["main"], len(function.params))
    source = _host_source(cuda_source(lowered, target), target, launch.grid, launch.block)
    library = compile_for_host(source, folder)
    buffers = [_guarded(array) for array in (*arrays, output)]
    before = [bytes(buffer) for buffer in buffers[:-1]]
    buffers[-1][GUARD:-GUARD] = POISON
    addresses = [buffers[argument.index].ctypes.data + GUARD for argument in launch.arguments]
    library.run((ctypes.c_void_p * len(addresses))(*addresses))
    assert [bytes(buffer) for buffer in buffers[:-1]] == before, "an input was written"
    assert (buffers[-1][:GUARD] == 0).all() and (buffers[-1][-GUARD:] == 0).all(), "out of bounds"
    return buffers[-1][GUARD:-GUARD].view(output.dtype).reshape(output.shape)


def _guarded(array: np.ndarray) -> np.ndarray:
    """Bytes of an array with `GUARD` zeros on either side, 64-byte aligned."""
    room = np.zeros(array.nbytes + 2 * GUARD + 64, np.uint8)
    start = -room.ctypes.data % 64
    buffer = room[start : start + array.nbytes + 2 * GUARD]
    buffer[GUARD : GUARD + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return buffer


def _host_source(source: str, target: Target, grid: Any, block: Any) -> str:
    """C++ of a kernel's device code, its PTX replaced by functions of `host_cuda.h`."""
    # Helpers follow TVM's own definitions, in an order that changes with their text.
    body = source[re.search(r"^(#ifndef AUTOQ_|__forceinline__)", source, re.MULTILINE).start() :]
    # One kernel at a time has no predecessors to wait for.
    body = re.sub(r'asm volatile\("griddepcontrol[^;]*;"[^;]*;', "", body)
    body = re.sub(
        r'asm\("([\w.]+) %0[^;]*;"\s*: "=[rf]"\((\w+)\)\s*: ([^;]*)\);',
        lambda found: (
            f"{found[2]} = {found[1].replace('.', '_')}"
            f"({', '.join(re.findall(r'[(](.*?)[)]', found[3]))});"
        ),
        body,
    )
    assert "asm" not in body, "inline PTX that the host does not know"
    body = body.replace("__shared__ alignas(64)", "alignas(64) static")
    parameters = re.search(r"main_kernel\(([^)]*)\)\s*;", body)[1].split(",")
    types = [text.rsplit("__restrict__", 1)[0].strip() for text in parameters]
    synchronises = "__syncthreads" in body or "__shfl_xor_sync" in body
    run = (_THREADED if synchronises else _SERIAL).replace("BLOCKS", str(grid[0]))
    run = run.replace("THREADS", str(block[0]))
    arguments = ", ".join(f"({name})p[{index}]" for index, name in enumerate(types))
    arch = f"#define __CUDA_ARCH__ {target.compute_capability}0\n"
    barrier = _BARRIER if synchronises else ""
    shuffle = _SHUFFLE if synchronises else ""
    return arch + barrier + shuffle + body + run.replace("ARGUMENTS", arguments)


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
