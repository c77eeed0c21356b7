"""Where logical tensors lie while a graph is lowered: which buffer, in which layout."""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Fusion, Graph, Primitive, Tensor

PLAIN, NHWC = "plain", "NHWC"
"""Layouts of a tensor: row-major as in ONNX, or channels last (4-D tensors only)."""

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


def to_layout(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """A logical shape in a layout."""
    return tuple(shape[axis] for axis in TO_NHWC) if layout == NHWC else tuple(shape)


class Placement:
    """Buffers of the optimised graph under construction."""

    def __init__(self, semantic: Graph) -> None:
        self.semantic = semantic
        self.graph = Graph(semantic.name, {}, [], semantic.inputs, semantic.outputs)
        self._buffers: dict[str, dict[str, str]] = {}
        self.flat: dict[str, tuple[str, tuple[int, int, int]]] = {}
        for name in semantic.inputs:
            self.graph.tensors[name] = semantic.tensors[name]
            self._buffers[name] = {PLAIN: name}

    def has(self, name: str, layout: str) -> bool:
        """Whether `name` can be read in `layout` without moving it."""
        return layout in self._buffers.get(name, {}) or (
            bool(self._buffers.get(name)) and _same_bytes(self.semantic.shape(name))
        )

    def read(self, name: str, layout: str) -> str:
        """The buffer of `name` in `layout`; a transpose is added where there is none."""
        buffers = self._buffers[name]
        if layout in buffers:
            return buffers[layout]
        source_layout, source = next(iter(buffers.items()))
        shape = self.semantic.shape(name)
        if _same_bytes(shape):
            return source
        perm = TO_NHWC if layout == NHWC else TO_NCHW
        primitive = Primitive("Transpose", (0,), self.graph.dtype(source), (("perm", perm),))
        suffix = "nhwc" if layout == NHWC else "nchw"
        buffer = self._new(f"{name}.{suffix}", to_layout(shape, layout), name)
        self.graph.nodes.append(
            Fusion(
                (primitive,),
                (source,),
                (to_layout(shape, source_layout),),
                (self.graph.dtype(source),),
                (),
                buffer,
                to_layout(shape, layout),
                (),
            )
        )
        buffers[layout] = buffer
        return buffer

    def write(self, name: str, layout: str) -> str:
        """A new buffer for the logical tensor `name` in `layout`."""
        shape = self.semantic.shape(name)
        taken = name in self.semantic.outputs or name in self.graph.tensors
        base = f"{name}.{layout.lower()}" if taken else name
        buffer = self._new(base, to_layout(shape, layout), name)
        self._buffers.setdefault(name, {})[layout] = buffer
        return buffer

    def alias(self, name: str, buffer: str, layout: str = PLAIN) -> None:
        """Let `name` in a layout be the bytes of `buffer`."""
        self._buffers[name] = {layout: buffer}

    def _new(self, base: str, shape: tuple[int, ...], logical: str) -> str:
        name, count = base, 1
        while name in self.graph.tensors or name in self.semantic.outputs:
            name, count = f"{base}.{count}", count + 1
        tensor = self.semantic.tensors[logical]
        self.graph.tensors[name] = Tensor(name, shape, tensor.dtype)
        return name

    def finish(self) -> Graph:
        """Give every graph output a buffer of its name and ONNX shape, and return the graph."""
        renamed: dict[str, str] = {}
        for name in self.semantic.outputs:
            buffer = self.read(name, PLAIN)
            if buffer in renamed or buffer in self.graph.inputs:
                buffer = self._copy(name, buffer)
            renamed[buffer] = name
        for buffer, name in renamed.items():
            old = self.graph.tensors.pop(buffer)
            self.graph.tensors[name] = Tensor(name, self.semantic.shape(name), old.dtype)
        for node in self.graph.nodes:
            node.inputs = tuple(renamed.get(name, name) for name in node.inputs)
            node.output = renamed.get(node.output, node.output)
            if not isinstance(node, Fusion):
                node.further_outputs = tuple(
                    renamed.get(name, name) for name in node.further_outputs
                )
        return self.graph

    def _copy(self, name: str, source: str) -> str:
        shape, dtype = self.semantic.shape(name), self.semantic.dtype(name)
        buffer = self._new(f"{name}.copy", shape, name)
        primitive = Primitive("Identity", (0,), dtype)
        self.graph.nodes.append(
            Fusion((primitive,), (source,), (shape,), (dtype,), (), buffer, shape, ())
        )
        return buffer


def _same_bytes(shape: tuple[int, ...]) -> bool:
    """Whether NCHW and NHWC of a shape are the same bytes (or there is only one layout)."""
    return len(shape) != 4 or shape[1] == 1 or int(np.prod(shape[2:])) == 1
