"""CUDA source of the epilogue that ends in the packed conversion of floats to bytes.

Conversion to an integer, ties to even, behind a saturating pack is one instruction for two values
on sm_90 (F2IP): 2.5 instructions for an output element, 8 with a requantised residual (SASS of
sm_90a; `bounded_rows.py` takes 5 and 13). `conversion.py` says for which operands it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.element import element
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.bounded_rows import PACK4, BoundedRows, boundable
from autoq.templates.epilogue.cuda.lookup_source import looked_up, lookup_source, table_parameter


def convertible(epilogue: Epilogue) -> bool:
    """Whether the epilogue has this form: bytes out, no residual or one behind a requantisation."""
    plain = epilogue.residual_dtype is None
    return boundable(epilogue) and (plain or epilogue.requantize_before_add)


# limits, see conversion.py: 0 flag, 1 2**23 - low, 2 1 / span, 3 -2**23 / span, 4 span * scale,
# 5 2**24 * residual scale, 6 offset.
_VALUE = r"""
__device__ __forceinline__ float value_@(int total, float scale, float addend,
                                         const float* limits) {
  const float v = __fmul_rn(__int2float_rn(total), scale);
  if (!RESIDUAL) return v;
  const float t = __saturatef(__fmaf_rn(__fadd_rn(v, limits[1]), limits[2], limits[3]));
  return __fmaf_rn(t, limits[4], __fmaf_rn(addend, limits[5], limits[6]));
}
__device__ __forceinline__ unsigned convert4_@(float a, float b, float c, float d) {
  return pack4_@(__float2int_rn(a), __float2int_rn(b), __float2int_rn(c), __float2int_rn(d));
}
"""

# The byte u as a half is the denormal u * 2**-24.
_ADDENDS = r"""
__device__ __forceinline__ float4 addends_@(unsigned word) {
  const unsigned low = __byte_perm(word ^ FLIP, 0, 0x4140);
  const unsigned high = __byte_perm(word ^ FLIP, 0, 0x4342);
  float4 v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.x) : "h"((unsigned short)low));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.y) : "h"((unsigned short)(low >> 16)));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.z) : "h"((unsigned short)high));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.w) : "h"((unsigned short)(high >> 16)));
  return v;
}
"""


@dataclass(frozen=True)
class ConvertedRows(BoundedRows):
    """`BoundedRows` with the form that ends in a packed conversion."""

    def converted(self) -> DeviceFunction:
        """converted(acc, scale, limits, residual zero point, words0, words1, y0, y1, ok0, ok1,
        left): as `bounded`, with the limits of `conversion.py`; the zero point is in them.
        """
        out = element(self.epilogue.out_dtype).c_type
        lines = [
            "__device__ __forceinline__ void converted_rows_@(const unsigned* acc,",
            "    const void* scale, const float* limits, float,",
            f"    const unsigned* words0, const unsigned* words1, {out}* y0, {out}* y1,",
            f"    int ok0, int ok1, int left{table_parameter(self.epilogue)}) {{",
            f"  unsigned out0[{self._out_words}], out1[{self._out_words}];",
        ]
        for quad in range(self.channels // 4):
            lines.append(
                f"  {{ const float4 s = reinterpret_cast<const float4*>(scale)[{4 * quad}];"
            )
            for row in range(2):
                addends = "make_float4(0.f, 0.f, 0.f, 0.f)"
                if self.epilogue.residual_dtype is not None:
                    addends = f"addends_@(words{row}[{quad}])"
                values = ",\n    ".join(self._converted(quad, row, e) for e in range(4))
                lines.append(f"  const float4 r{row} = {addends};")
                word = looked_up(self.epilogue, f"convert4_@({values})")
                lines.append(f"  out{row}[{quad}] = {word};")
            lines.append("  }")
        lines += self._stores(0) + self._stores(1)
        signed = self.epilogue.residual_dtype == "int8"
        source = PACK4 + _VALUE + _ADDENDS.replace("FLIP", "0x80808080u" if signed else "0u")
        source = source.replace("RESIDUAL", str(int(self.epilogue.residual_dtype is not None)))
        source = source.replace("TYPE", "s8" if self.epilogue.out_dtype == "int8" else "u8")
        source += lookup_source(self.epilogue)
        return device_function("converted_rows", source + "\n".join([*lines, "}\n"]))

    def _converted(self, quad: int, row: int, e: int) -> str:
        lane = "xyzw"[e]
        return f"value_@({self._total(quad, row, e)}, s.{lane}, r{row}.{lane}, limits)"
