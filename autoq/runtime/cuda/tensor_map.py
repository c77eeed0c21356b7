"""Encoding of TMA tensor maps (128 bytes, passed to kernels by value) by the driver."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint32, c_uint64, c_void_p

from autoq.runtime.cuda.driver import call
from autoq.runtime.kernel import Im2colMap, TiledMap
from autoq.templates.arrays.element import element

_BYTES, _ALIGNMENT = 128, 64


class TensorMap:
    """A 64-byte aligned CUtensorMap; `address` is what a launch points at."""

    def __init__(self, description: TiledMap | Im2colMap, base: int) -> None:
        self._storage = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
        start = ctypes.addressof(self._storage)
        self.address = -(-start // _ALIGNMENT) * _ALIGNMENT
        self._description = description
        self.encode(base)

    def encode(self, base: int) -> None:
        """Describe the array at device address `base`, a multiple of 16."""
        if isinstance(self._description, TiledMap):
            _encode_tiled(self.address, self._description, base)
        else:
            _encode_im2col(self.address, self._description, base)


def _encode_tiled(address: int, tiled: TiledMap, base: int) -> None:
    rank = len(tiled.dims)
    call(
        "cuTensorMapEncodeTiled",
        c_void_p(address),
        element(tiled.dtype).tensor_map,
        c_uint32(rank),
        c_void_p(base),
        (c_uint64 * rank)(*tiled.dims),
        (c_uint64 * max(rank - 1, 1))(*tiled.strides),
        (c_uint32 * rank)(*tiled.box),
        (c_uint32 * rank)(*tiled.element_strides),
        tiled.interleave,
        tiled.swizzle,
        tiled.l2_promotion,
        tiled.out_of_bounds_fill,
    )


def _encode_im2col(address: int, im2col: Im2colMap, base: int) -> None:
    call(
        "cuTensorMapEncodeIm2col",
        c_void_p(address),
        element(im2col.dtype).tensor_map,
        c_uint32(4),
        c_void_p(base),
        (c_uint64 * 4)(*im2col.dims),
        (c_uint64 * 3)(*im2col.strides),
        (c_int * 2)(*im2col.lower),
        (c_int * 2)(*im2col.upper),
        c_uint32(im2col.channels),
        c_uint32(im2col.pixels),
        (c_uint32 * 4)(*im2col.element_strides),
        0,
        im2col.swizzle,
        2,
        0,
    )
