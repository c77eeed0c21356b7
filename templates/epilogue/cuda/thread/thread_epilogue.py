"""The fused epilogue of a thread that holds a few neighbouring output channels of a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script import tirx as T

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.arrays.storage import moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.bias import border_bias
from autoq.templates.borders.classes import BorderClasses, border_classes
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.epilogue.cuda.parameters.scalars import (
    packed_scalars,
    packed_scales,
    scalar_words,
    scale_words,
)
from autoq.templates.epilogue.cuda.short_forms.long_table import LONG_ENTRIES
from autoq.templates.epilogue.cuda.short_forms.words import WORDS
from autoq.templates.epilogue.cuda.thread.thread_source import thread_source
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.workload import Constants


@dataclass(frozen=True)
class ThreadEpilogue:
    """Epilogue of `values` channels a thread.

    Its device function is finish(acc, residual?, bias, scale?, scalars?, y, bias_at, k, at): the
    accumulators at acc are output channels k.. of the pixel whose elements start at `at` in y,
    and `bias_at` is the start of the pixel's row in the bias table. scaled: accumulators are the
    bits of floats, sums that have their bias and their scale already. shortened: the kernel has
    the short forms that operands may allow (`short_source.py`), and no `finish`; `short_form` says
    which one, and what packing adds to the bias and multiplies scales by.
    """

    workload: Conv2d
    values: int
    scaled: bool = False
    shortened: bool = False

    @property
    def floating(self) -> bool:
        return self.workload.in_dtype == "float32"

    @property
    def accumulator_dtype(self) -> str:
        return "float32" if self.floating else "int32"

    @property
    def supported(self) -> bool:
        """Whether the dtypes are of whole bytes and ones that `Epilogue` gives a meaning to."""
        epilogue = self.workload.epilogue
        if self.workload.has_four_bits or epilogue.scale_group or epilogue.factor:
            return False
        if self.floating:
            plain = epilogue.residual_dtype in (None, "float32")
            plain = plain and not epilogue.table
            plain = plain and epilogue.of_convolutions
            return plain and epilogue.out_dtype == "float32" and not epilogue.requantize_before_add
        return epilogue.out_dtype != "int32" or epilogue.residual_dtype is None

    def more_inputs(self) -> list[TensorSpec]:
        """The residual and the row scales, which are activations, where there are."""
        return list(self.workload.inputs[1:])

    def constant_parameters(self) -> list[TensorSpec]:
        """Parameters behind the weight: bias table, then scale and scalars where they are read."""
        rows, columns = border_classes(self.workload)
        k = self.workload.k
        parameters = [TensorSpec("bias", (rows.count, columns.count, k), self.accumulator_dtype)]
        if self.workload.epilogue.out_dtype == "int32":
            return parameters
        if not self.floating:
            words = scale_words(self.workload.epilogue, k)
            parameters.append(TensorSpec("scale", (words,), "float32"))
        words = scalar_words(self.workload.epilogue)
        if self.shortened:
            words += WORDS + (LONG_ENTRIES // 4 if self.workload.epilogue.table else 0)
        return [*parameters, TensorSpec("scalars", (words,), "float32")]

    def pack(self, weight: np.ndarray, constants: Constants) -> tuple[np.ndarray, ...]:
        """Arrays of `constant_parameters`; weight is [k, r, s, c / groups]."""
        bias = np.asarray(constants["bias"])
        if self.floating:
            table = bias.reshape(1, 1, -1).astype(np.float32)
        else:
            zero_point = int(constants.get("x_zero_point", 0))
            table = border_bias(self.workload, weight, bias, zero_point)
        scalars = packed_scalars(self.workload.epilogue, constants)
        arrays = {"bias": table, "scalars": scalars}
        if "scale" in (parameter.name for parameter in self.constant_parameters()):
            arrays["scale"] = packed_scales(self.workload.epilogue, constants, lambda one: one)
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
        pixels share, shared_terms(Constants) the part of it that channels share too, and
        outputs<form>(acc, bias, addends, channels) the V outputs of a pixel. The forms PACK, SHIFT
        and CLAMP are for four byte outputs (SATURATES), as are CONVERTED and READ of `shortened`;
        ANY suits all.
        """
        epilogue = self.workload.epilogue
        least, most = INTEGER_RANGE.get(epilogue.out_dtype, (0, 0))
        text = thread_source(epilogue, self.workload.k, self.scaled, self.shortened)
        text += f"{'' if self.shortened else self._finish()}{source}"
        return NumberNamespace(
            name,
            text,
            {
                "ADDEND": moved_as(epilogue.residual_dtype or "int8"),
                "ACC": self.accumulator_dtype,
                "OUT": moved_as(epilogue.out_dtype),
                **types,
            },
            {
                "V": self.values,
                "IMAGE": self.workload.p * self.workload.q * self.workload.k,
                "WIDE": epilogue.out_dtype == "int32",
                "RESIDUAL": epilogue.residual_dtype is not None,
                "FLOATING": self.floating,
                "LEAST": least,
                "MOST": most,
                **({"SCALARS": scalar_words(epilogue)} if self.shortened else {}),
                **constants,
            },
        )

    def _finish(self) -> str:
        """`finish`, whose parameters are the pointers that there are."""
        parameters, fields = self.pointers()
        return (
            f"__device__ __forceinline__ void finish(const ACC* acc, {parameters}void* y, "
            "int bias_at, int k, int at) {\n"
            f"  Constants from = {{}};\n  {fields}\n"
            "  store_outputs(acc, from, (OUT*)y, bias_at, k, at);\n}\n"
        )

    def entry(self, name: str, function: str) -> str:
        """name(smem, x, weight, residual?, bias, scale?, scalars?, y, block, thread), a kernel.

        It calls function(smem, x, weight, Constants, y, block, thread).
        """
        parameters, fields = self.pointers()
        return (
            f"__device__ __forceinline__ void {name}(unsigned char* smem, const X* x, "
            f"const WEIGHT* weight, {parameters}OUT* y, int block, int thread) {{\n"
            f"  Constants from = {{}};\n  {fields}\n"
            f"  {function}(smem, x, weight, from, y, block, thread);\n}}\n"
        )

    def pointers(self) -> tuple[str, str]:
        """C++ of the parameters for residual and constants, and of their way into Constants."""
        pointers = [*self.more_inputs(), *self.constant_parameters()]
        types = {item.name: element(moved_as(item.dtype)).c_type for item in pointers}
        parameters = "".join(f"const void* {name}, " for name in types)
        fields = (f"from.{name} = (const {kind}*){name};" for name, kind in types.items())
        return parameters, " ".join(fields)

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
    residuals = len(epilogue.more_inputs())
    x, *residual = pointers[: 1 + residuals]
    weight, *constants, y = pointers[1 + residuals :]
    return x, weight, [*residual, *constants], y
