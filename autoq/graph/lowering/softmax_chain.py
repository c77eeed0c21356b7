"""A fusion read as the softmax between two products: roundings, a mask, and what the mask is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.graph.shapes import broadcast
from autoq.templates.operators.attention_of_products import Between, Rounding


@dataclass(frozen=True)
class Mask:
    """What is added to scores, one of three: an array's name, what computes it, or a constant."""

    shape: tuple[int, ...]
    made_by: str | Fusion | np.ndarray

    @property
    def constant(self) -> np.ndarray | None:
        """Its value where that is known."""
        return self.made_by if isinstance(self.made_by, np.ndarray) else None


@dataclass(frozen=True)
class SoftmaxChain:
    """scores: the place among the fusion's inputs of what the first product writes."""

    scores: int
    between: Between
    mask: Mask | None


def softmax_chain(node: Fusion) -> SoftmaxChain | None:
    """The chain that a fusion is, None for any other.

    In order, all but the softmax and its end optional: a dequantisation, a factor, an addition, a
    quantisation and its dequantisation, a softmax of rows, and a quantisation or a rounding to
    floats.
    """
    reader = _Reader(node)
    last = node.primitives[-1]
    shares = _rounding(last) if last.op == "quantize" else None
    rounds = last.op in ("quantize", "Cast")
    softmax = reader.primitive(last.arguments[0]) if rounds else last
    if softmax is None or softmax.op != "Softmax":
        return None
    whole = reader.shape(softmax.arguments[0])
    if whole is None or softmax["axis"] % len(whole) != len(whole) - 1:
        return None
    path = reader.path(softmax.arguments[0])
    if path is None or whole != tuple(node.output_shape):
        return None
    mask = None if path.mask is None else reader.mask(path.mask)
    if path.mask is not None and mask is None:
        return None
    between = Between(
        whole, last.dtype, path.rounding, path.factor, None if mask is None else mask.shape,
        mask is not None and mask.constant is not None, path.masked, shares,
    )  # fmt: skip
    return SoftmaxChain(path.place, between, mask)


def _rounding(quantize: Primitive) -> Rounding:
    return Rounding(
        quantize["scale"], quantize["zero_point"], float(quantize["low"]), float(quantize["high"])
    )


@dataclass(frozen=True)
class _Path:
    """From scores on: the place of their input, their rounding, a factor, the mask's value that is
    added then, and the rounding behind that."""

    place: int
    rounding: Rounding | None = None
    factor: float = 1.0
    mask: int | None = None
    masked: Rounding | None = None


