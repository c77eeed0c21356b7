// CUDA's thread-level vocabulary for a host compiler, so that kernels without tensor cores run
// thread by thread on the CPU. Intrinsics follow the PTX manual; a misaligned vector load traps.
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <barrier>
#include <thread>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __shfl_sync(mask, value, ...) (value)

typedef unsigned int uint;
typedef unsigned char uchar;
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Index { int x, y, z; };
static thread_local Index threadIdx, blockIdx;

template <class T> inline T min(T a, T b) { return a < b ? a : b; }
template <class T> inline T max(T a, T b) { return a > b ? a : b; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

template <class T> inline T __ldg(const T* from) {
  if ((uintptr_t)from % alignof(T)) __builtin_trap();
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}
template <class To, class From> inline To bits(From from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline float __uint_as_float(unsigned u) { return bits<float>(u); }
inline unsigned __float_as_uint(float f) { return bits<unsigned>(f); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float ex2_approx_ftz_f32(float a) { return exp2f(a); }
inline float rcp_approx_ftz_f32(float a) { return 1.f / a; }
inline int __float2int_rn(float a) {
  return a >= 0x1p31f ? INT32_MAX : a < -0x1p31f ? INT32_MIN : (int)lrintf(a);
}
inline float __int2float_rn(int a) { return (float)a; }

inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t pool = (uint64_t)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= (unsigned)(pool >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}
template <class A, class B> inline int dot4(unsigned a, unsigned b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(A)(a >> 8 * i) * (int)(B)(b >> 8 * i);
  return c;
}
inline int __dp4a(int a, int b, int c) { return dot4<int8_t, int8_t>(a, b, c); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return dot4<uint8_t, uint8_t>(a, b, c);
}
inline int dp4a_u32_s32(unsigned a, unsigned b, int c) { return dot4<uint8_t, int8_t>(a, b, c); }
inline int dp4a_s32_u32(unsigned a, unsigned b, int c) { return dot4<int8_t, uint8_t>(a, b, c); }
inline int dp4a_s32_s32(unsigned a, unsigned b, int c) { return dot4<int8_t, int8_t>(a, b, c); }
inline int dp4a_u32_u32(unsigned a, unsigned b, int c) { return dot4<uint8_t, uint8_t>(a, b, c); }
// Two integers saturated to bytes, below the lower half of c.
inline unsigned pack_saturated(int a, int b, unsigned c, int least, int most) {
  const auto byte = [=](int v) { return (unsigned)(v < least ? least : v > most ? most : v) & 255u; };
  return c << 16 | byte(a) << 8 | byte(b);
}
inline unsigned cvt_pack_sat_u8_s32_b32(int a, int b, unsigned c) {
  return pack_saturated(a, b, c, 0, 255);
}
inline unsigned cvt_pack_sat_s8_s32_b32(int a, int b, unsigned c) {
  return pack_saturated(a, b, c, -128, 127);
}

// The maximum of each lane of type T.
template <class T> inline unsigned lane_max(unsigned a, unsigned b) {
  unsigned result = 0;
  for (int i = 0; i < 32; i += 8 * sizeof(T)) {
    const T x = (T)(a >> i), y = (T)(b >> i);
    result |= ((unsigned)(x > y ? x : y) & (0xffffffffu >> (32 - 8 * sizeof(T)))) << i;
  }
  return result;
}
inline unsigned __vmaxs4(unsigned a, unsigned b) { return lane_max<int8_t>(a, b); }
inline unsigned __vmaxu4(unsigned a, unsigned b) { return lane_max<uint8_t>(a, b); }
inline unsigned __vmaxs2(unsigned a, unsigned b) { return lane_max<int16_t>(a, b); }
inline unsigned __vmaxu2(unsigned a, unsigned b) { return lane_max<uint16_t>(a, b); }
inline unsigned max_s16x2(unsigned a, unsigned b) { return lane_max<int16_t>(a, b); }
inline unsigned max_u16x2(unsigned a, unsigned b) { return lane_max<uint16_t>(a, b); }
