"""CUDA source of conv2d_swapped's requantisation, bit for bit what `reference.py` says.

Two conversions to integers, ties to even, and `cvt.pack.sat` of them are one instruction (F2IP),
which puts two saturated bytes below two that are there already: a word of four outputs takes two.
A zero point is added to the rounded value, since an odd one would turn
ties: adding 1.5 * 2**23 rounds, adding zero point - 1.5 * 2**23 is then exact, or the value lies
so far outside that it saturates all the same.

Bounds that are the type's own need no clamping but this. Others (a ReLU of int8, a Clip) are
minima and maxima before rounding, which never reorders values; they are integral.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.lookup_source import looked_up, lookup_source, table_parameter


class Form(IntEnum):
    """How much there is to do after scaling; a kernel holds the code of all three."""

    PACK = 0
    """The bounds are the type's own and the zero point is 0."""
    SHIFT = 1
    """The bounds are the type's own."""
    CLAMP = 2
    """Any bounds."""


# state: [0] zero point - 1.5 * 2**23, [1] low, [2] high, [3] the form; then scale and bias
# of a block's two channels.
_PREPARE = r"""
__device__ __forceinline__ void prepare_scalars_@(unsigned* state, const void* scalars) {
  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
  const float low = second.y, high = second.z, zero_point = second.w;
  const bool own = __fadd_rn(low, zero_point) == LEAST && __fadd_rn(high, zero_point) == MOST;
  state[0] = __float_as_uint(__fadd_rn(zero_point, -12582912.f));
  state[1] = __float_as_uint(low);
  state[2] = __float_as_uint(high);
  state[3] = own ? (zero_point == 0.f ? PACK : SHIFT) : CLAMP;
}
"""
_CHANNELS = r"""
__device__ __forceinline__ void prepare_channels_@(unsigned* state, const void* scale,
                                                   const int* bias) {
  const uint2 factors = __ldg(reinterpret_cast<const uint2*>(scale));
  const int2 addends = __ldg(reinterpret_cast<const int2*>(bias));
  state[0] = factors.x;
  state[1] = factors.y;
  state[2] = addends.x;
  state[3] = addends.y;
}
"""
# a, b: columns 2t and 2t + 1 of the lower channel; c, d: of the upper one.
_COLUMNS = r"""
__device__ __forceinline__ float rescale_@(unsigned a, int bias, unsigned scale,
                                           const unsigned* first) {
  float v = __fmul_rn(__int2float_rn((int)a + bias), __uint_as_float(scale));
  if (FORM == CLAMP) v = fminf(fmaxf(v, __uint_as_float(first[1])), __uint_as_float(first[2]));
  if (FORM != PACK) v = __fadd_rn(__fadd_rn(v, 12582912.f), __uint_as_float(first[0]));
  return v;
}
__device__ __forceinline__ unsigned pack_@(float low, float high, unsigned above) {
  unsigned word;
  asm("cvt.pack.sat.TYPE.s32.b32 %0, %1, %2, %3;"
      : "=r"(word) : "r"(__float2int_rn(high)), "r"(__float2int_rn(low)), "r"(above));
  return word;
}
__device__ __forceinline__ unsigned requantise_columns_@(
    unsigned a, unsigned b, unsigned c, unsigned d, const unsigned* first,
    const unsigned* channels, const int* table, int left, int rightLAST) {
  int2 in_left = make_int2(channels[2], channels[3]), in_right = in_left;
  if (TABLE) {
    in_left = __ldg(reinterpret_cast<const int2*>(table + left));
    in_right = __ldg(reinterpret_cast<const int2*>(table + right));
  }
  const float lower_left = rescale_@(a, in_left.x, channels[0], first);
  const float upper_left = rescale_@(c, in_left.y, channels[1], first);
  const float lower_right = rescale_@(b, in_right.x, channels[0], first);
  const float upper_right = rescale_@(d, in_right.y, channels[1], first);
  return PACKED;
}
"""


@dataclass(frozen=True)
class ColumnFunctions:
    """The helpers of one kernel, `requantise` by form.

    prepare_scalars(state, scalars); prepare_channels(state of a block, scale, bias);
    requantise(a, b, c, d, state, state of the block, bias table, left, right): two channels of two
    columns in a word; left and right: where the table has the columns' biases. A table of
    outputs comes last.
    """

    prepare_scalars: DeviceFunction
    prepare_channels: DeviceFunction
    requantise: tuple[DeviceFunction, ...]


_PACKED = "pack_@(lower_left, upper_left, pack_@(lower_right, upper_right, 0))"


def column_functions(epilogue: Epilogue, table: bool) -> ColumnFunctions:
    """Helpers of a kernel with int8 or uint8 outputs.

    table: every column has a bias of its own, by its border class.
    """
    out_dtype = epilogue.out_dtype
    least, most = INTEGER_RANGE[out_dtype]
    source = lookup_source(epilogue) + _COLUMNS.replace("PACKED", looked_up(epilogue, _PACKED))
    columns = source.replace("LAST", table_parameter(epilogue))
    numbers = {form.name: str(form.value) for form in Form}
    numbers |= {"LEAST": f"{least}.f", "MOST": f"{most}.f", "TABLE": str(int(table))}
    numbers["TYPE"] = {"int8": "s8", "uint8": "u8"}[out_dtype]

    def function(name: str, source: str, **more: str) -> DeviceFunction:
        for word, number in (numbers | more).items():
            source = source.replace(word, number)
        return device_function(name, source)

    return ColumnFunctions(
        function("prepare_scalars", _PREPARE),
        function("prepare_channels", _CHANNELS),
        tuple(function("requantise_columns", columns, FORM=str(form.value)) for form in Form),
    )