class _Reader:
    """Follows a fusion's values back to what it reads."""

    def __init__(self, node: Fusion) -> None:
        self._node = node
        self._given = len(node.inputs) + len(node.constants)

    def primitive(self, index: int) -> Primitive | None:
        """The primitive that computes a value, None for what the fusion is given."""
        return self._node.primitives[index - self._given] if index >= self._given else None

    def shape(self, index: int) -> tuple[int, ...] | None:
        """A value's, None where it is not that of its arguments broadcast."""
        node = self._node
        if index < len(node.inputs):
            return tuple(node.input_shapes[index])
        if index < self._given:
            return node.constants[index - len(node.inputs)].shape
        primitive = node.primitives[index - self._given]
        shapes = [self.shape(argument) for argument in primitive.arguments]
        known = [shape for shape in shapes if shape is not None]
        if len(known) < len(shapes) or primitive.op not in _ELEMENTWISE:
            return None
        return broadcast(known)

    def path(self, index: int) -> _Path | None:
        """How a value comes of the scores, None where it does so in another way."""
        primitive = self.primitive(index)
        if primitive is None or primitive.op != "dequantize":
            return self._added(index)
        inner = self.primitive(primitive.arguments[0])
        if inner is None:
            return self._number(index)
        same = inner.op == "quantize" and all(
            inner[name] == primitive[name] for name in ("scale", "zero_point")
        )
        behind = self._added(inner.arguments[0]) if same else None
        return None if behind is None else replace(behind, masked=_rounding(inner))

    def _added(self, index: int) -> _Path | None:
        """The path of scores, or of an addition of a mask to them."""
        primitive = self.primitive(index)
        if primitive is None or primitive.op != "Add":
            return self._number(index)
        for scores, mask in (primitive.arguments, primitive.arguments[::-1]):
            found = self._number(scores)
            whole = self.shape(scores) == self.shape(index)
            if found is not None and whole and found.place not in self.reads(mask):
                return replace(found, mask=mask)
        return None

    def _number(self, index: int) -> _Path | None:
        """The path of scores as they are read, dequantised or not, times a number or not."""
        primitive = self.primitive(index)
        inputs = len(self._node.inputs)
        if primitive is None:
            return _Path(index) if index < inputs else None
        if primitive.op == "dequantize" and primitive.arguments[0] < inputs:
            rounding = Rounding(primitive["scale"], primitive["zero_point"])
            return _Path(primitive.arguments[0], rounding)
        if primitive.op not in ("Mul", "Div"):
            return None
        for place, scores in enumerate(primitive.arguments):
            number = self._constant(primitive.arguments[1 - place])
            usable = number is not None and number != 0 and (primitive.op == "Mul" or place == 0)
            found = self._number(scores) if usable else None
            if found is not None and number is not None:
                factor = number if primitive.op == "Mul" else np.float32(1) / number
                return replace(found, factor=float(np.float32(found.factor) * factor))
        return None

    def _constant(self, index: int) -> np.float32 | None:
        """The only element of a constant that broadcasts to any shape."""
        first = len(self._node.inputs)
        array = self._node.constants[index - first] if first <= index < self._given else None
        single = array is not None and array.size == 1 and array.dtype == np.float32
        return np.float32(array.reshape(-1)[0]) if single and array is not None else None

    def reads(self, index: int) -> set[int]:
        """Places of the inputs that a value depends on."""
        primitive = self.primitive(index)
        if primitive is None:
            return {index} if index < len(self._node.inputs) else set()
        return set().union(*(self.reads(argument) for argument in primitive.arguments))

    def mask(self, index: int) -> Mask | None:
        """What a value is by itself, None where its shape is not known."""
        node, shape = self._node, self.shape(index)
        if shape is None:
            return None
        if index < len(node.inputs):
            if node.input_dtypes[index] != "float32":
                return None
            return Mask(shape, node.inputs[index])
        if index < self._given:
            constant = node.constants[index - len(node.inputs)]
            return Mask(shape, constant.astype(np.float32))
        fusion = replace(
            node, primitives=node.primitives[: index - self._given + 1], output_shape=shape
        )
        fusion = _only_what_is_read(fusion)
        if not fusion.inputs:
            return Mask(shape, evaluate_fusion(fusion, []))
        return Mask(shape, fusion)


_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Cast", "dequantize", "quantize", "Neg")


def _only_what_is_read(node: Fusion) -> Fusion:
    """The fusion without what its last primitive does not depend on."""
    given = len(node.inputs) + len(node.constants)
    wanted = {given + len(node.primitives) - 1}
    for index in range(given + len(node.primitives) - 1, given - 1, -1):
        if index in wanted:
            wanted.update(node.primitives[index - given].arguments)
    places = {old: new for new, old in enumerate(sorted(wanted))}
    inputs = [i for i in range(len(node.inputs)) if i in wanted]
    constants = [c for i, c in enumerate(node.constants, len(node.inputs)) if i in wanted]
    primitives = tuple(
        replace(item, arguments=tuple(places[at] for at in item.arguments))
        for index, item in enumerate(node.primitives, given)
        if index in wanted
    )
    names, shapes, dtypes = (
        tuple(column[i] for i in inputs)
        for column in (node.inputs, node.input_shapes, node.input_dtypes)
    )
    return Fusion(
        primitives, names, shapes, dtypes, tuple(constants), node.output, node.output_shape,
        node.covers,
    )  # fmt: skip
