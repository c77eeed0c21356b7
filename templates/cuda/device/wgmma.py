"""Hopper wgmma on 8-bit integers: D [64, n] s32 += A [64, 32] * B [n, 32], both in shared memory.

Shared-memory tiles are K-major rows of 16, 32, 64 or 128 bytes (`swizzle.py`). A descriptor may
start at any row and step by whole rows; moving by k inside a row adds bytes // 16 (measured
exact on an H200 with base_offset 0).
"""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode

K_BYTES = 32
"""Bytes of k that one instruction takes."""

SHAPES_N = (8, 16, 24, 32, *range(48, 257, 16))
"""Widths n that exist for 8-bit operands."""

# The instruction table of TVM 0.27 stops here; wider ones are inline assembly.
_TABLE_LIMIT = 224

_TYPES = {"int8": "s8", "uint8": "u8"}


def accumulators(n: int) -> int:
    """Registers a thread needs for D [64, n]."""
    return n // 2


def _assembly(name: str, n: int, a_type: str, b_type: str) -> str:
    count = accumulators(n)
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(count))
    return (
        f"__device__ __forceinline__ void {name}"
        "(unsigned* d, unsigned long long a, unsigned long long b, int accumulate) {\n"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; '
        f"wgmma.mma_async.sync.aligned.m64n{n}k32.s32.{a_type}.{b_type} "
        f'{{{registers}}}, %{count}, %{count + 1}, p; }}"\n'
        f'    : {outputs} : "l"(a), "l"(b), "r"(accumulate));\n}}\n'
    )


def wgmma(
    accumulator: Any,
    offset: int,
    n: int,
    a: Any,
    b: Any,
    accumulate: Any,
    a_dtype: str = "int8",
    b_dtype: str = "int8",
) -> Any:
    """The call expression of one wgmma; wrap it in T.evaluate.

    accumulator: uint32 local buffer, used from `offset` (Python integer); a, b: descriptors
    (uint64 expressions); accumulate: bool expression, False overwrites D.
    """
    a_type, b_type = _TYPES[a_dtype], _TYPES[b_dtype]
    if n <= _TABLE_LIMIT:
        registers = [accumulator[offset + i] for i in range(accumulators(n))]
        instruction = f"wgmma.mma_async.sync.aligned.m64n{n}k32.s32.{a_type}.{b_type}"
        return T.ptx[instruction](*registers, a, b, accumulate)
    name = f"wgmma_m64n{n}k32_{a_type}_{b_type}"
    return T.cuda.func_call(
        name,
        accumulator.ptr_to([offset]),
        a,
        b,
        T.cast(accumulate, "int32"),
        source_code=_assembly(name, n, a_type, b_type),
    )


def encode_descriptor(
    descriptor: Any, pointer: Any, row_bytes: int, group_bytes: int, k_bytes: int = 16
) -> Any:
    """The call that encodes a K-major descriptor; wrap it in T.evaluate.

    descriptor: a mutable uint64 scalar; group_bytes: distance of two 8-row groups; k_bytes:
    distance of the two 16-byte columns of a k-step, read for rows of 16 bytes only.
    """
    return T.cuda.wgmma.encode_matrix_descriptor(
        T.address_of(descriptor), pointer, k_bytes >> 4, group_bytes >> 4, swizzle_mode(row_bytes)
    )


def descriptor_step(byte_offset: Any) -> Any:
    """What moving by a multiple of 16 bytes adds to a descriptor."""
    if isinstance(byte_offset, int):
        return T.uint64(byte_offset >> 4)
    return T.cast(byte_offset // 16, "uint64")
