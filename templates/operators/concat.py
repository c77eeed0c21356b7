"""Concatenation along the channels, each input requantised."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import requantize_numbers
from autoq.templates.oracle.random_arrays import bounds, random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Part:
    """Columns of an input from `begin` on; width: all columns of the input, of the type dtype."""

    source: int
    begin: int
    channels: int
    width: int
    dtype: str


@dataclass(frozen=True)
class Concat(Workload, operator="concat"):
    """Channel concatenation of `[outer, c_i]` matrices (pixels times channels), each requantised.

    channels run over the parts, and so does scalars, float32 [parts, 5] with rows as SCALARS: `y =
    clamp(rint((x - x_zero_point) * scale), low, high) + zero_point`; a part whose `requantize`
    entry is False is copied byte for byte. Each part is an input, or, with sources, columns of the
    input that its entry names, behind those of earlier parts of it; in_dtypes run over the inputs.

    With scaled_dtype, int8 or uint8, there is a second output of y's shape, as batch normalisation
    and a ReLU behind a concatenation make it: `z = clamp(rint((y - y_zero_point) * factor[c] +
    offset[c]), low, high) + zero_point`, each operation rounded, with constants float32 `factor`
    and `offset` of all channels and `scaled`, float32 [4], as SCALED. Raises InputError for another
    type, or beside an output that is not of bytes.
    """

    outer: int
    channels: tuple[int, ...]
    in_dtypes: tuple[str, ...]
    requantize: tuple[bool, ...]
    out_dtype: str = "int8"
    scaled_dtype: str = ""
    sources: tuple[int, ...] = ()

    SCALED: ClassVar = ("y_zero_point", "low", "high", "zero_point")
    SCALARS: ClassVar = ("x_zero_point", "scale", "low", "high", "zero_point")

    def __post_init__(self) -> None:
        super().__post_init__()
        both = {self.out_dtype, self.scaled_dtype}
        if self.scaled_dtype and not both <= {"int8", "uint8"}:
            raise InputError(f"scaled_dtype {self.scaled_dtype!r}: int8 or uint8, as out_dtype")
        count = len(self.channels), {*range(len(self.in_dtypes))}
        if count != (len(self.sources or self.in_dtypes), {*(self.sources or count[1])}):
            raise InputError(f"sources {self.sources}: an input of {len(count[1])} for each part")

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where each part of y lies."""
        widths = [0] * len(self.in_dtypes)
        begins = []
        sources = self.sources or tuple(range(len(self.channels)))
        for source, channels in zip(sources, self.channels, strict=True):
            begins.append(widths[source])
            widths[source] += channels
        return tuple(
            Part(source, begin, channels, widths[source], self.in_dtypes[source])
            for source, begin, channels in zip(sources, begins, self.channels, strict=True)
        )

    @property
    def y_shape(self) -> tuple[int, int]:
        return (self.outer, sum(self.channels))

    @property
    def operations(self) -> int:
        """One operation an element."""
        return math.prod(self.y_shape)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        widths = {part.source: part.width for part in self.parts}
        return tuple(
            TensorSpec(f"x{index}", (self.outer, widths[index]), dtype)
            for index, dtype in enumerate(self.in_dtypes)
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        y = TensorSpec("y", self.y_shape, self.out_dtype)
        return (y, TensorSpec("z", self.y_shape, self.scaled_dtype)) if self.scaled_dtype else (y,)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        scalars = TensorSpec("scalars", (len(self.channels), len(self.SCALARS)), "float32")
        if not self.scaled_dtype:
            return (scalars,)
        channels = self.y_shape[1:]
        names = {"factor": channels, "offset": channels, "scaled": (len(self.SCALED),)}
        return (scalars, *(TensorSpec(name, shape, "float32") for name, shape in names.items()))

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        parts = []
        rows = np.asarray(constants["scalars"], np.float32)
        for part, row, requantize in zip(self.parts, rows, self.requantize, strict=True):
            x = activations[part.source].reshape(self.outer, -1)
            x = x[:, part.begin : part.begin + part.channels]
            if requantize:
                x_zero_point, scale, low, high, zero_point = row
                value = (x.astype(np.float32) - x_zero_point) * scale
                x = requantize_numbers(value, low, high, zero_point)
            parts.append(x.astype(value_dtype(self.out_dtype)))
        y = np.concatenate(parts, axis=1)
        if not self.scaled_dtype:
            return (y,)
        origin, low, high, zero_point = np.asarray(constants["scaled"], np.float32)
        value = (y.astype(np.float32) - origin) * np.asarray(constants["factor"], np.float32)
        value = value + np.asarray(constants["offset"], np.float32)
        z = requantize_numbers(value, low, high, zero_point)
        return (y, z.astype(value_dtype(self.scaled_dtype)))

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        low, high, zero_point = bounds(self.out_dtype, 2)
        rows = [
            [index + 1, 0.6 + 0.1 * index, low, high, zero_point]
            for index in range(len(self.channels))
        ]
        constants: dict[str, Any] = {"scalars": np.array(rows, np.float32)}
        if self.scaled_dtype:
            low, high, of_z = bounds(self.scaled_dtype, 3)
            count = self.y_shape[1]
            constants["factor"] = rng.uniform(-1.5, 1.5, count).astype(np.float32)
            constants["offset"] = rng.uniform(-30, 30, count).astype(np.float32)
            constants["scaled"] = np.array([zero_point, low, high, of_z], np.float32)
        return random_inputs(rng, self.inputs), constants

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        scaled = outputs[1] if self.scaled_dtype else ""
        return dataclasses.replace(
            self, in_dtypes=tuple(inputs), out_dtype=outputs[0], scaled_dtype=scaled
        )

    def __str__(self) -> str:
        scaled = ", scaled" if self.scaled_dtype else ""
        joined = " ".join(map(str, self.sources))
        of = f" of {joined}" if joined else ""
        return f"concat {self.outer}x({'+'.join(map(str, self.channels))}){of}{scaled}"


def scaled_concat(workload: Workload, dtype: str) -> Concat | None:
    """A concatenation to bytes with its values scaled beside it; None for anything else."""
    plain = isinstance(workload, Concat) and not workload.scaled_dtype
    if not plain or not isinstance(workload, Concat):
        return None
    if not {workload.out_dtype, dtype} <= {"int8", "uint8"}:
        return None
    return dataclasses.replace(workload, scaled_dtype=dtype)
