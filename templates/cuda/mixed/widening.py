"""CUDA source that widens narrow weights to pairs of 16-bit floats, in the order of wgmma's A.

Byte permutes with packed arithmetic: PRMT puts bytes u below 0x64, which is the half 1024 + u, and
a subtraction of packed halves takes 1024 and the zero point away: four instructions for four
values, all of them exact. A signed byte is stored with its sign bit turned, as 128 more. bfloat16
has eight significant bits: 0x43 above the low seven bits is 128 + (u & 127), and 0x43 above the
eighth bit alone is 128 or 256, so that their difference is the signed byte, in eight instructions
for four values; unsigned bytes are stored as signed ones, and take two more. Nibbles are masked out
of the word. Where the upper one of a byte is masked in place it counts sixteenfold, which a
multiply-add undoes.

Two other ways from bytes to bfloat16, which share out the work among pipes differently. Folding:
0x43 above a byte u is 128 + u below 128 and 2 u from there on. What that lacks of 256, or 0, is a
multiply-add with a ReLU, and taking it away leaves 2 u: one permute and three packed instructions
for two values, zero points included. Masks: two bytes of a word lie where the mantissas of two
bfloat16 do, so that no permute is needed, and the other two are a shift away: seven for four. An
unsigned byte comes out as its 64th part, which the scale of its row makes up for: 0x40 above the
low seven bits is 2 + (u & 127) / 64, and the eighth bit alone, turned, is 0 or 2^-126, the least
normal number, of which a multiply-add takes 2^127 times away. That is 2 where u is below 128.

Plain converts: the instruction that makes float32 of an integer, and the one that packs two.

Nibbles that are scaled group by group have another way to float16. Where they lie in a word, with
zeros above, they are subnormal halves, u 2^-24 and u 2^-20, and one multiply-add by the group's
scale, a power of 2 larger, does all that is left: a mask and a multiply-add for two values. What it
adds is 8 times the scale where weights are signed, so that nothing but the result is rounded.

A lookup table, for nibbles: the three bits that all but the sign make up select the upper bytes of
positive and of negative values from two tables of PRMT, signs choose between them, and bfloat16's
lower bytes come from a third. Unsigned nibbles are stored as 8 less.
"""

from __future__ import annotations

from enum import Enum

from autoq.templates.cuda.mixed.pair import MASKED


class Widening(str, Enum):
    """How narrow weights become floats.

    PERMUTE: byte permutes and packed arithmetic. CONVERT: plain converts. TABLE: a lookup in
    registers, for 4 bits. FOLD: more packed arithmetic, and MASK: masks instead of permutes, both
    for bytes to bfloat16. SUBNORMAL: a multiply-add for nibbles and their groups' scales, to
    float16.
    """

    PERMUTE = "permute"
    CONVERT = "convert"
    TABLE = "table"
    FOLD = "fold"
    MASK = "mask"
    SUBNORMAL = "subnormal"


def widen_bytes(above: str, pair: str, taken: bool = False, behind: str = "") -> str:
    """Source of `widen_@` of bytes, a function `pair` of each two of them.

    It takes what lies beneath bytes `above` in two halves of a word, and what is taken from their
    row if `taken`. behind: statements that follow.
    """
    quarters = (("low", "0x4140"), ("low", "0x4342"), ("high", "0x4140"), ("high", "0x4342"))
    statements = [
        f"d[{i}] = {pair}(__byte_perm({word}, {above}, {places})"
        + (f", taken[{i % 2}]);" if taken else ");")
        for i, (word, places) in enumerate(quarters)
    ]
    return _WIDEN.replace("BODY", "\n  ".join([*statements, *([behind] if behind else [])]))


