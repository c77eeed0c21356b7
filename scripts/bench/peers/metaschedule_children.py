"""Child processes of the MetaSchedule peer: one compiles candidates, one runs them."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autoq.kernel import compile_kernel
from autoq.measure.bench import POISON
from autoq.measure.cuda_bench import upload
from autoq.measure.cuda_graph_timing import CudaGraphTimer, captured
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.runtime.cuda.kernel import LoadedKernel
from autoq.runtime.kernel import CudaKernel
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from peers.layer import LayerData


def serve_builds(target: Target) -> Callable[[str], CudaKernel]:
    """Compiles scheduled modules given as TVM's JSON."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    def build(text: str) -> CudaKernel:
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(tvm.ir.load_json(text))
        # The pass gives buffers of tensorised code another element type, which lowering refuses.
        with tvm.transform.PassContext(config={"tirx.disable_storage_rewrite": True}):
            return compile_kernel(module["main"], target)

    return build


@dataclass(frozen=True)
class RunRequest:
    """Asks for the median seconds of a kernel, and its error in steps when `check`."""

    kernel: CudaKernel
    timing: Timing
    check: bool


def serve_runs(workload: Conv2d) -> Callable[[RunRequest], tuple[float, int]]:
    """Runs kernels of one layer over the same buffers; the reply is (seconds, error)."""
    device = Device(0)
    stream = Stream()
    data = LayerData(workload)
    inputs = [upload(data.x), upload(data.weight), upload(data.scale)]
    if data.residual is not None:
        inputs.append(upload(data.residual))
    y = Memory(int(np.prod(workload.y_shape)))
    addresses = [memory.address for memory in (*inputs, y)]

    def run(request: RunRequest) -> tuple[float, int]:
        loaded = LoadedKernel(request.kernel)
        workspaces = loaded.new_workspaces()
        bound = loaded.bind([*addresses, *(memory.address for memory in workspaces)])
        error = 0
        if request.check:
            y.fill(POISON[0])
            device.synchronize()
            bound.launch(stream)
            device.synchronize()
            found = np.empty(y.size, np.int8)
            y.read(found)
            error = data.max_steps(found, per_channel=True)
        device.synchronize()
        timer = CudaGraphTimer(
            stream, lambda number: captured(stream, lambda _: bound.launch(stream), number)
        )
        return statistics.median(timer.timings(request.timing)), error

    return run
