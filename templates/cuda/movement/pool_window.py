"""CUDA source of one thread's running maximum or sum over pooling windows."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.pool2d import Pool2d

_SCALAR = r"""
__device__ __forceinline__ float scalar(const float* scalars, int i) {
  return STAGED ? scalars[i] : __ldg(scalars + i);
}
"""

# What a maximum of integers ends with.
_EMIT = r"""
__device__ __forceinline__ void emit(
    const Raw<T, V>& raw, const float* scalars, To<OUT> y, int offset) {
  if constexpr (REQUANTIZE) {
    const Zero<T> origin = zero<T>(scalar(scalars, 0));
    float value[V];
    #pragma unroll
    for (int i = 0; i < V; ++i)
      value[i] = __fmul_rn(number<T, V>(raw, i, origin), scalar(scalars, 1));
    store<OUT, V>(y + offset, quantise<OUT, V>(value, scalar(scalars, 2), scalar(scalars, 3),
                                               scalar(scalars, 4)));
  } else {
    store<T, V>(reinterpret_cast<T*>(y + offset), raw);
  }
}
"""

# Of words of LANES values: on sm_90 halves have a maximum in hardware.
_MAXIMUM = r"""
__device__ __forceinline__ unsigned maximum(unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 900
  unsigned c;
  if (SIGNED<T>) asm("max.s16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  else asm("max.u16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
#else
  return SIGNED<T> ? __vmaxsLANES(a, b) : __vmaxuLANES(a, b);
#endif
}
__device__ __forceinline__ void start(unsigned* acc) {
  #pragma unroll
  for (int i = 0; i < WORDS; ++i) acc[i] = SIGNED<T> ? LEAST : 0u;
}
"""


def _maximum(lanes: int, least: str) -> str:
    """`maximum` of words, and `start`; least: a word of the least signed values."""
    return _MAXIMUM.replace("LANES", str(lanes)).replace("LEAST", least)


# A maximum of 16-bit halves is decided by their high bytes, so a word and the same word moved up
# by a byte give the maxima of its odd and its even bytes: three instructions for four values on
# sm_90, where halves have a maximum in hardware.
_BYTE_MAX = (
    _maximum(4, "0x80808080u")
    + r"""
constexpr int QUADS = WORDS / 2;
__device__ __forceinline__ void add_vector(unsigned* acc, const Raw<T, V>& raw, int inside) {
  #pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    acc[i] = maximum(acc[i], raw.word[i]);
#if __CUDA_ARCH__ >= 900
    acc[QUADS + i] = maximum(acc[QUADS + i], raw.word[i] << 8);
#endif
  }
}
__device__ __forceinline__ unsigned join_word(unsigned a, unsigned b) { return maximum(a, b); }
__device__ __forceinline__ void finish(
    const unsigned* acc, int inside, int divisor, const float* scalars,
    To<OUT> y, int offset) {
  Raw<T, V> raw;
  #pragma unroll
  for (int i = 0; i < QUADS; ++i) {
#if __CUDA_ARCH__ >= 900
    raw.word[i] = __byte_perm(acc[i], acc[QUADS + i], 0x3715);
#else
    raw.word[i] = acc[i];
#endif
  }
  emit(raw, scalars, y, offset);
}
"""
)

# The top nibble of each half of a word decides the maximum of its halves, so a word moved up by
# 0 to 3 nibbles gives the maxima of all eight.
_NIBBLE_MAX = (
    _maximum(2, "0x80008000u")
    + r"""
