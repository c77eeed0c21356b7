"""C++ of vectors of 1 to 16 bytes and the words in registers that hold them."""

from __future__ import annotations

VECTORS = {16: "uint4", 8: "uint2", 4: "unsigned", 2: "unsigned short", 1: "unsigned char"}
"""CUDA's type of so many bytes."""


def gather(width: int, offset: int, words: str) -> str:
    """Expression of the vector of `width` bytes at a byte offset of a word array."""
    first = offset // 4
    if width >= 8:
        parts = ", ".join(f"{words}[{first + i}]" for i in range(width // 4))
        return f"make_{VECTORS[width]}({parts})"
    shift = f"{words}[{first}] >> {8 * (offset % 4)}"
    return shift if width == 4 else f"({VECTORS[width]})({shift})"


def scatter(width: int, offset: int) -> list[str]:
    """Statements that put vector `v` into `words` at a byte offset."""
    first = offset // 4
    if width >= 8:
        return [f"words[{first + i}] = v.{'xyzw'[i]};" for i in range(width // 4)]
    if width == 4:
        return [f"words[{first}] = v;"]
    keep = "" if offset % 4 == 0 else f"words[{first}] | "
    return [f"words[{first}] = {keep}((unsigned)v << {8 * (offset % 4)});"]
