"""What a kernel computes between its accumulator and its output element.

The arithmetic is single precision with round-half-even and no fused multiply-add, so that every
template and numpy give the same bits.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue.activation import ACTIVATIONS
from autoq.templates.field_types import require_types

SCALAR_NAMES = (
    "accumulator_low",
    "accumulator_high",
    "accumulator_scale",
    "residual_scale",
    "residual_zero_point",
    "low",
    "high",
    "zero_point",
)
"""Order of the `scalars` operand, float32 [8]; see `Epilogue`."""

FLOAT_OUTPUTS = ("float16", "bfloat16", "float32")
"""Outputs that are not quantised."""

# Fields that a key names only where they say something, so that older keys stay as they are.
_LATER = (
    "table", "concatenates", "row_scale", "float_bias", "activation", "scale_group", "factor",
    "dynamic", "by_range", "uniform",
)  # fmt: skip


@dataclass(frozen=True)
class Epilogue:
    """Operations fused behind an accumulator; part of a workload's key.

    For integer accumulators, with `a = acc + bias` in int32 and all else in float32:

    - out int32: `y = a` (then nothing else applies).
    - `s = float(a) * scale[k]`, then `s * row_scale[row]` with `row_scale`, then
      `s + float_bias[k]` with `float_bias`; each of them is rounded.
    - `dynamic`, with floats out: x was quantised as it came, and its scale and zero point are
      numbers of the run. Then `a = acc + bias - x_zero_point * (the sum of the channel's weights)`
      and `s = float(a) * (scale[k] * x_scale)`. Nothing is clamped.
    - `scale_group`, with floats out: so many values along the reduction share a scale. The sum of
      each such group is exact, and instead of `s = float(a) * scale[k]` it is `s = (float(a_0) *
      scale[k, 0] + float(a_1) * scale[k, 1]) + ...`, where the bias belongs to a_0. 0 for none.
    - `by_range`, with out uint8: `v` is what it would be of out float32, and the bytes, their scale
      and their zero point are those of `DynamicQuantize` of all of it, three outputs.
    - no residual: `v = s`.
    - residual, `requantize_before_add`: `t = clamp(rint(s), accumulator_low, accumulator_high)`,
      `v = t * accumulator_scale + (res - residual_zero_point) * residual_scale` (the exact
      meaning of a QDQ graph, whose convolution is quantised before the addition).
    - `factor`, behind `requantize_before_add`, with bytes out: `t` is multiplied by a number of its
      channel and quantised again before that, `t = clamp(rint(t * factor[k]), factor_low,
      factor_high)`, as layers are scaled that add to a residual (ConvNeXt).
    - `concatenates`, behind `requantize_before_add`: channels whose scale is 0 keep `v = (res -
      residual_zero_point) * residual_scale`, the others `v = t * accumulator_scale`: two halves
      of the channels side by side, wherever each of them lies.
    - residual, otherwise: `v = s + (res - residual_zero_point) * residual_scale`.
    - out int4, uint4, int8 or uint8: `y = clamp(rint(v), low, high) + zero_point`, with bounds
      inside the output's range less its zero point.
    - out float32, float16 or bfloat16: `y = clamp(activation(v), low, high)`, rounded to the
      output's type, ties to even.
    - `table`, with out int8 or uint8 and an integer accumulator: `y` as above selects the output,
      the entry of its byte in the operand `table`, 256 values of out_dtype. That is the way of an
      activation to bytes.

    - `uniform`, with out int8 or uint8 and no residual: `y = clamp(rint(float(acc) * scale))` to
      the bounds of y's type, where all channels have one scale and bias and zero points are 0, as
      libraries of matrix products know it. The constants are there and say so. Some kernels have
      a shorter form of their own for it (`cuda/short_forms/one_scale.py`).

    `row_scale`, and `x_scale` and `x_zero_point` of `dynamic`, are operands beside the activations,
    not constants: of activations that are quantised as they come they are others in each run.

    For float32 accumulators: `v = acc + bias [+ res]`, `y = clamp(v, low, high)`.
    ReLU and Clip are the bounds `low` and `high`, which are data, not part of the key.

    Raises InputError for dtypes and options that do not go together.
    """

    out_dtype: str = "int8"
    residual_dtype: str | None = None
    requantize_before_add: bool = False
    table: bool = False
    concatenates: bool = False
    row_scale: bool = False
    float_bias: bool = False
    activation: str = "none"
    scale_group: int = 0
    factor: bool = False
    dynamic: bool = False
    by_range: bool = False
    uniform: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        known = ", ".join((*INTEGER_RANGE, *FLOAT_OUTPUTS))
        if self.out_dtype not in (*INTEGER_RANGE, "int32", *FLOAT_OUTPUTS):
            raise InputError(f"out_dtype {self.out_dtype!r}: {known} or int32")
        if self.residual_dtype not in (None, *INTEGER_RANGE, *FLOAT_OUTPUTS):
            raise InputError(f"residual_dtype {self.residual_dtype!r}: {known}")
        if self.requantize_before_add and self.residual_dtype is None:
            raise InputError("requantize_before_add needs a residual_dtype")
        if self.table and self.out_dtype not in ("int8", "uint8"):
            raise InputError(f"out_dtype {self.out_dtype!r}: int8 or uint8 behind a table")
        if self.concatenates and not self.requantize_before_add:
            raise InputError("concatenates needs requantize_before_add")
        behind = self.table or self.concatenates or self.row_scale or self.float_bias
        if self.factor and (not self.requantize_before_add or behind):
            raise InputError("a factor needs requantize_before_add, and nothing else beside it")
        if self.factor and self.out_dtype not in ("int8", "uint8"):
            raise InputError(f"out_dtype {self.out_dtype!r}: int8 or uint8 behind a factor")
        if self.activation not in ACTIVATIONS:
            raise InputError(f"activation {self.activation!r}: one of {', '.join(ACTIVATIONS)}")
        floats = self.out_dtype in FLOAT_OUTPUTS or self.by_range
        if self.activation != "none" and not floats:
            raise InputError(f"out_dtype {self.out_dtype!r}: an activation needs floats")
        if self.out_dtype == "int32" and (self.row_scale or self.float_bias):
            raise InputError("out_dtype 'int32': sums have neither scales nor a float bias")
        if self.scale_group and self.out_dtype not in FLOAT_OUTPUTS:
            raise InputError(f"out_dtype {self.out_dtype!r}: groups of scales need floats")
        if self.dynamic and (self.row_scale or self.scale_group or self.requantize_before_add):
            raise InputError("scales of a run are neither those of rows nor of groups")
        if self.dynamic and not floats:
            raise InputError(f"out_dtype {self.out_dtype!r}: scales of a run need floats")
        if self.by_range and (self.out_dtype != "uint8" or not self.dynamic or self.table):
            raise InputError("what is quantised by its range is uint8, of a dynamic product")
        bytes_out = self.out_dtype in ("int8", "uint8") and self.residual_dtype is None
        if self.uniform and not (bytes_out and self.of_convolutions and not self.table):
            raise InputError("a uniform scale is for bytes out, with nothing else behind it")

    @property
    def values(self) -> Epilogue:
        """The epilogue that gives the values which this one quantises by their range."""
        return dataclasses.replace(self, out_dtype="float32", by_range=False)

    @property
    def of_convolutions(self) -> bool:
        """Whether it has only what follows convolutions in quantised networks.

        That is what every template computes; the rest is for products of matrices.
        """
        narrow = {self.out_dtype, self.residual_dtype} & {"float16", "bfloat16"}
        plain = self.activation == "none" and not (
            self.row_scale or self.float_bias or self.scale_group or self.factor or self.dynamic
        )
        return plain and not narrow

    def key_fields(self) -> dict[str, Any]:
        """Its part of a key: a field that came later is there where it is not as by default."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        fields = dataclasses.asdict(self)
        return {
            name: value
            for name, value in fields.items()
            if name not in _LATER or value != usual[name]
        }


def pack_scalars(**values: float) -> np.ndarray:
    """The `scalars` operand, float32 [8], from values named as in `SCALAR_NAMES`.

    Missing ones take the neutral value: scales 1, zero points 0, bounds unbounded.
    """
    neutral = {name: 0.0 for name in SCALAR_NAMES}
    neutral.update(accumulator_scale=1.0, residual_scale=1.0)
    neutral.update(accumulator_low=-np.inf, accumulator_high=np.inf, low=-np.inf, high=np.inf)
    unknown = set(values) - set(SCALAR_NAMES)
    if unknown:
        raise InputError(f"unknown scalars {sorted(unknown)}; known are {SCALAR_NAMES}")
    neutral.update(values)
    return np.array([neutral[name] for name in SCALAR_NAMES], np.float32)
