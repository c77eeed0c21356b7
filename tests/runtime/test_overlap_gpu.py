"""Launches that overlap give the bytes of launches that do not, over buffers that are reused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, hopper_target, kernel_store

from autoq.measure.arrays import random_case
from autoq.measure.cuda_bench import upload
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.runtime.cuda.graph import begin_capture, end_capture
from autoq.runtime.cuda.kernel import BoundKernel, LoadedKernel
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SHAPE = (8, 28, 28, 64)
PLAIN, RESIDUAL = Epilogue("uint8"), Epilogue("uint8", "uint8", True)


def convolution(size: int, epilogue: Epilogue) -> Conv2d:
    padding = (size // 2,) * 4
    return Conv2d(*SHAPE, 64, size, size, padding=padding, in_dtype="uint8", epilogue=epilogue)


POOL = Pool2d("max", *SHAPE, 3, 3, (1, 1), (1,) * 4, in_dtype="uint8", out_dtype="uint8")
# Layers from SHAPE to SHAPE; those with a residual read two buffers.
LAYERS: list[tuple[str, Workload]] = [
    ("gemm_wgmma", convolution(1, RESIDUAL)),
    ("conv2d_swapped", convolution(3, PLAIN)),
    ("pool2d_cuda", POOL),
    ("conv2d_halo", convolution(3, RESIDUAL)),
    ("conv2d_mma_sync", convolution(1, RESIDUAL)),
    ("add_cuda", Add(SHAPE, "uint8", "uint8", "uint8")),
    ("conv2d_im2col", convolution(3, PLAIN)),
]
STEPS = 6 * len(LAYERS)


@dataclass(frozen=True)
class Layer:
    """A kernel, how many of the buffers it reads, and its constants on the device."""

    kernel: LoadedKernel
    inputs: int
    constants: list[Memory]


def compiled_layers(target: Target) -> list[tuple[Template, Any, Kernel]]:
    """Template, configuration and machine code of each of LAYERS; ends a run that only compiles."""
    found = []
    for name, workload in LAYERS:
        (template,) = [item for item in matching(workload, target) if item.name == name]
        config = template.default(workload, target)
        kernel = kernel_store().kernel(template, workload, config, target)
        found.append((template, config, kernel))
    end_if_compile_only()
    return found


def loaded_layers(target: Target) -> list[Layer]:
    """LAYERS on the device."""
    layers = []
    for (_, workload), (template, config, kernel) in zip(
        LAYERS, compiled_layers(target), strict=True
    ):
        activations, constants = random_case(workload, seed=3)
        packed = [upload(array) for array in template.pack(workload, config, constants)]
        layers.append(Layer(LoadedKernel(kernel), len(activations), packed))
    return layers


def chain(layers: list[Layer], buffers: list[Memory]) -> list[BoundKernel]:
    """STEPS kernels, each over the buffers that the two before it wrote."""
    bound = []
    for step in range(STEPS):
        layer = layers[step % len(layers)]
        arrays = [buffers[(step - i) % len(buffers)] for i in range(layer.inputs)]
        arrays += [*layer.constants, buffers[(step + 1) % len(buffers)]]
        bound.append(layer.kernel.bind([memory.address for memory in arrays]))
    return bound


def test_chain_gives_the_same_bytes() -> None:
    layers = loaded_layers(hopper_target())
    device = Device()
    buffers = [Memory(int(np.prod(SHAPE))) for _ in range(3)]
    kernels = chain(layers, buffers)
    stream = Stream()
    graphs = []
    for overlapped in (False, True):
        begin_capture(stream)
        for kernel in kernels:
            kernel.launch(stream, overlapped)
        graphs.append(end_capture(stream))
    rng = np.random.default_rng(5)
    for _ in range(20):
        start = [rng.integers(0, 256, SHAPE, np.uint8) for _ in buffers]
        results = []
        for graph in graphs:
            for memory, array in zip(buffers, start, strict=True):
                memory.write(array)
            device.synchronize()
            graph.replay(stream)
            device.synchronize()
            results.append([np.empty(SHAPE, np.uint8) for _ in buffers])
            for memory, array in zip(buffers, results[-1], strict=True):
                memory.read(array)
        for plain, overlapping in zip(*results, strict=True):
            assert len(np.unique(plain)) > 16
            np.testing.assert_array_equal(overlapping, plain)
