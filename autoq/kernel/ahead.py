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
_ENTRY = re.compile(r'^extern "C" __global__ void [^\n]*?\b(\w+)\(([^\n]*)\)( \{|;)$', re.MULTILINE)
_FUNCTION = r"""
constexpr unsigned LINES_OF_UNIT = UNIT / 128;
static __device__ __forceinline__ void ask_ahead(
    const unsigned char* first, const unsigned char* last) {
  const unsigned warps = blockDim.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x / 32 != (warps > 2 ? 2 : 0)) return;  // a warp that waits for others at first
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned lines = (unsigned)(last - first) / 128 + LINES_OF_UNIT;
  const unsigned share = (lines + blocks - 1) / blocks, end = min(lines, (block + 1) * share);
  for (unsigned line = block * share + lane; line < end; line += 32)
    asm volatile("prefetch.global.L2 [%0];" :: "l"(first + line * 128ull));
}
""".replace("UNIT / 128", f"{ALIGNMENT} / 128")


def asking_ahead(source: str) -> tuple[str, str]:
    """The source whose first kernel takes both addresses behind its own arguments; its name.

    Raises BuildError for a source without a kernel.
    """
    entry = _ENTRY.search(source)
    if entry is None:
        raise BuildError("no kernel that could ask for constants")
    symbol = entry.group(1)

    def with_addresses(found: re.Match[str]) -> str:
        if found.group(1) != symbol:
            return found.group(0)
        head = found.group(0)[: found.end(2) - found.start(0)]
        comma = ", " if found.group(2) else ""
        taken = "const unsigned char* ahead_first, const unsigned char* ahead_last"
        call = "\n  ask_ahead(ahead_first, ahead_last);" if found.group(3) == " {" else ""
        return f"{head}{comma}{taken}){found.group(3)}{call}"

    start = entry.start()
    return source[:start] + _FUNCTION + _ENTRY.sub(with_addresses, source[start:]), symbol
