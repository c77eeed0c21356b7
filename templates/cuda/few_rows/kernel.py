"""The kernel of products of few rows, and the workspaces of reductions that blocks share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.launch.thread_kernel import Start, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.catalogue import largest
from autoq.templates.cuda.few_rows.config import FewRowsTiling
from autoq.templates.cuda.few_rows.source import SOURCE
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue, split_pointers
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Initially, Workspace
from autoq.templates.target import Target

_WAIT = """asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");"""
_FOUR = 4
"""Neighbouring outputs of a row that a thread finishes."""


def epilogue_of(workload: Gemm) -> ThreadEpilogue:
    """The epilogue of a thread: of four neighbouring outputs as far as rows of y are aligned."""
    return ThreadEpilogue(workload.as_conv2d(), math.gcd(workload.n, _FOUR))


def workspaces(tiling: FewRowsTiling) -> tuple[Workspace, ...]:
    """How many blocks of each group are done, and their sums; none where a block has all of k."""
    if tiling.config.splits == 1:
        return ()
    counts = TensorSpec("counts", (tiling.groups,), "int32")
    parts = TensorSpec("parts", (tiling.blocks, tiling.part_words), "int32")
    return Workspace(counts, Initially.STAYS_ZERO), Workspace(parts)


def few_rows_kernel(
    tiling: FewRowsTiling, constants: Sequence[TensorSpec], target: Target
) -> PrimFunc:
    """The product; parameters x, further inputs, `constants`, counts and parts where split, y.

    constants: the packed weight, then those of the epilogue.
    """
    functions, epilogue = _functions(tiling, target), epilogue_of(tiling.workload)
    spaces = [space.spec for space in workspaces(tiling)]
    inputs, outputs = tiling.workload.inputs, tiling.workload.outputs
    parameters = [*inputs, *constants, *spaces, *outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        own = [*pointers[: len(inputs) + len(constants)], pointers[-1]]
        x, weight, terms, y = split_pointers(epilogue, own)
        shared = pointers[len(own) - 1 : -1]
        arguments = (smem.data, x, weight, *terms, *shared, y, block, thread)
        call(functions.function("multiply"), *arguments)

    return thread_kernel(
        parameters, tiling.blocks, tiling.threads, target, body, start=Start.AT_ONCE
    )


def _functions(tiling: FewRowsTiling, target: Target) -> DeviceNamespace:
    work, config = tiling.workload, tiling.config
    atom = largest(target, work.weight_dtype, work.in_dtype, "int32")
    source = SOURCE.replace("INSTRUCTION", atom.instruction)
    epilogue = epilogue_of(work)
    return epilogue.namespace(
        "few_rows",
        source.replace("WAIT", _WAIT if can_overlap(target) else "") + _entry(tiling, epilogue),
        {"X": work.in_dtype},
        {
            "M": work.m, "N": work.n, "K": work.k, "VECTOR": tiling.vector,
            "TILES": config.tiles, "COLUMN_TILES": tiling.column_tiles, "WARPS": config.warps,
            "THREADS": tiling.threads, "SPLITS": config.splits, "DEPTH": config.depth,
            "PIECES": tiling.pieces, "SPLIT_PIECES": tiling.split_pieces, "PITCH": tiling.pitch,
        },
    )  # fmt: skip


def _entry(tiling: FewRowsTiling, epilogue: ThreadEpilogue) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    pointers, fields = epilogue.pointers()
    split = tiling.config.splits > 1
    spaces = ("void* counts, void* parts, ", "counts, parts") if split else ("", "nullptr, nullptr")
    return (
        "__device__ __forceinline__ void multiply(unsigned char* smem, const X* x, "
        f"const void* weight, {pointers}{spaces[0]}OUT* y, int block, int thread) {{\n"
        f"  Constants from = {{}};\n  {fields}\n"
        f"  multiply_rows(smem, x, weight, from, {spaces[1]}, y, block, thread);\n}}\n"
    )
