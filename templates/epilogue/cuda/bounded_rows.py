"""CUDA source of the fused epilogue where the operands prove its values small.

The same bits as `fragment_rows.py` in fewer instructions: 5 for an output element instead of 9, and
13 instead of 19 with a requantised residual (SASS of sm_90a). The bias starts the accumulators;
a rounded value v + 1.5 * 2**23 is offset and clamped as the integer it is by one instruction; the
other bound is the saturation of the pack. A clamped integer u read as a float is the denormal
u * 2**-149, which one fma by 2**127 makes the normal number (u + low) * 2**-22, exactly. The
conditions are those of `bounds.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.element import element
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.elements import element_source
from autoq.templates.epilogue.cuda.fragment_rows import RowEpilogue
from autoq.templates.epilogue.cuda.lookup_source import looked_up, lookup_source, table_parameter


def boundable(epilogue: Epilogue) -> bool:
    """Whether the epilogue has a short form: bytes out, and a residual that is added, if any."""
    added = epilogue.residual_dtype != "float32" and not epilogue.concatenates
    return epilogue.out_dtype in ("int8", "uint8") and added


# limits, see bounds.py: 0 flag, 1 -(magic + accumulator low), 2 accumulator high - low,
# 3 accumulator low * 2**-22, 4 accumulator scale * 2**22, 5 residual scale,
# 6 zero point - magic, 7 low + zero point. `second` is the second half of the scalars.
_VALUE = r"""
__device__ __forceinline__ int value_@(int total, float scale, float addend,
                                       const float* limits) {
  float v = __fmul_rn(__int2float_rn(total), scale);
  if (BEFORE) {
    int r = __float_as_int(__fadd_rn(v, 12582912.f));
    r = __viaddmin_s32_relu(r, __float_as_int(limits[1]), __float_as_int(limits[2]));
    v = __fmul_rn(__fmaf_rn(__int_as_float(r), 0x1p127f, limits[3]), limits[4]);
  }
  if (RESIDUAL) v = __fadd_rn(v, __fmul_rn(addend, limits[5]));
  int r = __float_as_int(__fadd_rn(v, 12582912.f));
  return __viaddmax_s32(r, __float_as_int(limits[6]), __float_as_int(limits[7]));
}
"""

PACK4 = r"""
__device__ __forceinline__ unsigned pack4_@(int a, int b, int c, int d) {
  unsigned high, all;
  asm("cvt.pack.sat.TYPE.s32.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(d), "r"(c), "r"(0));
  asm("cvt.pack.sat.TYPE.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(high));
  return all;
}
"""

# Volatile: a second use of the same four numbers costs less as a load than as four moves.
_START = r"""
__device__ __forceinline__ void start_rows_@(unsigned* acc, const void* start0,
                                             const void* start1) {
"""
_START_BOTH = (
    '  asm volatile("ld.shared.v4.u32 {{%0, %1, %2, %3}}, [%4];" : "=r"(acc[{a}]),'
    ' "=r"(acc[{b}]), "=r"(acc[{c}]), "=r"(acc[{d}]) : "r"(shared + {at}));'
)
_START_ROW = (
    '  asm volatile("ld.global.nc.v2.u32 {{%0, %1}}, [%2];" : "=r"(acc[{a}]),'
    ' "=r"(acc[{b}]) : "l"((const int*)start{row} + {at}));'
)


@dataclass(frozen=True)
class BoundedRows(RowEpilogue):
    """`RowEpilogue` with the bias in the accumulators, and its short form."""

    bias: bool = False

    def start(self) -> DeviceFunction:
        """start(acc, start0, start1): the bias as the accumulators' first value.

        With `row_bias` the pointers are into a table [classes, k]; otherwise start0 is a thread's
        place in the shared table of `epilogue_table.py`, and start1 is not read.
        """
        lines = [_START]
        if not self.row_bias:
            lines.append("  unsigned shared = (unsigned)__cvta_generic_to_shared(start0);")
        for pair in range(self.channels // 2):
            a = 4 * pair
            if not self.row_bias:
                lines.append(_START_BOTH.format(a=a, b=a + 1, c=a + 2, d=a + 3, at=64 * pair))
                continue
            for row in range(2):
                first = a + 2 * row
                lines.append(_START_ROW.format(a=first, b=first + 1, row=row, at=2 * pair))
        return device_function("start_rows", "\n".join([*lines, "}\n"]))

    def bounded(self) -> DeviceFunction:
        """bounded(acc, scale, limits, residual zero point, words0, words1, y0, y1, ok0, ok1, left).

        scale: a thread's place in the shared table; limits: the eight numbers of `bounds.py` in
        registers; the rest as in `rows`. The table comes last where the epilogue has one.
        """
        out = element(self.epilogue.out_dtype).c_type
        lines = [
            "__device__ __forceinline__ void bounded_rows_@(const unsigned* acc,",
            "    const void* scale, const float* limits, float residual_zero_point,",
            f"    const unsigned* words0, const unsigned* words1, {out}* y0, {out}* y1,",
            f"    int ok0, int ok1, int left{table_parameter(self.epilogue)}) {{",
            "  const float4 second = make_float4(residual_zero_point, 0.f, 0.f, 0.f);",
            f"  unsigned out0[{self._out_words}], out1[{self._out_words}];",
        ]
        for quad in range(self.channels // 4):
            lines.append(
                f"  {{ const float4 s = reinterpret_cast<const float4*>(scale)[{4 * quad}];"
            )
            for row in range(2):
                values = ",\n    ".join(self._value(quad, row, e) for e in range(4))
                word = looked_up(self.epilogue, f"pack4_@({values})")
                lines.append(f"  out{row}[{quad}] = {word};")
            lines.append("  }")
        lines += self._stores(0) + self._stores(1)
        source = element_source(self.epilogue) + _VALUE + PACK4 + lookup_source(self.epilogue)
        source = source.replace("BEFORE", str(int(self.epilogue.requantize_before_add)))
        source = source.replace("RESIDUAL", str(int(self.epilogue.residual_dtype is not None)))
        source = source.replace("TYPE", "s8" if self.epilogue.out_dtype == "int8" else "u8")
        return device_function("bounded_rows", source + "\n".join([*lines, "}\n"]))

    def shared_residual(self) -> DeviceFunction:
        """load(words, shared): one row's residual, 16 channels in shared memory."""
        lines = [
            "__device__ __forceinline__ void shared_residual_@(unsigned* words,",
            "    const void* shared) {",
            "  const uint4 v = *reinterpret_cast<const uint4*>(shared);",
            *(f"  words[{i}] = v.{'xyzw'[i]};" for i in range(4)),
        ]
        return device_function("shared_residual", "\n".join([*lines, "}\n"]))

    def _value(self, quad: int, row: int, e: int) -> str:
        addend = f"addend_@(words{row}[{quad}], {e}, second)"
        if self.epilogue.residual_dtype is None:
            addend = "0.f"
        return f"value_@({self._total(quad, row, e)}, s.{'xyzw'[e]}, {addend}, limits)"

    def _total(self, quad: int, row: int, e: int) -> str:
        """Accumulator of channel 4 * quad + e of a fragment row."""
        return f"(int)acc[{(2 * quad + e // 2) * 4 + row * 2 + e % 2}]"
