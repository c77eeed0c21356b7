"""CUDA source of conv2d_swapped's requantisation, bit for bit what `epilogue.py` says.

Clamping costs no minimum or maximum: saturating multiplies do it. Adding 1.5 * 2**23 rounds to an
integer, ties to even; rounding never reorders values, so clamping to integers may come before or
behind it. Bounds are at most 256 apart and integral, as 8-bit outputs have them.

With low = 0 (ReLU): saturate(a * scale / 256) is clamp(a * scale, 0, 256) / 256 exactly, and one
fused multiply-add scales it back and rounds. Otherwise r = rint(a * scale) + 1.5 * 2**23 comes
first and saturate((r - 1.5 * 2**23 - low) / 256) clamps its distance from low to [0, 256]: all
exact, for differences of integers below 2**24. Either way the distance is the low half of a word;
two of them take low + zero point and the upper bound in one instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.tiles.requantise import DeviceFunction, device_function

# state: [0] offset of the saturation, [1] low + zero point, [2] high + zero point, both in either
# half, [3] whether low is 0; then scale and bias of a block's two channels.
_PREPARE = r"""
__device__ __forceinline__ void prepare_scalars_@(unsigned* state, const void* scalars) {
  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
  const float low = second.y, high = second.z, zero_point = second.w;
  state[0] = __float_as_uint(__fmul_rn(__fadd_rn(low, 12582912.f), -0.00390625f));
  state[1] = __byte_perm((unsigned)__float2int_rn(__fadd_rn(low, zero_point)), 0, 0x1010);
  state[2] = __byte_perm((unsigned)__float2int_rn(__fadd_rn(high, zero_point)), 0, 0x1010);
  state[3] = low == 0.f;
}
"""
_CHANNELS = r"""
__device__ __forceinline__ void prepare_channels_@(unsigned* state, const unsigned* first,
                                                   const void* scale, const int* bias) {
  const float2 factors = __ldg(reinterpret_cast<const float2*>(scale));
  const float shrink = first[3] ? 0.00390625f : 1.f;
  state[0] = __float_as_uint(__fmul_rn(factors.x, shrink));
  state[1] = __float_as_uint(__fmul_rn(factors.y, shrink));
  const int2 addends = __ldg(reinterpret_cast<const int2*>(bias));
  state[2] = addends.x;
  state[3] = addends.y;
}
"""
# a, b: columns 2t and 2t + 1 of the lower channel; c, d: of the upper one.
_COLUMNS = r"""
__device__ __forceinline__ unsigned distance_@(unsigned a, int bias, unsigned scale,
                                               unsigned offset) {
  float value = __int2float_rn((int)a + bias);
  float factor = __uint_as_float(scale), part;
  if (ZERO_LOW) {
    asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(part) : "f"(value), "f"(factor));
  } else {
    value = __fadd_rn(__fmul_rn(value, factor), 12582912.f);
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(part)
        : "f"(value), "f"(0.00390625f), "f"(__uint_as_float(offset)));
  }
  return __float_as_uint(__fmaf_rn(part, 256.f, 12582912.f));
}
__device__ __forceinline__ unsigned requantise_columns_@(
    unsigned a, unsigned b, unsigned c, unsigned d, const unsigned* first,
    const unsigned* channels, const int* left, const int* right) {
  int2 in_left = make_int2(channels[2], channels[3]), in_right = in_left;
  if (TABLE) {
    in_left = __ldg(reinterpret_cast<const int2*>(left));
    in_right = __ldg(reinterpret_cast<const int2*>(right));
  }
  const unsigned w0 = distance_@(a, in_left.x, channels[0], first[0]);
  const unsigned w1 = distance_@(c, in_left.y, channels[1], first[0]);
  const unsigned w2 = distance_@(b, in_right.x, channels[0], first[0]);
  const unsigned w3 = distance_@(d, in_right.y, channels[1], first[0]);
  const unsigned lower = __viaddmin_s16x2(__byte_perm(w0, w1, 0x5410), first[1], first[2]);
  const unsigned upper = __viaddmin_s16x2(__byte_perm(w2, w3, 0x5410), first[1], first[2]);
  return __byte_perm(lower, upper, 0x6420);
}
"""


@dataclass(frozen=True)
class ColumnFunctions:
    """The helpers of one kernel, `requantise` by whether low is 0.

    prepare_scalars(state, scalars); prepare_channels(state of a block, state, scale, bias);
    requantise(a, b, c, d, state, state of the block, left bias, right bias): two channels of two
    columns in a word.
    """

    prepare_scalars: DeviceFunction
    prepare_channels: DeviceFunction
    requantise: tuple[DeviceFunction, DeviceFunction]


def column_functions(table: bool) -> ColumnFunctions:
    """Helpers of a kernel; table: every column has a bias of its own, by its border class."""

    def columns(zero_low: bool) -> DeviceFunction:
        source = _COLUMNS.replace("ZERO_LOW", str(int(zero_low)))
        return device_function("requantise_columns", source.replace("TABLE", str(int(table))))

    return ColumnFunctions(
        device_function("prepare_scalars", _PREPARE),
        device_function("prepare_channels", _CHANNELS),
        (columns(False), columns(True)),
    )
