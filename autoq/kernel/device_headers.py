"""What nvcc reads before a kernel instead of all of CUDA's and the host's headers.

nvcc includes cuda_runtime.h by itself, and TVM's CUDA source the C++ library and cuda.h. Those are
37,000 lines for the host and the CUDA runtime's functions, whose parsing takes longer than the
kernel. A kernel needs the toolkit's device functions alone, which the files here include. Machine
code is the same either way.
"""

from __future__ import annotations

import re

# The toolkit's mathematical functions include the host's <cmath>, unless they are for NVRTC.
_RUNTIME = """#pragma once
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __CUDACC_RTC_MINIMAL__
#define __NV_LEGACY_LAUNCH
#define __THROW
#define _CRTIMP
typedef unsigned long size_t;
namespace std { typedef unsigned long size_t; }
namespace __gnu_cxx { template <class, class> struct __promote_2; }
#include "crt/host_defines.h"
#include "vector_types.h"
#include "vector_functions.h"
extern "C" {
extern __host__ __device__ __device_builtin__ __cudart_builtin__ void* memset(void*, int, size_t);
extern __host__ __device__ __device_builtin__ __cudart_builtin__ void* memcpy(
    void*, const void*, size_t);
}
#define __CUDACC_RTC__
#include "crt/math_functions.h"
#include "crt/math_functions.hpp"
#undef __CUDACC_RTC__
#include "crt/device_functions.h"
#include "device_launch_parameters.h"
#undef __CUDACC_RTC_MINIMAL__
#undef __THROW
#undef _CRTIMP
"""

# Of these <cmath> has other overloads, such as pow of a float and an integer: a kernel that names
# one does not compile with these headers.
_POISON = """
#pragma GCC poison signbit isfinite isnan isinf fabs ceil floor sqrt pow log log10 fmod modf exp
#pragma GCC poison frexp ldexp asin sin sinh acos cos cosh atan atan2 tan tanh logb ilogb scalbn
#pragma GCC poison scalbln exp2 expm1 log2 log1p acosh asinh atanh hypot cbrt erf erfc lgamma
#pragma GCC poison tgamma copysign fmax nextafter remainder remquo round lround llround trunc rint
#pragma GCC poison lrint llrint fmin fdim nearbyint fma
"""

_CSTDINT = """#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
"""

# The alignment of a tensor map decides where kernels find their other parameters.
_CUDA = """#pragma once
#if __CUDACC_VER_MAJOR__ >= 13
typedef struct alignas(128) CUtensorMap_st { unsigned long opaque[16]; } CUtensorMap;
#else
typedef struct alignas(64) CUtensorMap_st { unsigned long opaque[16]; } CUtensorMap;
#endif
"""

DEVICE_HEADERS = {
    "cuda_runtime.h": _RUNTIME + _POISON,
    "cstdint": _CSTDINT,
    "type_traits": "",
    "cuda.h": _CUDA,
}
"""Text of every header by the name under which it is included."""

_INCLUDED = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)
# What TVM's source includes where NVRTC compiles it.
_UNREAD = {"cuda/std/cstdint", "cuda/std/type_traits"}


def includes_no_others(source: str) -> bool:
    """Whether a source includes none but headers of DEVICE_HEADERS."""
    return _UNREAD.union(DEVICE_HEADERS).issuperset(_INCLUDED.findall(source))


def headers_of(declarations: str) -> dict[str, str]:
    """Headers that hold some of the declarations of DEVICE_HEADERS and nothing else."""
    return dict.fromkeys(DEVICE_HEADERS, "") | {
        "cuda_runtime.h": f"#pragma once\n{declarations}{_POISON}"
    }
