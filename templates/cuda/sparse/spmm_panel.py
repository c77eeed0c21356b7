"""Sparse products of integers on tensor cores, over a panel of the dense side in shared memory.

Gathers are what a product of short vectors waits for. A block keeps all rows of a few columns of b
in shared memory, and its warps gather from there for groups of eight rows of y, one after another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.sparse.config import GROUP, STEP, PanelConfig, PanelTiling
from autoq.templates.cuda.sparse.cost import estimated_seconds, features
from autoq.templates.cuda.sparse.pack import pack_schedule, schedule_specs
from autoq.templates.cuda.sparse.source import HEADING, PRODUCT, SHIFT, TURNS
from autoq.templates.cuda.sparse.staged_source import STAGED_SOURCE
from autoq.templates.cuda.sparse.unstaged_source import UNSTAGED_SOURCE
from autoq.templates.element import element
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.spmm import Spmm
from autoq.templates.storage import is_four_bit, moved_as
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

# cp.async and mma.sync of 16 x 8 x 32 bytes.
_LEAST_COMPUTE_CAPABILITY = 80
_COLUMNS = (32, 64, 128)
_WARPS = (4, 8, 16, 32)
_PARTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128)
_PREFETCH = (1, 2, 4, 8)
_MOST_ROW_BYTES = 128


def matches(workload: object, target: Target) -> bool:
    """Every sparse product whose arrays have int32 indices, with b of 4 bits if panels fit."""
    if not isinstance(workload, Spmm) or target.kind != "cuda":
        return False
    least = PanelTiling(workload, PanelConfig(_COLUMNS[0], _WARPS[0], 1, 1))
    if is_four_bit(workload.in_dtype) and least.smem_bytes > target.smem_bytes:
        return False
    return (
        target.compute_capability >= _LEAST_COMPUTE_CAPABILITY
        and ThreadEpilogue(_rows_as_conv2d(workload), 1).supported
        and indexable((workload.k, workload.n), workload.y_shape)
        and indexable((workload.structure.blocks + STEP * workload.vector_rows, 8))
    )


def _rows_as_conv2d(workload: Spmm) -> Conv2d:
    """What an epilogue knows of the product: columns of y are images, its rows channels."""
    return Conv2d(
        n=workload.n, h=1, w=1, c=1, k=workload.m, r=1, s=1,
        epilogue=workload.epilogue,
    )  # fmt: skip


def space(workload: Spmm, target: Target) -> Space[PanelConfig]:
    """Blocks that fit a multiprocessor and have rows to compute."""
    knobs = {
        "columns": _COLUMNS,
        "warps": _WARPS,
        "parts": _PARTS,
        "prefetch": _PREFETCH,
        "staged": (True, False),
    }

    def tiling_of(config: PanelConfig) -> PanelTiling:
        return PanelTiling(workload, config)

    def shared_memory_suffices(config: PanelConfig) -> bool:
        """The panel and the sums of every warp fit the target."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def registers_suffice(config: PanelConfig) -> bool:
        """A multiprocessor has registers and threads for a block."""
        return tiling_of(config).resident(target) > 0

    def parts_have_groups(config: PanelConfig) -> bool:
        """There are at least as many groups of eight rows as parts."""
        return config.parts <= tiling_of(config).groups

    def panels_have_columns(config: PanelConfig) -> bool:
        """No panel is wider than y, unless it is the narrowest."""
        return config.columns == _COLUMNS[0] or config.columns <= workload.n

    def rows_are_few_banks(config: PanelConfig) -> bool:
        """A row of the panel has at most 128 bytes."""
        return tiling_of(config).row_bytes <= _MOST_ROW_BYTES

    def nibbles_are_staged(config: PanelConfig) -> bool:
        """Values of b of 4 bits are widened on their way to shared memory."""
        return config.staged or not is_four_bit(workload.in_dtype)

    constraints = (
        rows_are_few_banks,
        nibbles_are_staged,
        shared_memory_suffices,
        registers_suffice,
        parts_have_groups,
        panels_have_columns,
    )
    return Space(PanelConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


def default(workload: Spmm, target: Target) -> PanelConfig:
    """The legal configuration of least estimated time."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: estimate(workload, config, target))


def estimate(workload: Spmm, config: PanelConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(PanelTiling(workload, config), target)


def build(workload: Spmm, config: PanelConfig, target: Target) -> PrimFunc:
    """The product; parameters b, residual?, those of `schedule_specs`, bias, scale?, scalars?, y.

    bias and scale are of the rows of groups; behind the scales lie float biases, where there are.
    """
    tiling = PanelTiling(workload, config)
    functions = _functions(tiling)
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(functions.function("spmm"), smem.data, *pointers, block, thread)

    return thread_kernel(parameters, tiling.blocks, tiling.threads, target, body)


def _functions(tiling: PanelTiling) -> DeviceNamespace:
    workload, config = tiling.workload, tiling.config
    nibbles = is_four_bit(workload.in_dtype)
    near = math.gcd(workload.n, 4)
    epilogue = ThreadEpilogue(_rows_as_conv2d(workload), near, scaled=workload.wide)
    float_bias = workload.epilogue.float_bias
    gathers = STAGED_SOURCE if config.staged else UNSTAGED_SOURCE
    source = HEADING.replace("PRODUCTS", _products(tiling)) + gathers + TURNS
    source = source.replace("SHIFT;", SHIFT if float_bias else "")
    return epilogue.namespace(
        "spmm_panel",
        source + _entry(tiling),
        {"B": "uint8" if nibbles else workload.in_dtype},
        {
            "M": workload.m, "N": workload.n, "K": workload.k, "COLUMNS": config.columns,
            "WARPS": config.warps, "THREADS": tiling.threads, "PANELS": tiling.panels,
            "PREFETCH": config.prefetch, "STAGED": config.staged, "WHOLE": tiling.whole,
            "NEAR": near, "FLOAT_BIAS": float_bias, "PLANES": tiling.planes, "TERMS": tiling.terms,
            "LEFT_DIGITS": tiling.left_digits, "RIGHT_DIGITS": tiling.right_digits,
            "SIXTY_FOUR": workload.wide, "NIBBLES": nibbles * (1 + (workload.in_dtype == "int4")),
        },
    )  # fmt: skip


def _products(tiling: PanelTiling) -> str:
    """C++ of the product of each pair of digits."""
    source = ""
    for i in range(tiling.left_digits):
        for j in range(tiling.right_digits):
            right = _digit(tiling.workload.in_dtype, j == tiling.right_digits - 1)
            left = _digit(tiling.workload.weight_dtype, i == tiling.left_digits - 1)
            atom = MmaSync((16, 8, STEP), right, left, "int32")
            pair = PRODUCT.replace("LEFT_DIGIT", str(i)).replace("RIGHT_DIGIT", str(j))
            source += pair.replace("INSTRUCTION", atom.instruction)
    return source


def _digit(dtype: str, highest: bool) -> str:
    """The dtype of a byte of a value: the highest one alone has a sign."""
    return "int8" if highest and not dtype.startswith("u") else "uint8"


def _entry(tiling: PanelTiling) -> str:
    """C++ of spmm(smem, b, residual?, schedule, bias, scale?, scalars?, y, block, thread)."""
    schedule = ("values", "places", "starts", "rows_of", "runs", "firsts")
    terms = [*tiling.workload.inputs[1:], *_term_specs(tiling)]
    types = {spec.name: element(moved_as(spec.dtype)).c_type for spec in terms}
    types["bias"] = "ACC"
    taken = [name for name in types if name == "residual"]
    own = [name for name in types if name != "residual"]
    names = (*taken, *schedule, *own)
    parameters = "".join(
        f"const {'int' if name in schedule and name != 'places' else 'void'}* {name}, "
        for name in names
    )
    fields = " ".join(f"from.{name} = (const {kind}*){name};" for name, kind in types.items())
    given = ", ".join(schedule)
    return (
        "__device__ __forceinline__ void spmm(unsigned char* smem, const void* b, "
        f"{parameters}void* y, int block, int thread) {{\n"
        f"  Constants from = {{}};\n  {fields}\n"
        f"  multiply_sparse(smem, (const B*)b, {given}, from, (OUT*)y, block, thread);\n}}\n"
    )


def _term_specs(tiling: PanelTiling) -> tuple[TensorSpec, ...]:
    """What the epilogue reads of the constants, for the rows of groups in their order in the steps.

    Those of a group more are read ahead.
    """
    workload, terms = tiling.workload, tiling.terms
    bias = TensorSpec("bias", (terms,), "int64" if workload.wide else "int32")
    if workload.epilogue.out_dtype == "int32":
        return (bias,)
    scales = terms * (2 if workload.epilogue.float_bias else 1)
    return bias, TensorSpec("scale", (scales,), "float32"), TensorSpec("scalars", (8,), "float32")


def pack(workload: Spmm, config: PanelConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The schedule, the bias less what the zero point of b adds to the sums, the epilogue's."""
    tiling = PanelTiling(workload, config)
    schedule = pack_schedule(tiling, constants)
    first_rows = schedule[3].astype(np.int64)

    def in_order(values: np.ndarray) -> np.ndarray:
        padded = np.zeros(tiling.groups * GROUP, values.dtype)
        padded[: workload.m] = values
        return padded[(first_rows[:, None] + np.arange(GROUP)).reshape(-1)]

    zero_point = int(constants.get("b_zero_point", 0))
    bias = np.asarray(constants["bias"]) - zero_point * workload.matrix(constants).row_sums()
    kind = np.int64 if workload.wide else np.int32
    arrays = [*schedule, in_order(bias).astype(kind)]
    if workload.epilogue.out_dtype != "int32":
        arrays.append(packed_scales(workload.epilogue, constants, in_order))
        arrays.append(packed_scalars(workload.epilogue, constants))
    return tuple(arrays)


def packed(workload: Spmm, config: PanelConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiling = PanelTiling(workload, config)
    return (*schedule_specs(tiling), *_term_specs(tiling))


TEMPLATE = Template(
    "spmm_panel", 1, matches, space, default, build, pack, packed, estimate=estimate
)
