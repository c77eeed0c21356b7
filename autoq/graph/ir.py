"""The graph: operations over named tensors, before and after they become layers.

`autoq.frontend.load` gives a graph of `Operation` nodes with ONNX meaning and shapes (NCHW).
`autoq.graph.optimise` turns it into `Layer` and `Fusion` nodes over buffers (NHWC), in an order
in which they can run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autoq.graph.results import Picked, Results
from autoq.templates.arrays.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Tensor:
    """A dense row-major array. In an optimised graph it is a buffer: a node may read or write its
    bytes under another shape of as many elements (see `input_shapes`), which is how a reshape
    costs nothing.

    dtype is how it is stored. values is the type of its numbers where that is another one: 4-bit
    integers may be stored one a byte.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: str = ""

    @property
    def value_dtype(self) -> str:
        """The type of its numbers: what the model says."""
        return self.values or self.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of memory, two 4-bit values each."""
        return stored_bytes(self.shape, self.dtype)


@dataclass(eq=False)
class Operation:
    """A node of the semantic graph: an ONNX operator, its attributes checked and completed.

    inputs may name tensors or constants of the graph; name is the ONNX node's. further_outputs are
    those behind `output` of an operation that has several.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)
    covers: tuple[str, ...] = ()
    further_outputs: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """All tensors that it writes."""
        return (self.output, *self.further_outputs)


@dataclass(eq=False)
class Layer:
    """A node that a template computes.

    constants are those of its workload (`autoq.templates.workload.Constants`); inputs are the
    activations in the order of a template's parameters (x, then the residual or further inputs);
    covers names the ONNX nodes that the layer stands for. float_reason says why a layer between
    quantised tensors computes in float32 ("" for every other layer). weight_values is the type of
    the weights' numbers in the model ("" without weights); the workload says how they are stored.
    further_outputs are those behind `output` of a workload that has several. precision says how a
    layer computes floats through integers on request (`graph/precision.py`; "" for others).
    """

    workload: Workload
    constants: Mapping[str, Any]
    inputs: tuple[str, ...]
    output: str
    covers: tuple[str, ...]
    float_reason: str = ""
    weight_values: str = ""
    further_outputs: tuple[str, ...] = ()
    precision: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All tensors that it writes, in the order of a template's parameters."""
        return (self.output, *self.further_outputs)

    @property
    def name(self) -> str:
        """The first ONNX node that it covers: what a person would look for."""
        return self.covers[0] if self.covers else self.output

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes under which the layer reads its inputs."""
        return tuple(spec.shape for spec in self.workload.inputs)

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes under which the layer writes its outputs."""
        return tuple(spec.shape for spec in self.workload.outputs)


@dataclass(frozen=True)
class Primitive:
    """One primitive of an `Fusion`: `op` over earlier values, with JSON-able attributes.

    arguments index the fusion's values: its inputs, then its constants, then earlier primitives.
    `dtype` is that of the result.
    """

    op: str
    arguments: tuple[int, ...]
    dtype: str
    attributes: tuple[tuple[str, Any], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return dict(self.attributes)[name]


@dataclass(eq=False)
class Fusion(Results):
    """A node that no template computes: primitives fused into one kernel.

    The last primitive is the result. `key` is equal for fusions that share machine code.
    """

    primitives: tuple[Primitive, ...]
    inputs: tuple[str, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    constants: tuple[np.ndarray, ...]
    output: str
    output_shape: tuple[int, ...]
    covers: tuple[str, ...]
    quantised: tuple[str, ...] = ()
    picked: Picked | None = None

    @property
    def parts(self) -> tuple[Fusion, ...]:
        """The fusions of its kernel: itself."""
        return (self,)

    @property
    def name(self) -> str:
        """The first ONNX node that it covers."""
        return self.covers[0] if self.covers else self.output

    @property
    def kind(self) -> str:
        """Its primitives in one word, for reports: "transpose", "dequantize+softmax"."""
        ops = [primitive.op for primitive in self.primitives]
        ops += ["DynamicQuantizeLinear"] if self.quantised else []
        ops += ["pick"] if self.picked else []
        return "+".join(ops if len(ops) <= 4 else [*ops[:2], f"{len(ops) - 3} more", ops[-1]])

    @property
    def key(self) -> tuple[Any, ...]:
        """Hashable identity of the computation, constants' values left out."""
        constants = tuple((array.shape, str(array.dtype)) for array in self.constants)
        arrays = (self.input_shapes, self.input_dtypes, constants, self.output_shape)
        picked = len(self.picked.places) if self.picked else 0
        return (self.primitives, *arrays, bool(self.quantised), picked)


@dataclass(eq=False)
class Siblings:
    """Fusions of one key, of which none reads another's output: one kernel computes all of them.

    Its inputs, constants and outputs are those of the first, then those of the next, and so on.
    """

    parts: tuple[Fusion, ...]

    def reading(self, names: Sequence[str]) -> Siblings:
        """The same over inputs of other names."""
        given = iter(names)
        return Siblings(tuple(
            replace(part, inputs=tuple(itertools.islice(given, len(part.inputs))))
            for part in self.parts
        ))  # fmt: skip

    @property
    def inputs(self) -> tuple[str, ...]:
        """What each of them reads."""
        return tuple(name for part in self.parts for name in part.inputs)

    @property
    def constants(self) -> tuple[np.ndarray, ...]:
        """Those of each of them."""
        return tuple(array for part in self.parts for array in part.constants)

    @property
    def kernel_constants(self) -> tuple[np.ndarray, ...]:
        """What their kernel takes between inputs and outputs."""
        return self.constants

    @property
    def outputs(self) -> tuple[str, ...]:
        """All tensors that they write."""
        return tuple(part.output for part in self.parts)

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes under which they write them."""
        return tuple(part.output_shape for part in self.parts)

    @property
    def covers(self) -> tuple[str, ...]:
        """The ONNX nodes that they stand for."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.covers))

    @property
    def name(self) -> str:
        """That of the first."""
        return self.parts[0].name

    @property
    def kind(self) -> str:
        """How many, and of what."""
        return f"{len(self.parts)} of {self.parts[0].kind}"

    @property
    def key(self) -> tuple[Any, ...]:
        """Hashable identity of the computation."""
        return (len(self.parts), self.parts[0].key)


Node = Operation | Layer | Fusion | Siblings


@dataclass
class Graph:
    """Nodes in running order over named tensors.

    inputs and outputs keep the model's names, shapes and dtypes. constants belong to Operation
    nodes only: layers carry their own.
    """

    name: str
    tensors: dict[str, Tensor]
    nodes: list[Node]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def operations(self) -> list[Operation]:
        """The nodes of a semantic graph."""
        return [node for node in self.nodes if isinstance(node, Operation)]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor or constant."""
        constant = self.constants.get(name)
        return self.tensors[name].shape if constant is None else constant.shape

    def dtype(self, name: str) -> str:
        """Dtype of a tensor or constant."""
        constant = self.constants.get(name)
        return self.tensors[name].dtype if constant is None else str(constant.dtype)

    def producers(self) -> dict[str, Node]:
        """The node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs}

    def consumers(self) -> dict[str, list[Node]]:
        """The nodes that read each tensor, in running order; one entry for each reading."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                readers.setdefault(name, []).append(node)
        return readers
