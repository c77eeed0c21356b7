"""CUDA source of a kernel that asks for the constants of a later one, which then lie in the L2.

A network with more weights than the L2 holds reads each of them from memory, and a kernel that
waits for those before it has asked for none of them. So the kernel before it does, as soon as it
starts: one warp of each block asks for a share of the bytes, which takes a few instructions.
"""

from __future__ import annotations

import re

from autoq.errors import BuildError
from autoq.runtime.kernel import Parameter
from autoq.runtime.plan import ALIGNMENT

AHEAD = (Parameter((1,), "uint8"), Parameter((1,), "uint8"))
"""The first bytes of the first and of the last unit that is asked for, before other parameters."""
_ENTRY = re.compile(
    r'^extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^\n]*)\)( \{|;)$',
    re.MULTILINE,
)
_FUNCTION = r"""
static __device__ __forceinline__ void ask_ahead(
    const unsigned char* first, const unsigned char* last) {
  constexpr unsigned CHUNK = 2048;
  // By the last warp, which waits for what others load. Chunks of a block lie far apart, so that
  // nothing is divided.
  if ((threadIdx.x | 31) != blockDim.x - 1 || blockIdx.y + blockIdx.z > 0) return;
  const unsigned bytes = (unsigned)(last - first) + UNIT, blocks = gridDim.x;
  for (unsigned at = (blockIdx.x + threadIdx.x % 32 * blocks) * CHUNK; at < bytes;
       at += 32 * CHUNK * blocks)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 :: "l"(first + at), "r"(min(CHUNK, bytes - at)) : "memory");
}
""".replace("UNIT", str(ALIGNMENT))


def asking_ahead(source: str) -> tuple[str, str]:
    """The source whose first kernel takes both addresses before its own arguments; its name.

    Raises BuildError for a source without a kernel.
    """
    entry = _ENTRY.search(source)
    if entry is None:
        raise BuildError("no kernel that could ask for constants")
    symbol = entry.group(1)

    def with_addresses(found: re.Match[str]) -> str:
        if found.group(1) != symbol:
            return found.group(0)
        head = found.group(0)[: found.start(2) - found.start(0)]
        taken = "const unsigned char* ahead_first, const unsigned char* ahead_last"
        taken += f", {found.group(2)}" if found.group(2) else ""
        call = "\n  ask_ahead(ahead_first, ahead_last);" if found.group(3) == " {" else ""
        return f"{head}{taken}){found.group(3)}{call}"

    start = entry.start()
    return source[:start] + _FUNCTION + _ENTRY.sub(with_addresses, source[start:]), symbol
