"""CUDA source that multiplies 16-bit floats in float32, a few channels of a few pixels a thread."""

FLOAT_CHANNELS = r"""
template <class T> __device__ __forceinline__ float widened(unsigned bits) {
  if constexpr (IS_HALF<T>) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)bits));
    return v;
  } else if constexpr (IS_BRAIN<T>) {
    return __uint_as_float(bits << 16);
  } else {
    return __uint_as_float(bits);
  }
}
template <class T, int N>
__device__ __forceinline__ float value(const Raw<T, N>& raw, int i) {
  if constexpr (BITS<T> == 32) return widened<T>(raw.word[i]);
  return widened<T>(raw.word[i / 2] >> (16 * (i % 2)) & 0xffffu);
}
template <class T> __device__ __forceinline__ unsigned narrowed(float v) {
  unsigned short bits;
  if constexpr (IS_HALF<T>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
  } else if constexpr (IS_BRAIN<T>) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
  } else {
    return __float_as_uint(v);
  }
}
template <class T, int N>
__device__ __forceinline__ Raw<T, N> packed_values(const float* values) {
  Raw<T, N> raw = {};
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (BITS<T> == 32) {
      raw.word[i] = narrowed<T>(values[i]);
    } else {
      raw.word[i / 2] |= narrowed<T>(values[i]) << (16 * (i % 2));
    }
  }
  return raw;
}
__device__ __forceinline__ void clear(float* acc) {
  #pragma unroll
  for (int i = 0; i < PIXELS * V; ++i) acc[i] = 0.f;
}
template <int N> __device__ __forceinline__ Raw<X, N> pixel(const X* x, int at, int w) {
  if (w >= 0 && w < WIDTH) return load<X, N>(x + at + w * CHANNELS);
  return {};
}
// A column of one channel a group: weights of all taps wait, and the column meets each of them.
__device__ __forceinline__ void depthwise_row(
    float* acc, const X* x, const float* weight, int at, int first_w, int k) {
  float filter[TAPS][V];
  #pragma unroll
  for (int s = 0; s < TAPS; ++s) {
    const Raw<float, V> raw = load<float, V>(weight + s * FILTERS + k);
    #pragma unroll
    for (int v = 0; v < V; ++v) filter[s][v] = value<float, V>(raw, v);
  }
  #pragma unroll
  for (int i = 0; i < COLUMNS; ++i) {
    const Raw<X, V> column = pixel<V>(x, at, first_w + i);
    #pragma unroll
    for (int v = 0; v < V; ++v) {
      const float in = value<X, V>(column, v);
      #pragma unroll
      for (int s = 0; s < TAPS; ++s) {
        const int past = i - s * DILATION;
        if (past < 0 || past % STRIDE || past / STRIDE >= PIXELS) continue;
        float& sum = acc[past / STRIDE * V + v];
        sum = fmaf(in, filter[s][v], sum);
      }
    }
  }
}
// All channels of a group, I of them at a time; a weight serves every pixel.
__device__ __forceinline__ void grouped_row(
    float* acc, const X* x, const float* weight, int at, int first_w, int k) {
  #pragma unroll 1
  for (int c = 0; c < GROUP; c += I) {
    Raw<X, I> column[COLUMNS];
    #pragma unroll
    for (int i = 0; i < COLUMNS; ++i) column[i] = pixel<I>(x, at + c, first_w + i);
    #pragma unroll
    for (int j = 0; j < I; ++j) {
      #pragma unroll
      for (int s = 0; s < TAPS; ++s) {
        const Raw<float, V> filter =
            load<float, V>(weight + (s * GROUP + c + j) * FILTERS + k);
        #pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
          const float in = value<X, I>(column[p * STRIDE + s * DILATION], j);
          #pragma unroll
          for (int v = 0; v < V; ++v) {
            float& sum = acc[p * V + v];
            sum = fmaf(in, value<float, V>(filter, v), sum);
          }
        }
      }
    }
  }
}
__device__ __forceinline__ void accumulate_row(
    float* acc, From<X> x, From<float> weight, int at, int first_w, int k) {
  if constexpr (DEPTHWISE) {
    depthwise_row(acc, x + 0, weight + 0, at, first_w, k);
  } else {
    grouped_row(acc, x + 0, weight + 0, at, first_w, k);
  }
}
__device__ __forceinline__ void finish(
    const float* acc, From<OUT> residual, From<float> bias, To<OUT> y, int k, int at) {
  const Raw<float, V> biases = load<float, V>(bias + k);
  Raw<OUT, V> addends = {};
  if constexpr (RESIDUAL) addends = load<OUT, V>(residual + at);
  float results[V];
  #pragma unroll
  for (int v = 0; v < V; ++v) {
    float sum = acc[v] + value<float, V>(biases, v);
    const float addend = value<OUT, V>(addends, v);
    if constexpr (RESIDUAL && RESIDUAL_FIRST) sum += addend;
    sum = activated(sum);
    if constexpr (RESIDUAL && !RESIDUAL_FIRST) sum += addend;
    results[v] = sum;
  }
  store<OUT, V>(y + at, packed_values<OUT, V>(results));
}
"""
"""Source for a `DeviceNamespace` behind `activation_source`, whose `_@` is left out.

accumulate_row(acc, x, weight, at, first_w, k): adds to acc [PIXELS, V] a row of the filter, weights
from k on, times the row of x whose channels of the thread start at `at`, from pixel first_w on.
finish(acc, residual, bias, y, k, at): V results of a pixel from its sums.
"""
