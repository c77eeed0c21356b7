"""Launching a kernel of a loaded module, with whatever it asks of the driver beyond a grid."""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_int, c_uint, c_void_p
from typing import Any

from autoq.runtime.cuda.driver import Function, Stream, call

_LAUNCH_COOPERATIVE, _LAUNCH_CLUSTER, _LAUNCH_PROGRAMMATIC = 2, 4, 6


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_uint * 16))


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("smem_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", c_uint),
    )


Extent = tuple[int, int, int]


def launch(
    function: Function,
    extents: tuple[Extent, Extent, Extent],
    smem_bytes: int,
    stream: Stream,
    arguments: Any,
    programmatic: bool,
    cooperative: bool = False,
) -> None:
    """Launch with `arguments`, a ctypes array of pointers to the argument values.

    extents: of the grid, of a block and of a cluster; cooperative: all blocks run at once, or the
    driver refuses.
    """
    config = _launch_config(extents, smem_bytes, stream.handle.value, programmatic, cooperative)
    call("cuLaunchKernelEx", byref(config), function.handle, arguments, None)


@functools.lru_cache(maxsize=4096)
def _launch_config(
    extents: tuple[Extent, Extent, Extent],
    smem_bytes: int,
    stream: int | None,
    programmatic: bool,
    cooperative: bool,
) -> _LaunchConfig:
    """What the driver wants to know of a launch; to make it takes longer than to launch."""
    grid, block, cluster = extents
    attributes = (_LaunchAttribute * 3)()
    count = 0
    if cluster != (1, 1, 1):
        attributes[count].id = _LAUNCH_CLUSTER
        attributes[count].value[:3] = cluster
        count += 1
    if programmatic:
        attributes[count].id = _LAUNCH_PROGRAMMATIC
        attributes[count].value[0] = 1
        count += 1
    if cooperative:
        attributes[count].id = _LAUNCH_COOPERATIVE
        attributes[count].value[0] = 1
        count += 1
    return _LaunchConfig(
        (c_uint * 3)(*grid), (c_uint * 3)(*block), smem_bytes, stream, attributes, count
    )
