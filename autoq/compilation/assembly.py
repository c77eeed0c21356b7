"""From chosen and compiled kernels to an artifact: buffers, constants and the running order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.compilation.selection import Selection, TemplateSelection
from autoq.devices import Host
from autoq.graph.ir import Fusion, Graph, Layer, Siblings
from autoq.graph.places import places_of_inputs
from autoq.runtime.arena import Lifetime, plan_offsets
from autoq.runtime.artifact import Artifact
from autoq.runtime.cpu.features import host_features
from autoq.runtime.kernel import Kernel, Workspace
from autoq.runtime.kernel_check import array_bytes
from autoq.runtime.plan import ALIGNMENT, Call, Plan, Port, Slot
from autoq.templates.arrays.storage import Array, stored
from autoq.templates.target import Target

# What LLVM may use when it compiles for this host, as /proc/cpuinfo spells it.
_FEATURES = (
    "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512vbmi",
)  # fmt: skip


def assemble(
    graph: Graph,
    selections: Sequence[Selection],
    kernels: Mapping[Hashable, Kernel],
    host: Host,
) -> Artifact:
    """The artifact of an optimised graph whose nodes were compiled to `kernels`."""
    used = [kernels[selection.key].workspaces for selection in selections]
    offsets, workspaces, arena_bytes = _buffers(graph, used)
    constants, packed = _Constants(), Packed()
    numbers = {key: index for index, key in enumerate(kernels)}
    calls = tuple(
        _call(selection, packed.of(selection), numbers[selection.key], offsets, constants, spaces)
        for selection, spaces in zip(selections, workspaces, strict=True)
    )
    constants.size += max((selection.ahead for selection in selections), default=0)
    target, places = host.target, places_of_inputs(graph)
    plan = Plan(
        model=graph.name,
        target_kind=target.kind,
        arch=target.arch,
        cpu_features=_needed_features(target),
        inputs=tuple(_port(graph, name, offsets, places.get(name, 0)) for name in graph.inputs),
        outputs=tuple(_port(graph, name, offsets) for name in graph.outputs),
        arena_bytes=arena_bytes,
        constant_bytes=constants.size,
        calls=calls,
    )
    return Artifact(plan, tuple(kernels.values()), constants.block())


def _buffers(
    graph: Graph, workspaces: Sequence[Sequence[Workspace]]
) -> tuple[dict[str, int], list[tuple[Slot, ...]], int]:
    """Arena offset of every tensor, each node's workspaces, and the arena's size.

    Inputs and outputs keep their place for the whole run, and so do workspaces that stay zero.
    """
    end = len(graph.nodes)
    first = dict.fromkeys(graph.inputs, -1)
    last = dict.fromkeys((*graph.inputs, *graph.outputs), end)
    for index, node in enumerate(graph.nodes):
        for name in node.outputs:
            first.setdefault(name, index)
            last.setdefault(name, index)
        for name in node.inputs:
            last[name] = max(last[name], index)
    for name in graph.outputs:  # a result stays readable until the next run
        first[name] = -1
    names = list(first)
    lifetimes = [Lifetime(graph.tensors[name].bytes, first[name], last[name]) for name in names]
    for index, spaces in enumerate(workspaces):
        for space in spaces:
            whole = (-1, end) if space.stays_zero else (index, index)
            lifetimes.append(Lifetime(array_bytes(space, space.name), *whole))
    offsets, size = plan_offsets(lifetimes)
    following = iter(offsets[len(names) :])
    slots = [
        tuple(Slot("arena", next(following), space.shape, space.dtype) for space in spaces)
        for spaces in workspaces
    ]
    return dict(zip(names, offsets, strict=False)), slots, size


def _port(graph: Graph, name: str, offsets: Mapping[str, int], places: int = 0) -> Port:
    tensor = graph.tensors[name]
    slot = Slot("arena", offsets[name], tensor.shape, tensor.dtype)
    return Port(name, slot, tensor.values, places)


@dataclass
class _Constants:
    """Constant arrays laid out behind one another; equal arrays are stored once."""

    size: int = 0

    def __post_init__(self) -> None:
        self._arrays: list[tuple[int, np.ndarray]] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def add(self, array: np.ndarray) -> Slot:
        array = np.asarray(array, order="C")  # ascontiguousarray would make a scalar 1-d
        identity = (str(array.dtype), array.shape, array.tobytes())
        if identity not in self._known:
            self._known[identity] = self.size
            self._arrays.append((self.size, array))
            self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return Slot("constant", self._known[identity], array.shape, str(array.dtype))

    def block(self) -> np.ndarray:
        block = np.zeros(self.size, np.uint8)
        for offset, array in self._arrays:
            block[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        return block


class Packed:
    """Packed constants of selections.

    Neighbours that share a kernel and have equal constants have the same: encoders under one mask,
    whose packing takes seconds a layer.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[Mapping[str, Any], tuple[np.ndarray, ...]]] = {}

    def of(self, selection: Selection) -> tuple[np.ndarray, ...]:
        if not isinstance(selection, TemplateSelection):
            return selection.constants()
        given = selection.node.constants
        last = self._last.get(selection.key)
        arrays = selection.constants() if last is None or not _equal(last[0], given) else last[1]
        self._last[selection.key] = given, arrays
        return arrays