__device__ __forceinline__ void add_vector(unsigned* acc, const Raw<T, V>& raw, int inside) {
  #pragma unroll
  for (int i = 0; i < WORDS; ++i) acc[i] = maximum(acc[i], raw.word[i / 4] << (4 * (i % 4)));
}
__device__ __forceinline__ unsigned join_word(unsigned a, unsigned b) { return maximum(a, b); }
__device__ __forceinline__ void finish(
    const unsigned* acc, int inside, int divisor, const float* scalars,
    To<OUT> y, int offset) {
  Raw<T, V> raw = {};
  #pragma unroll
  for (int i = 0; i < WORDS; ++i) raw.word[i / 4] |= (acc[i] & 0xf000f000u) >> (4 * (i % 4));
  emit(raw, scalars, y, offset);
}
"""
)

# dp4a with a single 1 adds one chosen byte, so that a value costs one instruction.
_INTEGER_SUM = r"""
__device__ __forceinline__ void start(unsigned* acc) {
  #pragma unroll
  for (int i = 0; i < V; ++i) acc[i] = 0;
}
// The first WHOLE words of a vector, or all of them if fewer.
template <int WHOLE> __device__ __forceinline__ void add_words(
    unsigned* acc, const Raw<T, V>& raw, int inside) {
  #pragma unroll
  for (int i = 0; i < V && i < WHOLE * (32 / BITS<T>); ++i) {
    if constexpr (BITS<T> == 4) {
      const unsigned top = inside ? raw.word[i / 8] << (28 - 4 * (i % 8)) : 0u;
      acc[i] += SIGNED<T> ? (unsigned)((int)top >> 28) : top >> 28;
    } else {
      const unsigned word = inside ? raw.word[i / 4] : 0u, one = 1u << (8 * (i % 4));
      acc[i] = SIGNED<T> ? (unsigned)__dp4a((int)word, (int)one, (int)acc[i])
                            : __dp4a(word, one, acc[i]);
    }
  }
}
__device__ __forceinline__ void add_vector(unsigned* acc, const Raw<T, V>& raw, int inside) {
  add_words<(V + 3) / 4>(acc, raw, inside);
}
// Bytes 0 and 2 of words are added in the halves of one word, bytes 1 and 3 in those of another.
// Words are added as they are for both together, and the odd bytes' part is taken off at the end.
template <int N> __device__ __forceinline__ void add_halves(
    unsigned* acc, const Raw<T, V> (&raw)[N], const bool (&inside)[N], int i) {
  constexpr unsigned flip = SIGNED<T> ? 0x80808080u : 0u, bias = SIGNED<T> ? 128 * N : 0;
  unsigned both = 0, odd = 0;
  #pragma unroll
  for (int p = 0; p < N; ++p) {
    const unsigned word = (inside[p] ? raw[p].word[i] : 0u) ^ flip;
    both += word, odd += __byte_perm(word, 0u, 0x4341);
  }
  const unsigned even = both - (odd << 8);
  acc[4 * i] += (even & 0xffffu) - bias, acc[4 * i + 2] += (even >> 16) - bias;
  acc[4 * i + 1] += (odd & 0xffffu) - bias, acc[4 * i + 3] += (odd >> 16) - bias;
}
// Half of the words by dp4a and half by additions, which are instructions of different units.
template <int N> __device__ __forceinline__ void add_vectors(
    unsigned* acc, const Raw<T, V> (&raw)[N], const bool (&inside)[N]) {
  constexpr bool splits = BITS<T> == 8 && V % 4 == 0 && N > 2 && N <= 256;
  constexpr int whole = splits ? V / 4 - V / 8 : (V + 3) / 4;
  #pragma unroll
  for (int p = 0; p < N; ++p) add_words<whole>(acc, raw[p], inside[p]);
  #pragma unroll
  for (int i = whole; splits && i < V / 4; ++i) add_halves(acc, raw, inside, i);
}
__device__ __forceinline__ unsigned join_word(unsigned a, unsigned b) { return a + b; }
template <int N> __device__ __forceinline__ void finish_values(
    const unsigned* acc, int inside, int divisor, const float* scalars,
    To<OUT> y, int offset) {
  const int zero = __float2int_rn(scalar(scalars, 0)) * inside;
  const float scale = __fdiv_rn(scalar(scalars, 1), __int2float_rn(divisor));
  float value[N];
  #pragma unroll
  for (int i = 0; i < N; ++i)
    value[i] = __fmul_rn(__int2float_rn((int)acc[i] - zero), scale);
  store<OUT, N>(y + offset, quantise<OUT, N>(value, scalar(scalars, 2), scalar(scalars, 3),
                                        scalar(scalars, 4)));
}
"""

_FLOAT = r"""
__device__ __forceinline__ float join(float a, float b) {
  if (!MAXIMUM) return __fadd_rn(a, b);
  return a > b || a != a ? a : b;  // NaN if either is, which fmaxf would drop
}
__device__ __forceinline__ void start(unsigned* acc) {
  #pragma unroll
  for (int i = 0; i < V; ++i) acc[i] = MAXIMUM ? 0xff800000u : 0u;
}
__device__ __forceinline__ void add_vector(unsigned* acc, const Raw<T, V>& raw, int inside) {
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    const float value = inside || MAXIMUM ? __uint_as_float(raw.word[i]) : 0.f;
    acc[i] = __float_as_uint(join(__uint_as_float(acc[i]), value));
  }
}
__device__ __forceinline__ unsigned join_word(unsigned a, unsigned b) {
  return __float_as_uint(join(__uint_as_float(a), __uint_as_float(b)));
}
template <int N> __device__ __forceinline__ void finish_values(
    const unsigned* acc, int inside, int divisor, const float* scalars,
    To<OUT> y, int offset) {
  float value[N];
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    value[i] = __uint_as_float(acc[i]);
    if (!MAXIMUM) value[i] = __fdiv_rn(value[i], __int2float_rn(divisor));
  }
  store<OUT, N>(y + offset, quantise<OUT, N>(value, scalar(scalars, 2), scalar(scalars, 3), 0.f));
}
"""

# Where a word of an accumulator is a value, threads may also finish fewer than V of them.
_FINISH = r"""
__device__ __forceinline__ void finish(
    const unsigned* acc, int inside, int divisor, const float* scalars,
    To<OUT> y, int offset) {
  finish_values<V>(acc, inside, divisor, scalars, y, offset);
}
"""

_ONE_BY_ONE = r"""
template <int N> __device__ __forceinline__ void add_vectors(
    unsigned* acc, const Raw<T, V> (&raw)[N], const bool (&inside)[N]) {
  #pragma unroll
  for (int p = 0; p < N; ++p) add_vector(acc, raw[p], inside[p]);
}
"""

_ACCUMULATE = r"""
__device__ __forceinline__ void accumulate(unsigned* acc, From<T> x, int offset, int inside) {
  add_vector(acc, load<T, V>(x + offset), inside);
}
"""


def has_values(workload: Pool2d) -> bool:
    """Whether each word of an accumulator is a value of its own."""
    return workload.kind != "max" or workload.in_dtype == "float32"


class PoolWindow:
    """Device functions of one thread's accumulator over `values` channels.

    start(acc); accumulate(acc, x, offset, inside): the vector at x + offset, of which a sum
    counts nothing unless `inside` (a maximum reads pixels of its window only);
    add_vector(acc, raw, inside): the same of a vector in registers; add_vectors(acc, raw, inside):
    of an array of them, fewer instructions for bytes that are summed; join_word(a, b): one word of
    what two threads accumulated; finish(acc, inside, divisor, scalars, y, offset): requantise and
    store after `inside` values, averages divided by `divisor`. acc holds `words` uint32. `source`
    may use all of them, and the constants `sizes`; where `has_values`, also finish_values<N>(...),
    which is finish of N values. `staged`: their scalars are a copy in shared memory.
    """

    def __init__(
        self,
        workload: Pool2d,
        values: int,
        source: str = "",
        sizes: Mapping[str, int] | None = None,
        staged: bool = False,
    ) -> None:
        maximum = workload.kind == "max"
        if workload.in_dtype == "float32":
            accumulator, self.words = _FLOAT + _FINISH + _ONE_BY_ONE, values
        elif not maximum:
            accumulator, self.words = _INTEGER_SUM + _FINISH, values
        elif is_four_bit(workload.in_dtype):
            accumulator, self.words = _EMIT + _NIBBLE_MAX + _ONE_BY_ONE, 4 * (-(-values // 8))
        else:
            accumulator, self.words = _EMIT + _BYTE_MAX + _ONE_BY_ONE, 2 * (-(-values // 4))
        namespace = NumberNamespace(
            "pool_window",
            _SCALAR + accumulator + _ACCUMULATE + source,
            {"T": workload.in_dtype, "OUT": workload.out_dtype},
            {
                "V": values,
                "WORDS": self.words,
                "MAXIMUM": maximum,
                "REQUANTIZE": workload.requantize,
                "STAGED": staged,
                **(sizes or {}),
            },
        )
        self.function = namespace.function
        self.start = namespace.function("start")
        self.accumulate = namespace.function("accumulate")
        self.finish = namespace.function("finish")
