"""cuDNN's int8 convolutions: every plan that its heuristics propose, planned many at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from autoq.errors import LibraryError
from autoq.libraries.ranking import PeerTime, Way, fastest
from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.templates.operators.conv2d import Conv2d
from peers.cudnn_backend import (
    HEURISTIC_MODES,
    Attribute,
    Descriptor,
    Handle,
    Kind,
    call,
    config_name,
    engine_configs,
    variant_pack,
    version,
)
from peers.cudnn_graph import Tensor, channel_scaled_convolution, scaled_convolution
from peers.layer import Layer, LayerData, alpha

# More do not help: plans are compiled largely one after another in a process.
_THREADS = 4


@dataclass(frozen=True)
class Plan:
    """A finalised execution plan of one form; handle is what it was planned with."""

    form: str
    workload: Conv2d
    per_channel: bool
    name: str
    descriptor: Descriptor
    handle: Handle
    workspace_bytes: int


class CudnnInt8:
    """cuDNN through its backend API, scaled by one number or by one of each channel.

    Plans of the second are compiled at run time, which takes 0.2 s each.
    """

    def __init__(self) -> None:
        self._device = Device()
        self._stream = Stream()
        self._plans: dict[Layer, list[Plan]] = {}
        self._refusals: dict[Layer, str] = {}
        self._local = threading.local()
        self.version = version()

    def supports(self, layer: Layer) -> bool:
        return True

    def prepare(self, layers: Sequence[Layer]) -> None:
        tasks = [
            (layer, *form, per_channel)
            for layer in layers
            for form in layer.forms
            for per_channel in (False, True)
        ]
        with ThreadPoolExecutor(_THREADS) as pool:
            planned = pool.map(lambda task: self._plan(*task[1:]), tasks)
            for (layer, *_), (plans, refusal) in zip(tasks, planned, strict=True):
                self._plans.setdefault(layer, []).extend(plans)
                if refusal:
                    self._refusals[layer] = refusal

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        plans = self._plans[layer]
        if not plans:
            raise LibraryError(self._refusals.get(layer, "its heuristics propose no plan"))
        ways: list[Way] = []
        for _, workload in layer.forms:
            own = [plan for plan in plans if plan.workload == workload]
            if own:
                buffers = _Buffers(LayerData(workload), max(plan.workspace_bytes for plan in own))
                ways += [buffers.way(plan, self._stream) for plan in own]
        self._device.synchronize()
        return fastest(ways, self._stream, self._device, timing)

    def _plan(self, form: str, workload: Conv2d, per_channel: bool) -> tuple[list[Plan], str]:
        """All distinct plans of a form, and the last reason why one is not there."""
        self._device.make_current()
        if not hasattr(self._local, "handle"):
            self._local.handle = Handle()
        handle = self._local.handle
        try:
            graph = (
                channel_scaled_convolution(workload, handle)
                if per_channel
                else scaled_convolution(workload, alpha(workload), handle)
            )
        except LibraryError as error:
            return [], str(error)
        configs, refusal = _distinct_configs(graph)
        plans = []
        for name, config in configs.items():
            plan = Descriptor(Kind.EXECUTION_PLAN)
            try:
                plan.set(Attribute.PLAN_HANDLE, handle).set(Attribute.PLAN_CONFIG, config)
                workspace = plan.finalize().number(Attribute.PLAN_WORKSPACE_BYTES)
            except LibraryError as error:
                refusal = str(error)
                continue
            plans.append(Plan(form, workload, per_channel, name, plan, handle, workspace))
        return plans, refusal


def _distinct_configs(graph: Descriptor) -> tuple[dict[str, Descriptor], str]:
    """Engine configurations of every heuristic by name, and why one of them had none."""
    found: dict[str, Descriptor] = {}
    refusal = ""
    for mode in HEURISTIC_MODES.values():
        try:
            for config in engine_configs(graph, mode):
                found.setdefault(config_name(config), config)
        except LibraryError as error:
            refusal = str(error)
    return found, refusal


class _Buffers:
    """A form's tensors in device memory."""

    def __init__(self, data: LayerData, workspace_bytes: int) -> None:
        self._data = data
        arrays = {
            Tensor.X: data.x,
            Tensor.WEIGHT: data.weight,
            Tensor.SCALE: data.scale,
        }
        if data.residual is not None:
            arrays[Tensor.RESIDUAL] = data.residual
            arrays[Tensor.ZEROS] = np.zeros_like(data.scale)
        self._memory = {tensor: upload(array) for tensor, array in arrays.items()}
        self._y = Memory(int(np.prod(data.workload.y_shape)))
        self._workspace = Memory(workspace_bytes)

    def way(self, plan: Plan, stream: Stream) -> Way:
        """A plan bound to these tensors."""
        unused = Tensor.ZEROS if plan.per_channel else Tensor.SCALE
        tensors = [tensor for tensor in self._memory if tensor != unused]
        addresses = {int(tensor): self._memory[tensor].address for tensor in tensors}
        pack = variant_pack({**addresses, int(Tensor.Y): self._y.address}, self._workspace.address)

        def launch(index: int) -> None:
            plan.handle.set_stream(stream.handle)
            call("cudnnBackendExecute", plan.handle.pointer, plan.descriptor.pointer, pack.pointer)

        def check(y: np.ndarray) -> int:
            return self._data.max_steps(y, plan.per_channel)

        scaling = "a scale of each channel" if plan.per_channel else "one scale"
        return Way(f"{plan.name}, {scaling}", plan.form, launch, check, self._y)
