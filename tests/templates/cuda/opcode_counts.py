"""How many instructions of a kind the machine code of a CUDA kernel has."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from autoq.kernel.elf import text_sections
from autoq.kernel.nvcc import compile_cuda

ARITHMETIC = frozenset({0x12, 0x16, 0x19, 0x30, 0x31, 0x32, 0x35})
"""LOP3, PRMT, SHF, HADD2, HFMA2, HMUL2 and HFMA2.MMA by the lowest 9 bits of their 16 bytes."""
IMAD = 0x24


def instructions(source: str, arch: str, opcodes: Collection[int]) -> int:
    """Instructions with one of the opcodes in the source's only kernel."""
    (machine_code,) = text_sections(compile_cuda(source, arch, None).cubin)
    found = np.frombuffer(machine_code, np.uint64)[::2] & np.uint64(0x1FF)
    return sum(int(opcode) in opcodes for opcode in found)
