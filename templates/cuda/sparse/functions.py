"""What kernels of sparse products share: their device functions, and the epilogue's constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.arrays.storage import is_four_bit, moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.sparse.config import GROUP, STEP, PanelTiling
from autoq.templates.cuda.sparse.finish_source import FINISH
from autoq.templates.cuda.sparse.pack import pack_schedule, schedule_specs
from autoq.templates.cuda.sparse.source import HEADING
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.epilogue.cuda.short_forms.one_scale import one_scale
from autoq.templates.epilogue.cuda.short_forms.read_sums import biased_terms
from autoq.templates.epilogue.cuda.short_forms.words import (
    IS_ONE_SCALE,
    READ,
    WORDS,
    words_of,
)
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.epilogue.cuda.values.elements import SATURATED4
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.spmm import Spmm
from autoq.templates.workload import Constants

_FOUR = 4
"""Outputs that are converted together."""

_SHIFT = """
    own.shift.word[j] = __float_as_uint(rows.shift[row]);"""

_PRODUCT = r"""
  if constexpr (LEFT == LEFT_DIGIT && RIGHT == RIGHT_DIGIT)
    asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));"""


def rows_as_conv2d(workload: Spmm) -> Conv2d:
    """What an epilogue knows of the product: columns of y are images, its rows channels."""
    return Conv2d(
        n=workload.n, h=1, w=1, c=1, k=workload.m, r=1, s=1,
        epilogue=workload.epilogue,
    )  # fmt: skip


class Finished(Protocol):
    """What the functions of all kernels need of a tiling, `PanelTiling`'s or one of its own."""

    @property
    def workload(self) -> Spmm: ...
    @property
    def terms(self) -> int: ...
    @property
    def finished_columns(self) -> int: ...
    @property
    def neighbours(self) -> int: ...
    @property
    def digit_bits(self) -> int: ...
    @property
    def left_digits(self) -> int: ...
    @property
    def right_digits(self) -> int: ...
    @property
    def planes(self) -> int: ...
    @property
    def b_offset(self) -> int: ...


def has_one_scale(tiling: Finished) -> bool:
    """Whether an output is a function of the sum of its products of bytes alone."""
    workload = tiling.workload
    bytes_in = workload.in_dtype in ("int8", "uint8") and tiling.left_digits == 1
    return workload.epilogue.uniform and bytes_in


def _near(tiling: Finished) -> int:
    """Outputs of a lane that are computed together."""
    return math.gcd(tiling.workload.n, 4, tiling.neighbours)


def has_row_scales(tiling: Finished) -> bool:
    """Whether outputs are bytes of int32 sums, a bias and a scale of their row, four a time."""
    epilogue = tiling.workload.epilogue
    plain = epilogue == Epilogue(epilogue.out_dtype) and epilogue.out_dtype in ("int8", "uint8")
    whole = not (tiling.workload.floating or tiling.workload.wide)
    return plain and whole and tiling.planes == 1 and _near(tiling) == _FOUR


SCHEDULE = ("values", "places", "starts", "rows_of", "runs", "firsts")
"""Arrays of the panel kernel's schedule."""


