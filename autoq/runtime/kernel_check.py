"""Whether a kernel's description can be launched: counts, indices, extents, limits of hardware.

Machine code is beyond checking. What is checked is that code which keeps to its parameters is
never handed anything else, and that the driver is never called with numbers it does not check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from autoq.errors import ArtifactError
from autoq.runtime.kernel import (
    Argument,
    Buffer,
    CpuKernel,
    FunctionCall,
    Im2colMap,
    Kernel,
    Launch,
    Parameter,
    Scalar,
    TiledMap,
    Workspace,
)
from autoq.templates.arrays.element import ELEMENTS
from autoq.templates.hardware import HARDWARE, MOST_SMEM_BYTES
from autoq.templates.program import Initially

DTYPE_BYTES = {row.name: row.bytes for row in ELEMENTS.values() if not row.packed}
"""Dtypes of arrays, each with the bytes of an item."""

_MAP_DTYPES = [row.name for row in ELEMENTS.values() if row.tensor_map is not None]
_SCALARS = {name: ELEMENTS[name].range for name in ("int32", "uint32", "int64", "uint64")}
_GRID, _BLOCK, _BLOCK_THREADS, _CLUSTER = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024, 16
_MAP_RANK, _BOX = 5, 256
_SYMBOL = re.compile(r"[A-Za-z_]\w{0,499}", re.ASCII)


def check_kernel(kernel: Kernel, name: str, arch: str) -> None:
    """Raise ArtifactError that begins with `name` for what no compiler of autoq writes for `arch`.

    A launch takes no more shared memory than a block has on the architecture, or on any that autoq
    knows where it does not know this one.
    """
    sizes = [array_bytes(array, name) for array in (*kernel.parameters, *kernel.workspaces)]
    for workspace in kernel.workspaces:
        known = workspace.initially in [item.value for item in Initially]
        _require(known, name, f"a workspace that is initially {workspace.initially!r}")
    runs = kernel.calls if isinstance(kernel, CpuKernel) else kernel.launches
    _require(bool(runs), name, "no launch")
    unused = set(range(len(kernel.modules))) - {item.module for item in runs}
    _require(not unused, name, f"nothing runs module {min(unused, default=0)}")
    for number, item in enumerate(runs):
        label = f"{name}, launch {number}"
        _require(_is_symbol(item.symbol), label, f"symbol {item.symbol!r}")
        _require(0 <= item.module < len(kernel.modules), label,
                 f"module {item.module} of {len(kernel.modules)}")  # fmt: skip
        if isinstance(item, FunctionCall):
            _check_call(item, len(sizes), label)
            continue
        _check_launch(item, label, arch)
        for argument in item.arguments:
            _check_argument(argument, sizes, label)
    if not isinstance(kernel, CpuKernel):
        least = min(kernel.registers, kernel.spill_bytes)
        _require(least >= 0, name, "negative registers or spills")


def array_bytes(array: Parameter | Workspace, name: str) -> int:
    """Bytes of an array; raises ArtifactError unless its dtype is known and its extents positive.

    `array` is anything with a shape and a dtype.
    """
    _require(array.dtype in DTYPE_BYTES, name, f"dtype {array.dtype!r}")
    size = math.prod(array.shape) * DTYPE_BYTES[array.dtype]
    fits = min(array.shape, default=1) > 0 and len(array.shape) <= 32 and size < 2**63
    _require(fits, name, f"shape {list(array.shape)}")
    return size


def _check_call(call: FunctionCall, buffers: int, name: str) -> None:
    _require(bool(call.arguments), name, "no argument")
    for index in call.arguments:
        _require(0 <= index < buffers, name, f"buffer {index} of {buffers}")


def _check_launch(launch: Launch, name: str, arch: str) -> None:
    for axis in range(3):
        fits = 0 < launch.grid[axis] <= _GRID[axis] and 0 < launch.block[axis] <= _BLOCK[axis]
        fits = fits and launch.cluster[axis] > 0 and launch.grid[axis] % launch.cluster[axis] == 0
        _require(fits, name, f"grid {launch.grid}, block {launch.block}, cluster {launch.cluster}")
    _require(math.prod(launch.block) <= _BLOCK_THREADS, name, f"block {launch.block}")
    _require(math.prod(launch.cluster) <= _CLUSTER, name, f"cluster {launch.cluster}")
    most = HARDWARE[arch].smem_bytes if arch in HARDWARE else MOST_SMEM_BYTES
    _require(0 <= launch.smem_bytes <= most, name, f"{launch.smem_bytes} bytes of shared memory")


def _check_argument(argument: Argument, sizes: Sequence[int], name: str) -> None:
    if isinstance(argument, Scalar):
        _check_scalar(argument, name)
        return
    _require(0 <= argument.index < len(sizes), name,
             f"buffer {argument.index} of {len(sizes)}")  # fmt: skip
    if isinstance(argument, Buffer):
        return
    if isinstance(argument, TiledMap):
        _check_tiled(argument, name)
    else:
        _check_im2col(argument, name)
    reach = _reach(argument)
    _require(reach <= sizes[argument.index], name,
             f"a tensor map of {reach} bytes over {sizes[argument.index]}")  # fmt: skip


def _check_scalar(scalar: Scalar, name: str) -> None:
    if scalar.dtype == "float32":
        return
    _require(scalar.dtype in _SCALARS and isinstance(scalar.value, int), name,
             f"scalar {scalar.value!r} of {scalar.dtype!r}")  # fmt: skip
    least, most = _SCALARS[scalar.dtype] or (0, 0)
    _require(least <= scalar.value <= most, name, f"{scalar.dtype} scalar {scalar.value}")


def _check_tiled(tiled: TiledMap, name: str) -> None:
    rank = len(tiled.dims)
    lengths = (len(tiled.strides) + 1, len(tiled.box), len(tiled.element_strides))
    _require(1 <= rank <= _MAP_RANK and lengths == (rank,) * 3, name, "ranks of a tensor map")
    _check_map(tiled, (*tiled.box, *tiled.element_strides), name)
    numbers = (tiled.interleave, tiled.l2_promotion, tiled.out_of_bounds_fill)
    _require(all(0 <= number <= 3 for number in numbers), name, "enumerators of a tensor map")


def _check_im2col(im2col: Im2colMap, name: str) -> None:
    _check_map(im2col, im2col.element_strides, name)
    _require(0 < im2col.channels <= _BOX and 0 < im2col.pixels <= 1024, name, "box of a tensor map")
    corners = (*im2col.lower, *im2col.upper)
    _require(all(-(2**15) <= corner < 2**15 for corner in corners), name, "corners of a tensor map")


def _check_map(tensor_map: TiledMap | Im2colMap, boxes: Sequence[int], name: str) -> None:
    _require(tensor_map.dtype in _MAP_DTYPES, name, f"a tensor map of {tensor_map.dtype!r}")
    _require(all(0 < extent <= 2**32 for extent in tensor_map.dims), name, "dims of a tensor map")
    _require(all(0 < stride < 2**40 and stride % 16 == 0 for stride in tensor_map.strides), name,
             "strides of a tensor map")  # fmt: skip
    _require(all(0 < extent <= _BOX for extent in boxes), name, "box of a tensor map")
    _require(0 <= tensor_map.swizzle <= 6, name, f"swizzle {tensor_map.swizzle} of a tensor map")


def _reach(tensor_map: TiledMap | Im2colMap) -> int:
    """Bytes from the first element that a map covers to the end of its last."""
    inner, *outer = tensor_map.dims
    steps = zip(outer, tensor_map.strides, strict=True)
    item = DTYPE_BYTES[tensor_map.dtype]
    return inner * item + sum((extent - 1) * stride for extent, stride in steps)


def _is_symbol(name: str) -> bool:
    return _SYMBOL.fullmatch(name) is not None


def _require(condition: bool, name: str, found: str) -> None:
    if not condition:
        raise ArtifactError(f"{name}: {found}")
