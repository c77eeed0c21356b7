"""The fused epilogue of a thread that holds a few neighbouring output channels of a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script import tirx as T

from autoq.templates.base import Operands
from autoq.templates.border import BorderClasses, border_bias, border_classes
from autoq.templates.cuda.packed_values import DeviceNamespace
from autoq.templates.cuda.thread_kernel import Operand
from autoq.templates.signature import has_four_bits
from autoq.templates.tiles.requantise import C_TYPES, element_source
from autoq.templates.workload import Conv2d

_SOURCE = r"""
struct Constants {
  const ADDEND* residual; const ACC* bias; const float* scale; const float* scalars;
};
__device__ __forceinline__ void store_outputs(
    const ACC* acc, const Constants& from, OUT* y, int bias_at, int k, int at) {
  const Raw<ACC, V> bias = load<ACC, V>(from.bias + bias_at + k);
  if constexpr (WIDE) {
    Raw<int, V> out;
    #pragma unroll
    for (int i = 0; i < V; ++i) out.word[i] = (unsigned)acc[i] + bias.word[i];
    store<int, V>(reinterpret_cast<int*>(y) + at, out);
  } else {
    const float4 first = __ldg(reinterpret_cast<const float4*>(from.scalars));
    const float4 second = __ldg(reinterpret_cast<const float4*>(from.scalars) + 1);
    Raw<ADDEND, V> addends;
    Raw<float, V> scale;
    if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);
    if constexpr (!FLOATING) scale = load<float, V>(from.scale + k);
    float value[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      float addend = 0.f;
      if constexpr (RESIDUAL) addend = number<ADDEND, V>(addends, i, zero<ADDEND>(second.x));
      if constexpr (FLOATING) {
        value[i] = __fadd_rn(acc[i], __uint_as_float(bias.word[i]));
        if constexpr (RESIDUAL) value[i] = __fadd_rn(value[i], __fmul_rn(addend, first.w));
      } else {
        const int total = (int)acc[i] + (int)bias.word[i];
        value[i] = element::rescale(total, __uint_as_float(scale.word[i]), addend, first, second);
      }
    }
    store<OUT, V>(y + at, quantise<OUT, V>(value, second.y, second.z, second.w));
  }
}
"""


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
        if has_four_bits(self.workload):
            return False
        epilogue = self.workload.epilogue
        if self.floating:
            plain = epilogue.residual_dtype in (None, "float32")
            return plain and epilogue.out_dtype == "float32" and not epilogue.requantize_before_add
        return epilogue.out_dtype != "int32" or epilogue.residual_dtype is None

    def residual_operands(self) -> list[Operand]:
        """The residual, which is an activation, or nothing."""
        dtype = self.workload.epilogue.residual_dtype
        return [Operand("residual", self.workload.y_shape, dtype)] if dtype else []

    def constant_operands(self) -> list[Operand]:
        """Parameters behind the weight: bias table, then scale and scalars where they are read."""
        rows, columns = border_classes(self.workload)
        k = self.workload.k
        operands = [Operand("bias", (rows.count, columns.count, k), self.accumulator_dtype)]
        if self.workload.epilogue.out_dtype == "int32":
            return operands
        if not self.floating:
            operands.append(Operand("scale", (k,), "float32"))
        return [*operands, Operand("scalars", (8,), "float32")]

    def pack(self, weight: np.ndarray, operands: Operands) -> tuple[np.ndarray, ...]:
        """Arrays of `constant_operands`; weight is [k, r, s, c / groups]."""
        bias = np.asarray(operands["bias"])
        if self.floating:
            table = bias.reshape(1, 1, -1).astype(np.float32)
        else:
            zero_point = int(operands.get("x_zero_point", 0))
            table = border_bias(self.workload, weight, bias, zero_point)
        arrays = {"bias": table, "scalars": operands["scalars"], "scale": operands.get("scale")}
        dtypes = {"bias": self.accumulator_dtype}
        return tuple(
            np.ascontiguousarray(arrays[operand.name], dtypes.get(operand.name, "float32"))
            for operand in self.constant_operands()
        )

    def namespace(
        self, name: str, source: str, types: dict[str, str], constants: dict[str, int]
    ) -> DeviceNamespace:
        """A namespace with `finish`, and with `source` that may use its types and constants.

        ACC is the accumulator's type and V the channels of a thread.
        """
        epilogue = self.workload.epilogue
        element = element_source(epilogue).replace("_@", "")
        text = f"namespace element {{\n{element}}}\n{_SOURCE}{self._finish()}{source}"
        return DeviceNamespace(
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
                **constants,
            },
        )

    def _finish(self) -> str:
        """`finish`, whose parameters are the pointers that there are."""
        pointers = [*self.residual_operands(), *self.constant_operands()]
        parameters = "".join(f"const {C_TYPES[item.dtype]}* {item.name}, " for item in pointers)
        fields = " ".join(f"from.{item.name} = {item.name};" for item in pointers)
        return (
            f"__device__ __forceinline__ void finish(const ACC* acc, {parameters}OUT* y, "
            "int bias_at, int k, int at) {\n"
            f"  Constants from = {{}};\n  {fields}\n"
            "  store_outputs(acc, from, y, bias_at, k, at);\n}\n"
        )

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
    residuals = len(epilogue.residual_operands())
    x, *residual = pointers[: 1 + residuals]
    weight, *constants, y = pointers[1 + residuals :]
    return x, weight, [*residual, *constants], y