def device_functions(
    tiling: Finished,
    name: str,
    source: str,
    constants: Mapping[str, int],
    schedule: Sequence[str] = SCHEDULE,
    mapped: bool = False,
) -> DeviceNamespace:
    """The function spmm(smem, b, residual?, schedule, bias, scale?, scalars?, y, block, thread).

    source follows what all kernels share and defines multiply_sparse; constants are its own, among
    them ROWS_INSIDE and COLUMNS_INSIDE where no group or no block goes beyond y, STORES_WIDE where
    registers suffice for it, and how far apart a lane's columns lie that are no neighbours.
    schedule: names of the arrays in front of the bias, all but `places` of int32. mapped: whether b
    is the address of a tensor map.
    """
    workload = tiling.workload
    nibbles = is_four_bit(workload.in_dtype)
    near = _near(tiling)
    epilogue = ThreadEpilogue(
        rows_as_conv2d(workload), near, scaled=workload.wide or workload.floating
    )
    float_bias = workload.epilogue.float_bias
    finish = FINISH.replace("SHIFT;", _SHIFT if float_bias else "")
    products = _float_product(workload) if workload.floating else _products(tiling)
    packing = SATURATED4.replace("_@", "_read").replace("TYPE", "u8")
    source = HEADING.replace("PRODUCTS", products) + packing + finish + source
    return epilogue.namespace(
        name,
        source + _entry(tiling, schedule, mapped),
        {"B": "uint8" if nibbles else moved_as(workload.in_dtype)},
        {
            "M": workload.m, "N": workload.n, "K": workload.k, "COLUMNS": tiling.finished_columns,
            "NEAR": near, "FLOAT_BIAS": float_bias, "PLANES": tiling.planes, "TERMS": tiling.terms,
            "LEFT_DIGITS": tiling.left_digits, "RIGHT_DIGITS": tiling.right_digits,
            "DIGIT_BITS": tiling.digit_bits, "SIXTY_FOUR": workload.wide,
            "FLOATS": workload.floating,
            "ONE_SCALE": has_one_scale(tiling), "IS_ONE_SCALE": int(IS_ONE_SCALE),
            "ROW_SCALES": has_row_scales(tiling),
            "NIBBLES": nibbles * (1 + (workload.in_dtype == "int4")),
            "ROWS_INSIDE": False, "COLUMNS_INSIDE": False, "APART": 1, "STREAMED": False,
            "STORES_WIDE": False,
            **constants,
        },
    )  # fmt: skip


