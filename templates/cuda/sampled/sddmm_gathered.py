"""Sampled products on tensor cores, of rows of b gathered into registers.

Each vector row of the mask names columns, which are rows of b. A warp takes some vectors of one
row, reads their rows of b as the left factors of mma.sync and the rows of a as the right ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit, moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.sampled.config import TILE, SampledConfig, SampledTiling
from autoq.templates.cuda.sampled.source import PRODUCT, ROUNDINGS, SOURCE
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

# mma.sync of 16 x 8 x 32 bytes.
_LEAST_COMPUTE_CAPABILITY = 80
_REGISTERS_BEFORE_SPILLS = 200
_DEFAULT = SampledConfig(tiles=2, warps=4, chunks=1, ahead=True)


def matches(workload: object, target: Target) -> bool:
    """Every sampled product whose arrays have int32 indices, in bytes too."""
    if not isinstance(workload, Sddmm) or target.kind != "cuda":
        return False
    tiling = SampledTiling(workload, _DEFAULT)
    return target.compute_capability >= _LEAST_COMPUTE_CAPABILITY and indexable(
        (max(workload.m, workload.n), tiling.row_bytes), (workload.places, workload.vector)
    )


def space(workload: Sddmm, target: Target) -> Space[SampledConfig]:
    """Warps whose registers suffice, and that leave no tile without vectors in the longest row."""
    knobs = {
        "tiles": (1, 2, 4, 8),
        "warps": (1, 2, 4, 8, 16),
        "chunks": (1, 2, 4),
        "ahead": (False, True),
    }

    def registers_suffice(config: SampledConfig) -> bool:
        """A thread's registers are few enough, and a multiprocessor has room for a block."""
        tiling = SampledTiling(workload, config)
        return tiling.registers <= _REGISTERS_BEFORE_SPILLS and tiling.resident(target) > 0

    def rows_have_chunks(config: SampledConfig) -> bool:
        """No more chunks are read at once than a row has."""
        return config.chunks <= SampledTiling(workload, config).chunks

    def rows_have_tiles(config: SampledConfig) -> bool:
        """The longest row fills more than half of the tiles of a warp."""
        return config.tiles == 1 or TILE * config.tiles < 2 * max(1, workload.longest)

    def features(config: SampledConfig) -> Mapping[str, float]:
        tiling = SampledTiling(workload, config)
        resident = max(1, tiling.resident(target))
        return {
            "blocks": float(tiling.blocks),
            "waves": tiling.blocks / (target.units * resident),
            "registers": float(tiling.registers),
            "rounds": float(-(-tiling.chunks // config.chunks)),
        }

    constraints = (registers_suffice, rows_have_chunks, rows_have_tiles)
    return Space(SampledConfig, knobs, constraints, features)


def default(workload: Sddmm, target: Target) -> SampledConfig:
    """Two tiles a warp, or one where rows are short."""
    legal = space(workload, target)
    return _DEFAULT if _DEFAULT in legal else SampledConfig(1, 4, 1, True)


def _source(tiling: SampledTiling) -> DeviceFunction:
    """The device function of a tiling."""
    workload, config = tiling.workload, tiling.config
    nibbles = is_four_bit(workload.a_dtype)
    source = SOURCE.replace("PRODUCTS\n", _products(tiling) + "\n")
    source = source.replace("ROUND\n", ROUNDINGS[workload.out_dtype] + "\n")
    floating = "float32" if workload.floating else ""
    types = {
        "SUM": floating or "int32",
        "TOTAL": floating or ("int64" if workload.wide else "int32"),
        "OUT": moved_as(workload.out_dtype),
    }
    constants = {
        "KIND": 4 if nibbles else 16 if tiling.digits == 2 else 8,
        "PLANES": tiling.planes, "SCALED": workload.out_dtype != "int32", "M": workload.m,
        "VECTOR": workload.vector, "STRIDE": workload.stride, "ROW_BYTES": tiling.row_bytes,
        "LANE_BYTES": tiling.lane_bytes, "ALIGNED": tiling.aligned_bytes, "TILES": config.tiles,
        "WARPS": config.warps, "TOGETHER": config.chunks, "AHEAD": config.ahead,
        "ITEMS": tiling.items,
    }  # fmt: skip
    return DeviceNamespace("sddmm", source, types, constants).function("sample")


def _products(tiling: SampledTiling) -> str:
    """C++ of the product of each pair of digits, the gathered one the faster to change."""
    workload, branches = tiling.workload, ""
    for number in range(tiling.digits**2):
        digits = number % tiling.digits, number // tiling.digits
        if workload.floating:
            atom = MmaSync((16, 8, 16), workload.b_dtype, workload.a_dtype, "float32")
        else:
            kinds = (
                _digit(dtype, digit == tiling.digits - 1)
                for dtype, digit in zip((workload.b_dtype, workload.a_dtype), digits, strict=True)
            )
            atom = MmaSync((16, 8, 32), *kinds, "int32")
        branch = PRODUCT.replace("NUMBER", str(number)).replace("INSTRUCTION", atom.instruction)
        branches += branch.replace("KIND_OF_D", "f" if workload.floating else "r")
    return (
        "template <int WHICH> __device__ __forceinline__ void product(\n"
        "    SUM* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {" + branches + "\n}"
    )


def _digit(dtype: str, highest: bool) -> str:
    """The dtype of a byte of a value: the highest one alone has a sign."""
    return "int8" if highest and not dtype.startswith("u") else "uint8"


def build(workload: Sddmm, config: SampledConfig, target: Target) -> PrimFunc:
    """The product; parameters a, b, items, columns, row_scale, column_scale, y."""
    tiling = SampledTiling(workload, config)
    function = _source(tiling)
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        call(function, *pointers, block, thread)

    return thread_kernel(parameters, tiling.blocks, tiling.threads, target, body)


def pack(workload: Sddmm, config: SampledConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The items, the column of each place, and the scales, one of 1 each where there are none."""
    tiling = SampledTiling(workload, config)
    mask = workload.mask(constants)
    starts, ends = workload.places_of(mask)
    columns = np.zeros(workload.places, np.int32)
    columns[np.arange(len(mask.indices)) + (starts[:-1] - mask.pointers[:-1])[
        mask.vector_row_of
    ]] = mask.indices  # fmt: skip
    one = np.ones(1, np.float32)
    scales = (np.asarray(constants.get(name, one)) for name in ("row_scale", "column_scale"))
    arrays = (_items(tiling, starts, ends), columns, *scales)
    specs = packed(workload, config)
    return tuple(
        np.ascontiguousarray(array, spec.dtype) for array, spec in zip(arrays, specs, strict=True)
    )


def _items(tiling: SampledTiling, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The first row, the first place, the vectors and the places of each item, [items, 4].

    Items behind the last place have none. Places behind those of all rows are items of no vectors.
    """
    workload, most = tiling.workload, TILE * tiling.config.tiles
    stops = np.append(starts[1:], workload.places)
    counts = -(-(stops - starts) // most)
    row = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    first = starts[row] + number * most
    own_ends = np.append(ends, 0)[row]
    items = np.zeros((tiling.items, 4), np.int64)
    vectors = np.clip(own_ends - first, 0, most)
    spaces = np.minimum(stops[row] - first, most)
    of_row = np.where(row < workload.vector_rows, row * workload.vector, 0)
    items[: len(row)] = np.stack([of_row, first, vectors, spaces], axis=1)
    return items


def packed(workload: Sddmm, config: SampledConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    scaled = workload.out_dtype != "int32"
    return (
        TensorSpec("items", (SampledTiling(workload, config).items, 4), "int32"),
        TensorSpec("columns", (workload.places,), "int32"),
        TensorSpec("row_scale", (workload.m if scaled else 1,), "float32"),
        TensorSpec("column_scale", (workload.n if scaled else 1,), "float32"),
    )


TEMPLATE = Template("sddmm_gathered", 1, matches, space, default, build, pack, packed)