def _equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether constants are the same to the bit."""
    return first.keys() == second.keys() and all(
        np.asarray(first[name]).dtype == np.asarray(second[name]).dtype
        and np.array_equal(first[name], second[name])
        for name in first
    )


def _call(
    selection: Selection,
    packed: Sequence[np.ndarray],
    kernel: int,
    offsets: Mapping[str, int],
    constants: _Constants,
    workspaces: tuple[Slot, ...],
) -> Call:
    node = selection.node
    inputs, results = _activations(node)
    slots = [_slot(offsets[name], *array) for name, array in zip(node.inputs, inputs, strict=True)]
    slots += [constants.add(array) for array in packed]
    outputs = [
        _slot(offsets[name], *array) for name, array in zip(node.outputs, results, strict=True)
    ]
    operations: dict[str, int] = {}
    bytes = sum(slot.bytes for slot in (*slots, *outputs))
    if isinstance(node, Layer):
        operations, bytes = node.workload.operations_by_dtype, node.workload.bytes
    return Call(
        kernel=kernel,
        arguments=tuple(slots),
        outputs=tuple(outputs),
        workspaces=workspaces,
        layer=node.name,
        workload=str(node.workload) if isinstance(node, Layer) else node.kind,
        template=selection.template,
        source=selection.source,
        operations=sum(operations.values()),
        bytes=bytes,
        roofline_seconds=selection.target.roofline_seconds(operations, bytes),
    )


def _activations(node: Layer | Fusion | Siblings) -> tuple[list[Array], list[Array]]:
    """Shapes and dtypes of what a node reads and writes, in values."""
    if not isinstance(node, Layer):
        inputs = [
            array
            for part in node.parts
            for array in zip(part.input_shapes, part.input_dtypes, strict=True)
        ]
        outputs = (zip(one.output_shapes, one.output_dtypes, strict=True) for one in node.parts)
        return inputs, [array for arrays in outputs for array in arrays]
    given, results = (
        [(spec.shape, spec.dtype) for spec in specs]
        for specs in (node.workload.inputs, node.workload.outputs)
    )
    return given, results


def _slot(offset: int, shape: tuple[int, ...], dtype: str) -> Slot:
    """An activation as kernels take it: two 4-bit values a byte."""
    held, item = stored(tuple(shape), dtype)
    return Slot("arena", offset, held, item)


def _needed_features(target: Target) -> tuple[str, ...]:
    if target.kind != "cpu":
        return ()
    here = host_features()
    return tuple(name for name in _FEATURES if name in here)
