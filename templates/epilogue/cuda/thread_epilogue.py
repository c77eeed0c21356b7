"""The fused epilogue of a thread that holds a few neighbouring output channels of a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script import tirx as T

from autoq.templates.border import BorderClasses, border_bias, border_classes
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.element import INTEGER_RANGE, element
from autoq.templates.epilogue.cuda.elements import (
    SCALED,
    SHIFTED,
    rescaled_source,
    saturated_source,
)
from autoq.templates.epilogue.cuda.lookup_source import LOOK_UP_VECTOR
from autoq.templates.epilogue.cuda.numbers import NumberNamespace
from autoq.templates.epilogue.cuda.requantisation import Form
from autoq.templates.epilogue.cuda.scalars import TABLE_BYTE, packed_scalars, scalar_words
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_SOURCE = r"""
struct Constants {
  const ADDEND* residual; const ACC* bias; const float* scale; const float* scalars;
};
// A float32 residual may be NaN, which only a clamp makes the least value.
constexpr bool SATURATES = V == 4 && BITS<OUT> == 8 && BITS<ADDEND> < 32;
enum class Form { FORMS };
struct Channels { Raw<float, V> scale; float4 first, second; Form form;TABLE_FIELD };
__device__ __forceinline__ Channels channels(const Constants& from, int k) {
  Channels own = {};
  if constexpr (!WIDE) {
    own.first = __ldg(reinterpret_cast<const float4*>(from.scalars));
    own.second = __ldg(reinterpret_cast<const float4*>(from.scalars) + 1);
    if constexpr (!FLOATING) own.scale = load<float, V>(from.scale + k);
    const float low = own.second.y, high = own.second.z, zero_point = own.second.w;
    const bool whole =
        __fadd_rn(low, zero_point) == LEAST && __fadd_rn(high, zero_point) == MOST;
    own.form = !SATURATES ? Form::ANY
               : !whole   ? Form::CLAMP
               : zero_point == 0.f ? Form::PACK : Form::SHIFT;TABLE_START
  }
  return own;
}
template <Form FORM> __device__ __forceinline__ float placed(float value, const float4& second) {
  if constexpr (FORM == Form::CLAMP) value = clamped(value, second.y, second.z);
  if constexpr (FORM == Form::PACK) return value;
  return element::shifted(value, __fadd_rn(second.w, -12582912.f));
}
template <Form FORM> __device__ __forceinline__ Raw<OUT, V> outputs(
    const ACC* acc, const Raw<ACC, V>& bias, const Raw<ADDEND, V>& addends, const Channels& own) {
  if constexpr (WIDE) {
    Raw<OUT, V> out;
    #pragma unroll
    for (int i = 0; i < V; ++i) out.word[i] = (unsigned)acc[i] + bias.word[i];
    return out;
  } else {
    float value[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      float addend = 0.f;
      if constexpr (RESIDUAL) addend = number<ADDEND, V>(addends, i, zero<ADDEND>(own.second.x));
      if constexpr (FLOATING) {
        value[i] = __fadd_rn(acc[i], __uint_as_float(bias.word[i]));
        if constexpr (RESIDUAL) value[i] = __fadd_rn(value[i], __fmul_rn(addend, own.first.w));
      } else {
        const int total = (int)acc[i] + (int)bias.word[i];
        const float scale = __uint_as_float(own.scale.word[i]);
        value[i] = element::rescaled(total, scale, addend, own.first, own.second);
      }
    }
    if constexpr (SATURATES && FORM != Form::ANY) {
      #pragma unroll
      for (int i = 0; i < V; ++i) value[i] = placed<FORM>(value[i], own.second);
      return TABLE_OF{element::converted4(value[0], value[1], value[2], value[3])}TABLE_END;
    } else {
      return TABLE_OFquantise<OUT, V>(value, own.second.y, own.second.z, own.second.w)TABLE_END;
    }
  }
}
__device__ __forceinline__ void store_outputs(
    const ACC* acc, const Constants& from, OUT* y, int bias_at, int k, int at) {
  const Raw<ACC, V> bias = load<ACC, V>(from.bias + bias_at + k);
  Raw<ADDEND, V> addends = {};
  if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);
  store<OUT, V>(y + at, outputs<Form::ANY>(acc, bias, addends, channels(from, k)));
}
"""

_FORMS = (Form.PACK, Form.SHIFT, Form.CLAMP, Form.ANY)
# What the words in the source stand for where there is a table of outputs, else for nothing.
_TABLE = {
    "TABLE_FIELD": " const unsigned char* table;",
    "TABLE_START": f"""
    own.table = reinterpret_cast<const unsigned char*>(from.scalars) + {TABLE_BYTE};""",
    "TABLE_OF": "looked_up(",
    "TABLE_END": ", own.table)",
}


@dataclass(frozen=True)
class ThreadEpilogue:
    """Epilogue of `values` channels a thread.

    Its device function is finish(acc, residual?, bias, scale?, scalars?, y, bias_at, k, at): the
    accumulators at acc are output channels k.. of the pixel whose elements start at `at` in y,
    and `bias_at` is the start of the pixel's row in the bias table.
    """

    workload: Conv2d
    values: int

    @property
    def floating(self) -> bool:
        return self.workload.in_dtype == "float32"

    @property
    def accumulator_dtype(self) -> str:
        return "float32" if self.floating else "int32"

    @property
    def supported(self) -> bool:
        """Whether the dtypes are of whole bytes and ones that `Epilogue` gives a meaning to."""
        if self.workload.has_four_bits:
            return False
        epilogue = self.workload.epilogue
        if self.floating:
            plain = epilogue.residual_dtype in (None, "float32")
            plain = plain and not epilogue.table
            return plain and epilogue.out_dtype == "float32" and not epilogue.requantize_before_add
        return epilogue.out_dtype != "int32" or epilogue.residual_dtype is None

    def residual_parameters(self) -> list[TensorSpec]:
        """The residual, which is an activation, or nothing."""
        dtype = self.workload.epilogue.residual_dtype
        return [TensorSpec("residual", self.workload.y_shape, dtype)] if dtype else []

    def constant_parameters(self) -> list[TensorSpec]:
        """Parameters behind the weight: bias table, then scale and scalars where they are read."""
        rows, columns = border_classes(self.workload)
        k = self.workload.k
        parameters = [TensorSpec("bias", (rows.count, columns.count, k), self.accumulator_dtype)]
        if self.workload.epilogue.out_dtype == "int32":
            return parameters
        if not self.floating:
            parameters.append(TensorSpec("scale", (k,), "float32"))
        return [
            *parameters,
            TensorSpec("scalars", (scalar_words(self.workload.epilogue),), "float32"),
        ]

    def pack(self, weight: np.ndarray, constants: Constants) -> tuple[np.ndarray, ...]:
        """Arrays of `constant_parameters`; weight is [k, r, s, c / groups]."""
        bias = np.asarray(constants["bias"])
        if self.floating:
            table = bias.reshape(1, 1, -1).astype(np.float32)
        else:
            zero_point = int(constants.get("x_zero_point", 0))
            table = border_bias(self.workload, weight, bias, zero_point)
        scalars = packed_scalars(self.workload.epilogue, constants)
        arrays = {"bias": table, "scalars": scalars, "scale": constants.get("scale")}
        dtypes = {"bias": self.accumulator_dtype}
        return tuple(
            np.ascontiguousarray(arrays[parameter.name], dtypes.get(parameter.name, "float32"))
            for parameter in self.constant_parameters()
        )

    def namespace(
        self, name: str, source: str, types: dict[str, str], constants: dict[str, int]
    ) -> DeviceNamespace:
        """A namespace with `finish`, and with `source` that may use its types and constants.

        ACC is the accumulator's type and V the channels of a thread. channels(Constants, k) is what
        pixels share, outputs<form>(acc, bias, addends, channels) the V outputs of a pixel. The
        forms PACK, SHIFT and CLAMP are for four byte outputs (SATURATES); ANY suits all.
        """
        epilogue = self.workload.epilogue
        packed = epilogue.out_dtype if epilogue.out_dtype in ("int8", "uint8") else "uint8"
        elements = SCALED + SHIFTED + rescaled_source(epilogue) + saturated_source(packed)
        least, most = INTEGER_RANGE.get(epilogue.out_dtype, (0, 0))
        ours = LOOK_UP_VECTOR + _SOURCE if epilogue.table else _SOURCE
        for word, text in _TABLE.items():
            ours = ours.replace(word, text if epilogue.table else "")
        ours = ours.replace("FORMS", ", ".join(f"{form.name} = {form}" for form in _FORMS))
        elements = elements.replace("_@", "")
        text = f"namespace element {{\n{elements}}}\n{ours}{self._finish()}{source}"
        return NumberNamespace(
            name,
            text,
            {
                "ADDEND": epilogue.residual_dtype or "int8",
                "ACC": self.accumulator_dtype,
                "OUT": epilogue.out_dtype,
                **types,
            },
            {
                "V": self.values,
                "WIDE": epilogue.out_dtype == "int32",
                "RESIDUAL": epilogue.residual_dtype is not None,
                "FLOATING": self.floating,
                "LEAST": least,
                "MOST": most,
                **constants,
            },
        )

    def _finish(self) -> str:
        """`finish`, whose parameters are the pointers that there are."""
        parameters, fields = self._pointers()
        return (
            f"__device__ __forceinline__ void finish(const ACC* acc, {parameters}OUT* y, "
            "int bias_at, int k, int at) {\n"
            f"  Constants from = {{}};\n  {fields}\n"
            "  store_outputs(acc, from, y, bias_at, k, at);\n}\n"
        )

    def entry(self, name: str, function: str) -> str:
        """name(smem, x, weight, residual?, bias, scale?, scalars?, y, block, thread), a kernel.

        It calls function(smem, x, weight, Constants, y, block, thread).
        """
        parameters, fields = self._pointers()
        return (
            f"__device__ __forceinline__ void {name}(unsigned char* smem, const X* x, "
            f"const WEIGHT* weight, {parameters}OUT* y, int block, int thread) {{\n"
            f"  Constants from = {{}};\n  {fields}\n"
            f"  {function}(smem, x, weight, from, y, block, thread);\n}}\n"
        )

    def _pointers(self) -> tuple[str, str]:
        """C++ of the parameters for residual and constants, and of their way into Constants."""
        pointers = [*self.residual_parameters(), *self.constant_parameters()]
        types = [element(item.dtype).c_type for item in pointers]
        parameters = "".join(
            f"const {kind}* {item.name}, " for kind, item in zip(types, pointers, strict=True)
        )
        return parameters, " ".join(f"from.{item.name} = {item.name};" for item in pointers)

    def bias_row(self, p: Any, q: Any) -> Any:
        """Start of the bias table's row for output pixel (p, q)."""
        rows, columns = border_classes(self.workload)
        index = _class(rows, p) * columns.count + _class(columns, q)
        return index * self.workload.k


def _class(classes: BorderClasses, position: Any) -> Any:
    """`BorderClasses.of` as an expression."""
    if classes.count == 1:
        return 0
    first_of_tail = classes.extent - classes.tail
    return T.min(position, classes.head) + T.max(position - first_of_tail + 1, 0)


def split_pointers(
    epilogue: ThreadEpilogue, pointers: Sequence[Any]
) -> tuple[Any, Any, list[Any], Any]:
    """The pointers x, weight, those `finish` takes between acc and y, and y."""
    residuals = len(epilogue.residual_parameters())
    x, *residual = pointers[: 1 + residuals]
    weight, *constants, y = pointers[1 + residuals :]
    return x, weight, [*residual, *constants], y
