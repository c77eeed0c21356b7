"""What the mixed-input kernels read for results beside constants: scales and a residual."""

from __future__ import annotations

import math

from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Var

from autoq.templates.arrays.storage import moved_as
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.operators.float_gemm import FloatGemm


@T.meta_class
class ResultInputs:
    """The inputs of a product beside x.

    value: `Finishing.value`; x_scale: float32 [batch * m], of the rows of x of all products;
    residual: pointer to an array of y's shape and type. Either is None where it is not read.
    """

    def __init__(self, work, value, x_scale, residual):
        self.work, self.value = work, value
        self.x_scale, self.residual = x_scale, residual

    def operands(self, sums, constants, product, columns, added):
        """What `Finishing.one` takes of a sum, or `Finishing.pair` of two.

        sums: of a weight row of a product of the batch with some rows of x, which are the columns
        of D; constants: the row's scale and bias; added: to each, of the residual if there is one.
        """
        work = self.work
        if work.x_scale:
            # Behind the last row is any scale: nothing of it is stored.
            sums = [
                total * self.x_scale[product * work.m + T.min(column, work.m - 1)]
                for total, column in zip(sums, columns, strict=True)
            ]
        return [*sums, *constants, *added]

    def residuals(self, product, row, columns):
        """What is added to the results of a weight row and rows of x, read from memory."""
        if not self.work.residual:
            return []
        return [self.residual_at(product, row, column) for column in columns]

    def residual_at(self, product, row, column):
        """What is added to the result of a weight row and a row of x."""
        work = self.work
        at = row * work.m + column if work.weight_left else column * work.n + row
        return T.cuda.func_call(
            self.value.name, self.residual, product * (work.m * work.n) + at,
            T.cast((row < work.n) & (column < work.m), "int32"),
            source_code=self.value.source, return_type="float32",
        )  # fmt: skip


def result_inputs(
    work: FloatGemm, shape: tuple[int, ...], value: DeviceFunction, x_scale: Var | None,
    residual: Var | None,
) -> ResultInputs:  # fmt: skip
    """Those behind the parameters of a kernel, None for what it does not read.

    shape: that of y and of the residual in memory.
    """
    scales = pointer = None
    if x_scale is not None:
        scales = IRBuilder.name("x_scale", T.match_buffer(x_scale, (work.batch * work.m,)))
    if residual is not None:
        dtype = work.out_dtype
        values = IRBuilder.name("residual_values", T.match_buffer(residual, shape, dtype))
        flat = T.decl_buffer((math.prod(shape),), moved_as(dtype), data=values.data)
        pointer = IRBuilder.name("residual", flat).ptr_to([0])
    return ResultInputs(work, value, scales, pointer)
