"""The semantic graph under construction: emits operations, folds what is constant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from autoq.errors import ModelError
from autoq.frontend.number_types import COMPUTED_AS, DOUBLE, HALVES, computed_constant
from autoq.graph.constants import DEQUANTISATIONS, dequantised
from autoq.graph.folding_budget import FoldingBudget
from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Operation, Tensor
from autoq.graph.shapes import BINARY, broadcast, check_size, infer_shape
from autoq.templates.workload import Workload

FLOAT_ONLY = (
    "Conv", "Gemm", "MatMul", "AveragePool", "ReduceMean", "Softmax", "LRN", "Sigmoid",
    "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal",
    "Erf", "Floor", "Ceil", "Round", "Softplus", "QuantizeLinear", "Div", "Pow", "Sin",
    "Cos", "IsNaN", "Interpolate",
)  # fmt: skip
"""Operations without a meaning for integers, or with one that ends a process: 1 / 0."""

_PRODUCTS = ("Conv", "Gemm", "MatMul")
"""Operations that multiply with weights, of which borders leave some out."""

_FOLDED: dict[str, Callable[..., np.ndarray]] = {
    "Reshape": lambda attributes, x: x.reshape(attributes["shape"]),
    "Transpose": lambda attributes, x: x.transpose(attributes["perm"]),
    "Mul": lambda attributes, a, b: a * b,
    "Take": lambda attributes, x: x.take(attributes["indices"][0], attributes["axes"][0]),
}
"""Operations that importers write over constants."""


class GraphBuilder:
    """What the importers of single operators write to.

    `source` is the model's file, for messages. `values` maps every ONNX name read so far to the
    name of a tensor or constant of the graph (several ONNX names may share one: Identity);
    `reserved` names are kept for the graph's inputs and outputs;
    `used` are the ONNX names that some node or output reads; `types` those of tensors whose type
    the graph computes in another (`number_types`), while constants keep it until an operation
    reads them; `as_floats` maps integer tensors to float32 ones of the same numbers, for readers
    that compute in float32; `budget` is what folding constants may cost.
    """

    def __init__(self, source: str, name: str, opset: int, budget: FoldingBudget) -> None:
        self.source = source
        self.opset = opset
        self.budget = budget
        self.graph = Graph(name, {}, [], (), ())
        self.values: dict[str, str] = {}
        self.reserved: set[str] = set()
        self.used: set[str] = set()
        self.types: dict[str, str] = {}
        self.as_floats: dict[str, str] = {}
        self._node: onnx.NodeProto | None = None
        self._producers: dict[str, Operation] = {}
        self._counts: dict[str, int] = {}
        self._computed: dict[str, str] = {}

    # -- what the importer of one node asks -------------------------------------------------

    def begin(self, node: onnx.NodeProto) -> None:
        """Start the import of `node`: names and messages refer to it from here on."""
        self._node = node

    @property
    def node_name(self) -> str:
        """The node's name, or its first output's where it has none."""
        node = self._node
        if node is None:
            return "the graph"
        return node.name or (node.output[0] if node.output else node.op_type)

    def error(self, message: str) -> ModelError:
        """A ModelError that names the file and the node under import."""
        op = f" ({self._node.op_type})" if self._node is not None else ""
        return ModelError(f"{self.source}: node {self.node_name!r}{op}: {message}")

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.shape(name)

    def dtype(self, name: str) -> str:
        """What the graph computes a tensor or constant in."""
        dtype = self.graph.dtype(name)
        return COMPUTED_AS.get(dtype, dtype)

    def constant(self, name: str, role: str) -> np.ndarray:
        """The value of an input that has to be known; raises ModelError where it is not."""
        value = self.known(name)
        if value is None:
            raise self.error(f"its {role} {name!r} must be constant; export it as an initializer")
        return value

    def known(self, name: str) -> np.ndarray | None:
        """The value of a constant, or of the dequantisation of one; None for anything else."""
        if name in self.graph.constants:
            return self.graph.constants[name]
        node = self._producers.get(name)
        if node is None or node.op not in DEQUANTISATIONS:
            return None
        integers = self.graph.constants.get(node.inputs[0])
        return None if integers is None else dequantised(integers, node)

    def producer(self, name: str) -> Operation | None:
        """The operation that writes a tensor, None for an input or a constant."""
        return self._producers.get(name)

    def is_constant(self, name: str) -> bool:
        """Whether `name` is a constant, or the dequantisation or transposition of one."""
        while name not in self.graph.constants:
            node = self._producers.get(name)
            if node is None or node.op not in (*DEQUANTISATIONS, "Transpose", "Reshape"):
                return False
            name = node.inputs[0]
        return True

    # -- what it writes -----------------------------------------------------------------------

    def add_constant(self, value: np.ndarray | np.generic, name: str | None = None) -> str:
        """Name of a new constant."""
        name = self._fresh(name or f"{self.node_name}/constant")
        self.graph.constants[name] = np.array(value, order="C")
        return name

    def emit(self, op: str, inputs: list[str], dtype: str | None = None, **attributes: Any) -> str:
        """Append an operation and name its result; shapes are checked and inferred here.

        dtype is the result's, by default the first input's. Reshapes, transposes and products of
        constants are computed here.
        """
        constants = [self.graph.constants[name] for name in inputs if name in self.graph.constants]
        if op in _FOLDED and len(constants) == len(inputs):
            return self.add_constant(self._folded(op, constants, attributes))
        inputs = [self.computed(name) for name in inputs]
        self._check_dtypes(op, inputs)
        self._check_finite(op, inputs, attributes)
        shapes = [self.shape(name) for name in inputs]
        try:
            shape = infer_shape(op, shapes, attributes)
        except ValueError as error:
            raise self.error(str(error)) from error
        result = dtype or self.dtype(inputs[0])
        output = self._fresh(f"{self.node_name}/{op}")
        self.graph.tensors[output] = Tensor(output, shape, result)
        made = Operation(op, self.node_name, tuple(inputs), output, attributes, (self.node_name,))
        self.graph.nodes.append(made)
        self._producers[output] = made
        return output

    def emit_workload(
        self, workload: Workload, inputs: list[str], shapes: Sequence[tuple[int, ...]]
    ) -> tuple[str, ...]:
        """Append a workload without constants as it stands, and name its results.

        shapes: those of the results, which are the workload's own as flat arrays. Images are read
        and written channels last.
        """
        outputs = []
        for spec, shape in zip(workload.outputs, shapes, strict=True):
            outputs.append(self._fresh(f"{self.node_name}/{spec.name}"))
            self.graph.tensors[outputs[-1]] = Tensor(outputs[-1], shape, spec.dtype)
        attributes: dict[str, Any] = {"workload": workload, "constants": {}}
        if len(shapes[0]) == 4:
            attributes["layout"] = "NHWC"
        made = Operation(
            WORKLOAD, self.node_name, tuple(inputs), outputs[0], attributes, (self.node_name,),
            tuple(outputs[1:]),
        )  # fmt: skip
        self.graph.nodes.append(made)
        self._producers.update(dict.fromkeys(outputs, made))
        return tuple(outputs)

    def computed(self, name: str) -> str:
        """A constant in the type that the graph computes it in; any other name as it is."""
        value = self.graph.constants.get(name)
        if value is None or self._computed.get(name) == name:
            return name
        if name not in self._computed:
            try:
                converted = computed_constant(value, self.reads_doubles())
            except ValueError as error:
                raise self.error(f"its input {name!r}: {error}") from error
            same = converted.dtype == value.dtype
            self._computed[name] = name if same else self.add_constant(converted, name)
        return self._computed[name]

    def reads_doubles(self) -> bool:
        """Whether the node under import computes with float64 that 16-bit floats were cast to."""
        names = () if self._node is None else self._node.input
        return any(self.types.get(name) == DOUBLE for name in names)

    def _folded(
        self, op: str, values: list[np.ndarray], attributes: dict[str, Any]
    ) -> np.ndarray:  # fmt: skip
        try:
            size = math.prod(broadcast([value.shape for value in values]))
            self.budget.charge(size * values[0].itemsize, size)
        except ValueError as error:
            raise self.error(str(error)) from error
        return _FOLDED[op](attributes, *values)

    def type_of_input(self, index: int) -> str | None:
        """The ONNX type of an input of the node under import, None where the graph has it too."""
        return None if self._node is None else self.types.get(self._node.input[index])

    def add_input(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        """Declare a graph input; raises ModelError for a size that no kernel can index."""
        try:
            check_size(shape)
        except ValueError as error:
            raise ModelError(f"{self.source}: input {name!r}: {error}") from error
        self.graph.tensors[name] = Tensor(name, shape, dtype)
        self.graph.inputs = (*self.graph.inputs, name)
        self.values[name] = name
        if dtype in COMPUTED_AS:
            computed = COMPUTED_AS[dtype]
            cast = self._fresh(f"{name}/{computed}")
            self.types[name] = dtype
            self.values[name] = cast
            self.graph.tensors[cast] = Tensor(cast, shape, computed)
            made = Operation("Cast", name, (name,), cast)
            self.graph.nodes.append(made)
            self._producers[cast] = made

    def add_value(self, name: str, value: np.ndarray) -> None:
        """Let a constant be the value of an ONNX name."""
        if value.dtype.name in COMPUTED_AS:
            self.types[name] = value.dtype.name
        if value.dtype.name in HALVES:
            value = value.astype(np.float32)
        self.values[name] = self.add_constant(value, name)

    def _check_dtypes(self, op: str, inputs: list[str]) -> None:
        for name in inputs if op in FLOAT_ONLY else ():
            if self.dtype(name) != "float32":
                raise self.error(f"its input {name!r} of {self.dtype(name)}; {op} takes float32")
        types = list(dict.fromkeys(self.dtype(name) for name in inputs))
        if op in BINARY and len(types) > 1:
            raise self.error(f"inputs of {' and '.join(types)}; {op} takes two of one type")

    def _check_finite(self, op: str, inputs: list[str], attributes: dict[str, Any]) -> None:
        """Refuse NaN and infinities where kernels do not compute with them as onnxruntime does."""
        for name, value in attributes.items():
            absent = op == "Clip" and value == {"low": -math.inf, "high": math.inf}[name]
            finite = not isinstance(value, float) or math.isfinite(value)
            if not finite and not absent and op != "Pad":  # any number may lie around an image
                raise self.error(f"its {name} is {value}; a finite number is supported")
        for name in inputs if op in _PRODUCTS else ():
            constant = self.graph.constants.get(name)
            numbers = constant is not None and constant.dtype == np.float32
            if numbers and not np.all(np.isfinite(constant)):
                raise self.error(
                    f"its constant {name!r} holds NaN or infinities; export the model again"
                )

    def _fresh(self, name: str) -> str:
        tensors, constants = self.graph.tensors, self.graph.constants
        candidate, count = name, self._counts.get(name, 1)
        while candidate in tensors or candidate in constants or candidate in self.reserved:
            candidate, count = f"{name}.{count}", count + 1
        self._counts[name] = count
        return candidate
