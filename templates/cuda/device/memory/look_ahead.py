"""Constants of the kernels to come, on their way into the L2 cache while this one computes."""

from __future__ import annotations

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

_UNIT = 16

_SOURCE = r"""
__device__ __forceinline__ void look_ahead_@(const void* constants, int block) {
  const char* from = static_cast<const char*>(constants) + OWN + (long long)block * SHARE;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
               :: "l"(__cvta_generic_to_global(from)), "r"(SHARE) : "memory");
}
"""


def look_ahead(own: int, ahead: int, blocks: int) -> DeviceFunction:
    """look_ahead(constants, block): a block's share of what lies behind a kernel's own constants.

    own: bytes of these, which the pointer is to, a multiple of 16; ahead: bytes behind them, shared
    out to so many blocks.
    """
    share = -(-ahead // (blocks * _UNIT)) * _UNIT
    source = _SOURCE.replace("OWN", f"{own}ll").replace("SHARE", str(share))
    return device_function("look_ahead", source)