# d: the four registers of k = 16; row 0 and row 8 alternate. taken: what is subtracted of each row.
_WIDEN = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned low, unsigned high,
                                        const unsigned* taken) {
  BODY
}
"""
_BYTES_F16 = widen_bytes("0x64646464u", "sub_@", taken=True)
_BYTES_BF16 = r"""
__device__ __forceinline__ unsigned signed_@(unsigned pair) {
  return sub_@(pair & 0xff7fff7fu, pair & 0xff80ff80u);
}""" + widen_bytes("0x43434343u", "signed_@", behind="SHIFT")
# taken is negative.
_BYTES_FOLD = r"""
__device__ __forceinline__ unsigned folded_@(unsigned pair, unsigned taken) {
  unsigned lacking;
  asm("fma.rn.relu.bf16x2 %0, %1, %2, %3;"
      : "=r"(lacking) : "r"(pair), "r"(0xbf80bf80u), "r"(0x43804380u));
  return fma_@(sub_@(pair, lacking), 0x3f003f00u, taken);
}""" + widen_bytes("0x43434343u", "folded_@", taken=True)
_MASK_SIGNED = r"""
__device__ __forceinline__ unsigned unmasked_@(unsigned word) {
  return sub_@(masked_@(word, 0x007f007fu, 0x43004300u), masked_@(word, 0x00800080u, 0x43004300u));
}"""
_MASK_UNSIGNED = r"""
__device__ __forceinline__ unsigned unmasked_@(unsigned word) {
  return fma_@(word & 0x00800080u, 0xff00ff00u, masked_@(word, 0x007f007fu, 0x40004000u));
}"""
_BYTES_MASK = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned low, unsigned high,
                                        const unsigned* taken) {
  d[0] = unmasked_@(low), d[1] = unmasked_@(low >> 8);
  d[2] = unmasked_@(high), d[3] = unmasked_@(high >> 8);
  SHIFT
}
"""
_NIBBLES_F16 = (
    MASKED
    + r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  const unsigned upper = word >> 8;
  d[0] = sub_@(masked_@(word, 0x000f000fu, 0x64006400u), taken[0]);
  d[1] = fma_@(masked_@(word, 0x00f000f0u, 0x64006400u), 0x2c002c00u, taken[1]);
  d[2] = sub_@(masked_@(upper, 0x000f000fu, 0x64006400u), taken[0]);
  d[3] = fma_@(masked_@(upper, 0x00f000f0u, 0x64006400u), 0x2c002c00u, taken[1]);
}
"""
)
_NIBBLES_BF16 = (
    MASKED
    + r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  #pragma unroll
  for (int i = 0; i < 4; ++i)
    d[i] = sub_@(masked_@(word >> (4 * i), 0x000f000fu, 0x43004300u), taken[i % 2]);
}
"""
)
# scales: those of row 0, times 2^15, and of row 8, times 2^11; added: what is added to each.
_NIBBLES_SUBNORMAL = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* added,
                                        const unsigned* scales) {
  const unsigned upper = word >> 8;
  d[0] = fma_@(word & 0x000f000fu, scales[0], added[0]);
  d[1] = fma_@(word & 0x00f000f0u, scales[1], added[1]);
  d[2] = fma_@(upper & 0x000f000fu, scales[0], added[0]);
  d[3] = fma_@(upper & 0x00f000f0u, scales[1], added[1]);
}
"""

_SHIFT = """if (SHIFTED) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = sub_@(d[i], taken[i % 2]);
  }"""
_CONVERT = r"""
__device__ __forceinline__ unsigned converted_@(unsigned first, unsigned second) {
  unsigned d;
  asm("{ .reg .f32 low, high;\n"
      "cvt.rn.f32.INTEGER low, %1;\n"
      "cvt.rn.f32.INTEGER high, %2;\n"
      "cvt.rn.KIND.f32 %0, high, low; }" : "=r"(d) : "r"(first), "r"(second));
  return d;
}
"""
_BYTES_CONVERT = (
    _CONVERT
    + r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned low, unsigned high,
                                        const unsigned* taken) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned word = i < 2 ? low : high;
    d[i] = converted_@(word >> (16 * (i % 2)), word >> (16 * (i % 2) + 8));
  }
  SHIFT
}
"""
)
_NIBBLES_CONVERT = (
    _CONVERT
    + r"""
__device__ __forceinline__ unsigned nibble_@(unsigned word, int at) {
  return SIGNED ? (unsigned)((int)(word << (28 - at)) >> 28) : word >> at & 15;
}
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = converted_@(nibble_@(word, 4 * i), nibble_@(word, 4 * i + 16));
  SHIFT
}
"""
)
# Upper bytes of 0 .. 7 and of -8, -1 .. -7, and the lower bytes of both, unless they are zeros.
_TABLES = {
    True: ("0x42403c00u, 0x47464544u", "0xc2c0bcc8u, 0xc7c6c5c4u", ""),
    False: ("0x40403f00u, 0x40404040u", "0xc0c0bfc1u, 0xc0c0c0c0u", "0x40008000u, 0xe0c0a080u"),
}
# PRMT itself: CUDA's function for it masks the bit that replicates a byte's sign.
_NIBBLES_TABLE = r"""
__device__ __forceinline__ unsigned permuted_@(unsigned low, unsigned high, unsigned places) {
  unsigned d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(low), "r"(high), "r"(places));
  return d;
}
__device__ __forceinline__ unsigned chosen_@(unsigned mask, unsigned yes, unsigned no) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(d) : "r"(mask), "r"(yes), "r"(no));
  return d;
}
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned places = (word & 0x77777777u) >> (16 * half);
    const unsigned signs = permuted_@(half ? word << 4 : word, 0, 0xba98);
    const unsigned upper = chosen_@(signs, NEGATIVE, POSITIVE), lower = LOWER;
    d[2 * half] = __byte_perm(upper, lower, 0x1504);
    d[2 * half + 1] = __byte_perm(upper, lower, 0x3726);
  }
  SHIFT
}
"""


UNIT_OF_MASKED = 2.0**-6
"""What unsigned bytes are multiples of when masks have widened them."""

UNIT_OF_SUBNORMAL = 2.0**-9
"""What nibbles are multiples of when subnormal halves were multiplied by the scales below."""

SUBNORMAL_SCALES = (2.0**15, 2.0**11)
"""What multiplies subnormal nibbles of the first and of the second eight of 16 rows."""


def widen_source(widening: Widening, half: bool, nibbles: bool, signed: bool) -> str:
    """Source of `widen_@` behind `sub_@`; `SHIFTED` says whether anything is taken away.

    half: to float16, else to bfloat16. It takes eight bytes as two words, or eight nibbles as one.
    """
    if widening is Widening.CONVERT:
        source = _NIBBLES_CONVERT if nibbles else _BYTES_CONVERT
        integer = ("s" if signed else "u") + ("32" if nibbles else "8")
        source = source.replace("INTEGER", integer).replace("SIGNED", str(int(signed)))
    elif widening is Widening.TABLE:
        source = _NIBBLES_TABLE
        for name, table in zip(("POSITIVE", "NEGATIVE", "LOWER"), _TABLES[half], strict=True):
            looked_up = f"permuted_@({table}, places)" if table else "0u"
            source = source.replace(name, looked_up)
    elif widening is Widening.FOLD:
        source = _BYTES_FOLD
    elif widening is Widening.MASK:
        source = MASKED + (_MASK_SIGNED if signed else _MASK_UNSIGNED) + _BYTES_MASK
    elif widening is Widening.SUBNORMAL:
        source = _NIBBLES_SUBNORMAL
    elif nibbles:
        source = _NIBBLES_F16 if half else _NIBBLES_BF16
    else:
        source = _BYTES_F16 if half else _BYTES_BF16
    return source.replace("SHIFT\n", _SHIFT + "\n")
