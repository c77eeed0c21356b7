"""Products of bytes with few rows of x: each weight passes from memory to one fragment, once.

With few rows the weights' bytes are the time. They lie packed as the registers of mma.sync, whose
16 rows are outputs and whose 8 columns rows of x: a warp loads them past shared memory, several
pieces of k ahead, and begins before the kernels before it end. Warps share a reduction, and blocks
may: their sums are integers, and the last block of a group adds them up in a fixed order.
"""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.few_rows.config import FewRowsConfig, FewRowsTiling
from autoq.templates.cuda.few_rows.cost import estimated_seconds
from autoq.templates.cuda.few_rows.kernel import epilogue_of, few_rows_kernel, workspaces
from autoq.templates.cuda.few_rows.pack import pack_weight
from autoq.templates.cuda.few_rows.space import few_rows_default, few_rows_space
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_MOST_ROWS = 16
"""With more, fragments of x are as many as weights, and other kernels' tiles are fuller."""
_LEAST_CAPABILITY = 80
"""The first with mma.sync of 16 x 8 x 32 bytes."""
_WORD = 4
_BYTES = ("int8", "uint8")
_ONE_TILE, _LONG = 8, 1024
"""Rows of one instruction, and values of k of a long reduction."""
_BEHIND, _PREFERRED = 30, 95
"""Preferences: where other kernels should be faster, and where this should."""


def matches(workload: object, target: Target) -> bool:
    """Gemm of bytes with at most 16 rows, k a multiple of 4, scales of columns and rows."""
    if not isinstance(workload, Gemm) or target.kind != "cuda":
        return False
    if target.compute_capability < _LEAST_CAPABILITY or workload.m > _MOST_ROWS:
        return False
    bytes_alone = workload.in_dtype in _BYTES and workload.weight_dtype in _BYTES
    arrays = indexable(workload.x_shape, _least(workload).weight_shape, workload.y_shape)
    return (
        bytes_alone
        and workload.k % _WORD == 0
        and arrays
        and not workload.epilogue.by_range
        and epilogue_of(workload).supported
    )


def _least(workload: Gemm) -> FewRowsTiling:
    """A cut that every workload has."""
    return FewRowsTiling(workload, FewRowsConfig(1, 1, 1, 1))


def estimate(workload: Gemm, config: FewRowsConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(FewRowsTiling(workload, config), target)


def build(workload: Gemm, config: FewRowsConfig, target: Target) -> PrimFunc | Program:
    """The kernel; parameters x, further inputs, `packed`, what blocks share sums through, y."""
    tiling, constants = FewRowsTiling(workload, config), packed(workload, config)
    kernel = few_rows_kernel(tiling, constants, target)
    spaces = workspaces(tiling)
    if not spaces:
        return kernel
    reads = tuple(spec.name for spec in (*workload.inputs, *constants))
    names = tuple(space.spec.name for space in spaces)
    return Program((Stage(kernel, (*reads, *names[:1]), (*names, "y")),), spaces)


def pack(workload: Gemm, config: FewRowsConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The weight in pieces, then the epilogue's constants."""
    weight = np.asarray(constants["weight"]).reshape(workload.weight_shape)
    epilogue = epilogue_of(workload)
    terms = epilogue.pack(weight.reshape(epilogue.workload.weight_shape), constants)
    return (pack_weight(FewRowsTiling(workload, config), weight), *terms)


def packed(workload: Gemm, config: FewRowsConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    shape = FewRowsTiling(workload, config).weight_shape
    weight = TensorSpec("weight", shape, workload.weight_dtype)
    return (weight, *epilogue_of(workload).constant_parameters())


def preference_for(workload: Gemm, target: Target) -> int:
    """In front of kernels whose tiles have 64 rows, but for many rows and a short reduction.

    Of 16 x 3072 x 768 an H200 takes 2.2 us where `gemm_wgmma` takes 2.1, of 16 x 1000 x 2048 2.3
    for 2.9 and of 8 x 1000 x 512 1.4 for 1.5.
    """
    short = workload.m > _ONE_TILE and workload.k < _LONG
    return _BEHIND if short else _PREFERRED


TEMPLATE = Template(
    "gemm_few_rows", 1, matches, few_rows_space, few_rows_default, build, pack, packed,
    estimate=estimate, preference=_BEHIND, preference_for=preference_for,
)  # fmt: skip
