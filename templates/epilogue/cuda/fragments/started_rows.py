"""CUDA source of what a thread's fragment rows read ahead: their bias, and residuals.

Accumulators that start with the bias are what the short forms of `requantisation.py` take.
"""

from __future__ import annotations

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

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


# One lane alone writes, since racecheck warns of lanes that write the same number to one place.
_KEEP_START = r"""
__device__ __forceinline__ void keep_start_@(void* place, float start, int lane) {
  const unsigned shared = (unsigned)__cvta_generic_to_shared(place);
  if (lane == 0)
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};"
                 :: "r"(shared), "r"(__float_as_uint(start)) : "memory");
  __syncwarp();
}
"""

# Volatile, since ptxas would load once and move. No cache holds the code of a block's start yet: 32
# loads instead of 128 moves take 0.09 us off 2048 cubed (11.86 on an H200).
_START_ALIKE = r"""
__device__ __forceinline__ void start_alike_@(unsigned* acc, const void* place) {
  const unsigned shared = (unsigned)__cvta_generic_to_shared(place);
  #pragma unroll
  for (int i = 0; i < COUNT; i += 4)
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(acc[i]), "=r"(acc[i + 1]), "=r"(acc[i + 2]), "=r"(acc[i + 3])
                 : "r"(shared));
}
"""


def keep_start() -> DeviceFunction:
    """keep(place, start, lane): a warp's first number of all sums, four times in shared memory.

    place: 16 bytes of the warp's own, which all of its lanes may read from here on.
    """
    return device_function("keep_start", _KEEP_START)


def start_alike(accumulators: int) -> DeviceFunction:
    """start(acc, place): so many accumulators, a multiple of four, start with one number.

    place: where `keep_start` has put it.
    """
    return device_function("start_alike", _START_ALIKE.replace("COUNT", str(accumulators)))


def start_rows(channels: int, row_bias: bool) -> DeviceFunction:
    """start(acc, start0, start1): the bias of two rows as their accumulators' first value.

    channels: consecutive ones of each row. With row_bias the pointers are into a table [classes,
    k]; otherwise start0 is a thread's place in the shared table of `epilogue_table.py`, and start1
    is not read.
    """
    lines = [_START]
    if not row_bias:
        lines.append("  unsigned shared = (unsigned)__cvta_generic_to_shared(start0);")
    for pair in range(channels // 2):
        a = 4 * pair
        if not row_bias:
            lines.append(_START_BOTH.format(a=a, b=a + 1, c=a + 2, d=a + 3, at=64 * pair))
            continue
        for row in range(2):
            first = a + 2 * row
            lines.append(_START_ROW.format(a=first, b=first + 1, row=row, at=2 * pair))
    return device_function("start_rows", "\n".join([*lines, "}\n"]))


def shared_residual() -> DeviceFunction:
    """load(words, shared): one row's residual, 16 channels in shared memory."""
    lines = [
        "__device__ __forceinline__ void shared_residual_@(unsigned* words,",
        "    const void* shared) {",
        "  const uint4 v = *reinterpret_cast<const uint4*>(shared);",
        *(f"  words[{i}] = v.{'xyzw'[i]};" for i in range(4)),
    ]
    return device_function("shared_residual", "\n".join([*lines, "}\n"]))
