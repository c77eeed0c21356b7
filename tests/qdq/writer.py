"""What random QDQ models are written with: tensors, schemes, weights, biases."""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
FOUR_BITS = ("int4", "uint4")


@dataclass(frozen=True)
class Real:
    """A float32 tensor."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Integers:
    """A quantised tensor and the names of the scale and zero point that it was written with."""

    name: str
    shape: Shape
    dtype: str
    scale: str
    zero_point: str


class GraphWriter:
    """A model under construction."""

    def __init__(self, rng: np.random.Generator, exact: bool) -> None:
        self.rng = rng
        self.exact = exact
        self.opset = 21 if self.chance(0.2) else 17
        self.dtypes = ["int8", "uint8"] + (["int4", "uint4"] if self.opset == 21 else [])
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.reals: list[Real] = []
        self.integers: list[Integers] = []
        self.shared_weights: list[tuple[tuple[Shape, bool, int], tuple[str, np.ndarray]]] = []
        self.inputs: list[tuple[Real, str]] = []
        images, channels = int(rng.integers(1, 3)), int(rng.choice([1, 3, 4, 6, 8, 12, 15, 16]))
        if self.chance(0.1):  # which fill the blocks of NHWCnc
            images, channels = 8, 16
        shape = (images, channels, *map(int, rng.integers(3, 9 if images < 8 else 5, 2)))
        for index in range(int(rng.integers(1, 3))):
            self.reals.append(self.input(f"x{index}", shape))

    # -- pieces -------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, options: list) -> object:
        return options[int(self.rng.integers(len(options)))]

    def constant(self, value: object, dtype: str | None = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def node(self, op: str, inputs: list[str], shape: Shape, **attributes: object) -> Real:
        """Append a node; its result is a float32 tensor that later layers may read."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{name}", **attributes))
        return Real(name, shape)

    def input(self, name: str, shape: Shape) -> Real:
        """A new input of the model, float32 or integers, dequantised."""
        x = Real(name, shape)
        if self.chance(0.8):
            self.inputs.append((x, "float32"))
            return self.quantised(x)
        dtype = str(self.choose(["int8", "uint8"]))
        self.inputs.append((x, dtype))
        scale, zero_point = self.constant(self.scale()), self.constant(self.zero_point(dtype))
        self.integers.append(Integers(name, shape, dtype, scale, zero_point))
        return self.dequantise(self.integers[-1])

    def scale(self, around: float = 2.0**-5) -> np.float32:
        factor = 2.0 ** int(self.rng.integers(-2, 3))
        return np.float32(around * factor * (1.0 if self.exact else self.rng.uniform(0.7, 1.4)))

    def scale_of(self, dtype: str) -> np.float32:
        """A scale with which integers reach values of a few units."""
        return self.scale(2.0**-1 if dtype in FOUR_BITS else 2.0**-5)

    def zero_point(self, dtype: str) -> np.ndarray:
        limits = ml_dtypes.iinfo(dtype)
        middle = (limits.min + limits.max + 1) // 2
        anywhere = int(self.rng.integers(limits.min, limits.max + 1))
        return np.array(self.choose([middle, middle, limits.min, anywhere]), dtype)

    def quantise(self, x: Real) -> Integers:
        dtype = str(self.choose(self.dtypes))
        if self.integers and self.chance(0.3):  # the scheme of another tensor
            other = self.choose(self.integers)
            dtype, scale, zero_point = other.dtype, other.scale, other.zero_point
        else:
            scale = self.constant(self.scale_of(dtype))
            zero_point = self.constant(self.zero_point(dtype))
        y = self.node("QuantizeLinear", [x.name, scale, zero_point], x.shape)
        self.integers.append(Integers(y.name, y.shape, dtype, scale, zero_point))
        return self.integers[-1]

    def dequantise(self, x: Integers) -> Real:
        """By its own scheme, or by one of another scale, zero point or both."""
        scale, zero_point = x.scale, x.zero_point
        if self.chance(0.15):
            which = int(self.rng.integers(3))
            scale = scale if which == 0 else self.constant(self.scale_of(x.dtype))
            zero_point = zero_point if which == 1 else self.constant(self.zero_point(x.dtype))
        return self.node("DequantizeLinear", [x.name, scale, zero_point], x.shape)

    def quantised(self, x: Real) -> Real:
        """Q and DQ behind `x`, sometimes with movement of integers between them."""
        integers = self.quantise(x)
        if self.chance(0.15) and integers.dtype not in FOUR_BITS:  # which onnxruntime cannot move
            integers = self.transposed(integers)
        return self.dequantise(integers)

    def transposed(self, x: Integers) -> Integers:
        """Integers moved as integers."""
        perm = self.rng.permutation(len(x.shape)).tolist()
        shape = tuple(x.shape[axis] for axis in perm)
        y = self.node("Transpose", [x.name], shape, perm=perm)
        self.integers.append(replace(x, name=y.name, shape=shape))
        return self.integers[-1]

    def pick(self, rank: int | None = None, shape: Shape | None = None) -> Real | None:
        fit = [x for x in self.reals if rank in (None, len(x.shape)) and shape in (None, x.shape)]
        recent = fit[-3:] if self.chance(0.7) else fit
        return self.choose(recent) if recent else None

    def weights(
        self, shape: Shape, per_channel: bool = True, axis: int = 0
    ) -> tuple[str, np.ndarray]:
        """(dequantised weights, their scales): 8 or 4 bits, some shared by several layers."""
        asked = (shape, per_channel, axis)
        known = [pair for key, pair in self.shared_weights if key == asked]
        if known and self.chance(0.5):
            return self.choose(known)
        pair = self._new_weights(*asked)
        self.shared_weights.append((asked, pair))
        return pair

    def _new_weights(
        self, shape: Shape, per_channel: bool, channels: int
    ) -> tuple[str, np.ndarray]:
        fan_in = int(np.prod(shape)) // shape[channels]
        typical = 2.0 ** np.rint(np.log2(1 / (48 * fan_in**0.5)))
        filters = shape[channels] if per_channel and self.chance(0.6) else 1
        scale = np.array([self.scale(typical) for _ in range(filters)], np.float32)
        integers = self.rng.integers(-100, 101, shape).astype(np.int8)
        zero = np.zeros(filters, np.int8)
        if self.opset == 21 and self.chance(0.5):
            integers = self.rng.integers(-8, 8, shape).astype(np.int8).astype(ml_dtypes.int4)
            scale, zero = scale * np.float32(16), zero.astype(ml_dtypes.int4)
        elif filters == 1 and self.chance(0.3):
            integers = (integers.astype(np.int16) + 128).astype(np.uint8)
            zero = np.uint8([self.choose([128, 128, 128, 60])])  # 60 leaves more than 8 bits
        axis = {"axis": channels} if filters > 1 else {}
        if filters == 1:
            scale, zero = scale.reshape(()), zero.reshape(())
        inputs = [self.constant(integers), self.constant(scale), self.constant(zero)]
        return self.node("DequantizeLinear", inputs, shape, **axis).name, scale

    def bias(self, filters: int, x: Real, scale: np.ndarray) -> str:
        """Quantised as onnxruntime does it, by another scale, or float32."""
        activation = next(n for n in reversed(self.nodes) if x.name in n.output)
        product = np.float32(2.0**-9)
        if activation.op_type == "DequantizeLinear":
            product = self.constants[activation.input[1]] * scale
        steps = self.rng.integers(-3000, 3001, filters).astype(np.int32)
        if self.chance(0.2):
            return self.constant(self.rng.normal(0, 0.5, filters), "float32")
        if self.chance(0.2):
            product = product * np.float32(4)
        if self.chance(0.3):
            return self.constant(steps * product, "float32")
        axis = {"axis": 0} if np.size(product) > 1 else {}
        zero = self.constant(np.zeros(np.shape(product), np.int32))
        inputs = [self.constant(steps), self.constant(product, "float32"), zero]
        return self.node("DequantizeLinear", inputs, (filters,), **axis).name

    def finish(self) -> onnx.ModelProto:
        """The model, of one to three outputs from anywhere in it."""
        reals, integers = list(self.reals), list(self.integers)
        given = {x.name for x, _ in self.inputs}
        integers = [x for x in integers if x.name not in given]
        integers = [x for x in integers if x.dtype not in FOUR_BITS]  # numpy has no such outputs
        names = {self.reals[-1].name}
        for _ in range(int(self.rng.integers(0, 3))):
            names.add(self.choose(reals if self.chance(0.6) or not integers else integers).name)
        inputs = [
            helper.make_tensor_value_info(
                x.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), x.shape
            )
            for x, dtype in self.inputs
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in sorted(names)]
        graph = helper.make_graph(
            self.nodes, "random", inputs, outputs,
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset)]
        version = 8 if self.opset == 17 else 10
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        for output, known in zip(model.graph.output, inferred.graph.output, strict=True):
            output.CopyFrom(known)
        return model
