"""Descriptors of shared-memory tiles for wgmma.

A descriptor may start at any row and step by whole rows; moving by k inside a row adds bytes // 16
(measured exact on an H200 with base_offset 0).
"""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode


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