def _products(tiling: Finished) -> str:
    """C++ of the product of each pair of digits."""
    source, bits = "", tiling.digit_bits
    shape = (16, 8, STEP * 8 // bits)
    for i in range(tiling.left_digits):
        for j in range(tiling.right_digits):
            right = _digit(tiling.workload.in_dtype, bits, j == tiling.right_digits - 1)
            left = _digit(tiling.workload.weight_dtype, bits, i == tiling.left_digits - 1)
            atom = MmaSync(shape, right, left, "int32")
            pair = _PRODUCT.replace("LEFT_DIGIT", str(i)).replace("RIGHT_DIGIT", str(j))
            source += pair.replace("INSTRUCTION", atom.instruction)
    return source


def _float_product(workload: Spmm) -> str:
    """C++ of the product of 16 gathered rows of floats."""
    atom = MmaSync((16, 8, STEP // 2), workload.in_dtype, workload.weight_dtype, "float32")
    pair = _PRODUCT.replace("LEFT_DIGIT", "0").replace("RIGHT_DIGIT", "0")
    return pair.replace("INSTRUCTION", atom.instruction)


def _digit(dtype: str, bits: int, highest: bool) -> str:
    """The dtype of a byte or nibble of a value: the highest one alone has a sign."""
    return f"{'' if highest and not dtype.startswith('u') else 'u'}int{bits}"


def _entry(tiling: Finished, schedule: Sequence[str], mapped: bool) -> str:
    """C++ of spmm(smem, b, residual?, schedule, bias, scale?, scalars?, y, block, thread)."""
    terms = [*tiling.workload.inputs[1:], *term_specs(tiling)]
    types = {spec.name: element(moved_as(spec.dtype)).c_type for spec in terms}
    types |= {"bias": "ACC"} if "bias" in types else {}
    taken = [name for name in types if name == "residual"]
    own = [name for name in types if name != "residual"]
    names = (*taken, *schedule, *own)
    parameters = "".join(
        f"const {'int' if name in schedule and name != 'places' else 'void'}* {name}, "
        for name in names
    )
    fields = " ".join(f"from.{name} = (const {kind}*){name};" for name, kind in types.items())
    given = ", ".join(schedule)
    b, right = ("unsigned long long b", "b") if mapped else ("const void* b", "(const B*)b")
    return (
        f"__device__ __forceinline__ void spmm(unsigned char* smem, {b}, "
        f"{parameters}void* y, int block, int thread) {{\n"
        f"  Constants from = {{}};\n  {fields}\n"
        f"  multiply_sparse(smem, {right}, {given}, from, (OUT*)y, block, thread);\n}}\n"
    )


def term_specs(tiling: Finished) -> tuple[TensorSpec, ...]:
    """What the epilogue reads of the constants, for the rows of groups in their order in the steps.

    Those of a group more are read ahead. Of one scale for all the words are `words.ONE_SCALE`.
    """
    workload, terms = tiling.workload, tiling.terms
    if has_one_scale(tiling):
        return (TensorSpec("scalars", (WORDS,), "float32"),)
    bias = TensorSpec("bias", (terms,), _bias_dtype(workload))
    if workload.epilogue.out_dtype == "int32":
        return (bias,)
    scales = terms * (2 if workload.epilogue.float_bias else 1)
    words = len(SCALAR_NAMES) + WORDS * has_row_scales(tiling)
    scale = TensorSpec("scale", (scales,), "float32")
    return bias, scale, TensorSpec("scalars", (words,), "float32")


def _bias_dtype(workload: Spmm) -> str:
    """The dtype of the packed bias."""
    return "float32" if workload.floating else "int64" if workload.wide else "int32"


def pack_all(tiling: PanelTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The schedule, the bias less what the zero point of b adds to the sums, the epilogue's."""
    schedule = pack_schedule(tiling, constants)
    rows = schedule[3].astype(np.int64)[:, None] + np.arange(GROUP)
    return (*schedule, *pack_terms(tiling, constants, rows.reshape(-1)))


def pack_terms(tiling: Finished, constants: Constants, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """What `term_specs` says of the rows of y [terms] in this order; 0 behind the last.

    The bias is less what the zero point of b and what a kernel adds to its values make of sums.
    Where it leaves int32, it wraps as sums do, and what both are together is right.
    """
    workload = tiling.workload
    if has_one_scale(tiling):
        return (_numbers(workload, constants),)

    def in_order(values: np.ndarray) -> np.ndarray:
        padded = np.zeros(max(int(rows.max()) + 1, workload.m), values.dtype)
        padded[: workload.m] = values
        return padded[rows]

    bias = np.asarray(constants["bias"])
    if not workload.floating:
        zero_point = int(constants.get("b_zero_point", 0)) + tiling.b_offset
        bias = bias - zero_point * workload.matrix(constants).row_sums()
    if has_row_scales(tiling):
        return _row_terms(tiling, constants, bias, in_order)
    arrays = [in_order(bias).astype(_bias_dtype(workload))]
    if workload.epilogue.out_dtype != "int32":
        arrays.append(packed_scales(workload.epilogue, constants, in_order))
        arrays.append(packed_scalars(workload.epilogue, constants))
    return tuple(arrays)


def _row_terms(
    tiling: Finished,
    constants: Constants,
    bias: np.ndarray,
    in_order: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, ...]:
    """Bias, scales and scalars of bytes with scales of rows; behind the scalars one `words.READ`.

    Where its form says so, the former are what `biased_terms` gives, the bias as bits of floats.
    """
    epilogue, scale = tiling.workload.epilogue, np.asarray(constants["scale"], np.float32)
    scalars = packed_scalars(epilogue, constants)
    largest = _largest_sum(tiling.workload, constants, tiling.b_offset)
    found = biased_terms(epilogue, scale, bias, largest, scalars)
    numbers, terms = np.zeros(1, READ), bias.astype(np.int32)
    if found is not None:
        numbers, added, scale = found
        terms = added.view(np.int32)
    return in_order(terms), in_order(scale), np.concatenate([scalars, words_of(numbers)])


def _largest_sum(workload: Spmm, constants: Constants, b_offset: int = 0) -> float:
    """A bound of the magnitude of sums of values of b, to which b_offset is added."""
    matrix = workload.matrix(constants)
    most = np.abs(matrix.values.astype(np.int64)).max(initial=0) * matrix.lengths.max(initial=0)
    return float(most) * (max(map(abs, INTEGER_RANGE[workload.in_dtype])) + abs(b_offset))


def _numbers(workload: Spmm, constants: Constants) -> np.ndarray:
    """The words of one scale for all rows."""
    largest = _largest_sum(workload, constants)
    scale = float(np.asarray(constants["scale"])[0])
    return words_of(one_scale(workload.epilogue.out_dtype, scale, largest))


def packed_all(tiling: PanelTiling) -> tuple[TensorSpec, ...]:
    """What `pack_all` gives."""
    return (*schedule_specs(tiling), *term_specs(tiling))
