"""Running kernels of mma.sync without a GPU: their PTX becomes functions of `host_warps.h`.

Threads of a block are threads of the host that meet at barriers only, so that addresses, the
order of copies and the arithmetic are those of the kernel.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from host_compiler import compile_for_host
from host_cuda import GUARD, POISON, _guarded
from tvm.tirx import PrimFunc

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower
from autoq.measure.arrays import stored_activations
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def _multiply(a_signed: int) -> str:
    """The host's call for mma.sync of 16 x 8 x 32 bytes, its accumulators read and written."""
    added = ", ".join(f"(unsigned){{{index}}}" for index in range(10, 14))
    return (
        "multiply_into({{&{0}, &{1}, &{2}, &{3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, "
        f"{{{{{added}}}}}, {a_signed})"
    )


def _multiply_half(a_signed: int) -> str:
    """The same of 16 x 8 x 16 bytes: the other 16 are zero."""
    added = ", ".join(f"(unsigned){{{index}}}" for index in range(7, 11))
    return (
        "multiply_into({{&{0}, &{1}, &{2}, &{3}}}, {{{4}, {5}, 0u, 0u}}, {{{6}, 0u}}, "
        f"{{{{{added}}}}}, {a_signed})"
    )


_WRAPPER = re.compile(
    r"__forceinline__ __device__ ([\w ]+?) (tvm_builtin_\w+)\(([^)]*)\) \{\n.*?\n\}\n", re.DOTALL
)
_INLINE = re.compile(r'asm(?: volatile)?\s*\(\s*((?:"[^"]*"\s*)+)((?::[^;]*?)*)\);')
_CALLS = {
    "cp.async.cg": "copy_async({0}, {1}, {2}, 16)",
    "cp.async.wait_all": "commit_copies(), wait_for_copies(0)",
    "cp.async.commit_group": "commit_copies()",
    "cp.async.wait_group 0": "wait_for_copies(0)",
    "cp.async.wait_group 1": "wait_for_copies(1)",
    "cp.async.wait_group 2": "wait_for_copies(2)",
    "ldmatrix.sync.aligned.m8n8.x2": "load_matrices_into({{&{0}, &{1}}}, {2})",
    "ldmatrix.sync.aligned.m8n8.x4": "load_matrices_into({{&{0}, &{1}, &{2}, &{3}}}, {4})",
    "mma.sync.aligned.m16n8k32.row.col.s32.u8": _multiply(0),
    "mma.sync.aligned.m16n8k32.row.col.s32.s8": _multiply(1),
    "mma.sync.aligned.m16n8k16.row.col.s32.u8": _multiply_half(0),
    "mma.sync.aligned.m16n8k16.row.col.s32.s8": _multiply_half(1),
    "cvt.pack.sat.u8": "{0} = cvt_pack_sat_u8_s32_b32({1}, {2}, {3})",
    "cvt.pack.sat.s8": "{0} = cvt_pack_sat_s8_s32_b32({1}, {2}, {3})",
}
"""Inline PTX of hand-written device functions, by how it begins; operands by their number."""


def run_warps_on_host(
    template: Template,
    workload: Workload,
    config: Any,
    target: Target,
    values: tuple[np.ndarray, ...],
    constants: Constants,
    folder: Path,
) -> np.ndarray:
    """The output of a one-launch kernel for `target` as it is stored, computed by this CPU."""
    function = template.build(workload, config, target)
    packed = template.pack(workload, config, constants)
    inputs = (*stored_activations(workload, values), *packed)
    return run_function(function, target, inputs, workload.outputs[0].stored, folder)


def run_function(
    function: PrimFunc,
    target: Target,
    inputs: Sequence[np.ndarray],
    output: tuple[tuple[int, ...], str],
    folder: Path,
) -> np.ndarray:
    """The output, of a shape and a dtype, of a function of one launch that takes inputs and it."""
    lowered = lower(function, target)
    (launch,), _ = host_launches(lowered.host["main"], len(function.params))
    source = _host_source(cuda_source(lowered, target), target, launch)
    library = compile_for_host(source, folder, headers=2)
    y = np.zeros(*output)
    buffers = [_guarded(array) for array in (*inputs, y)]
    buffers[-1][GUARD:-GUARD] = POISON
    addresses = [buffers[argument.index].ctypes.data + GUARD for argument in launch.arguments]
    library.run((ctypes.c_void_p * len(addresses))(*addresses))
    assert (buffers[-1][:GUARD] == 0).all() and (buffers[-1][-GUARD:] == 0).all(), "out of bounds"
    return buffers[-1][GUARD:-GUARD].view(y.dtype).reshape(y.shape)


def _host_source(source: str, target: Target, launch: Any) -> str:
    """C++ of a kernel's device code, with an entry that runs all of its blocks."""
    starts = [
        source.find(text)
        for text in ("__forceinline__ __device__", "__device__ __force", "#ifndef AUTOQ_")
    ]
    body = _WRAPPER.sub(_host_wrapper, source[min(at for at in starts if at >= 0) :])
    body = re.sub(
        r"extern __shared__ __align__\(\d+\) uchar (\w+)\[\];", r"uchar* \1 = shared_memory;", body
    )
    body = re.sub(
        r"__shared__ alignas\(\d+\) uchar (\w+)\[\d+\];", r"uchar* \1 = shared_memory;", body
    )
    body = _INLINE.sub(_host_inline, body)
    parameters = re.search(r"main_kernel\(([^)]*)\)\s*;", body)[1].split(",")
    types = [text.rsplit("__restrict__", 1)[0].strip() for text in parameters]
    arguments = ", ".join(f"({name})p[{index}]" for index, name in enumerate(types))
    entry = (
        'extern "C" void run(void** p) {\n'
        f"  run_blocks({launch.grid[0]}, {launch.block[0]}, [=] {{ main_kernel({arguments}); }});\n"
        "}\n"
    )
    return f"#define __CUDA_ARCH__ {target.compute_capability}0\n{body}{entry}"


def _host_inline(found: re.Match[str]) -> str:
    """A statement of inline PTX as the host's call."""
    text, lists = "".join(re.findall(r'"([^"]*)"', found[1])), found[2]
    operands = re.findall(r'"[=+]?[rl]"\s*\(((?:[^()]|\([^()]*\))*)\)', lists)
    call = next((call for name, call in _CALLS.items() if text.startswith(name)), None)
    assert call is not None, f"inline PTX that the host does not know: {text}"
    return call.format(*operands) + ";"


def _host_wrapper(found: re.Match[str]) -> str:
    """TVM's wrapper of one PTX instruction, around a function of the host instead."""
    result, name, parameters = found.groups()
    names = [text.split()[-1].lstrip("&*") for text in parameters.split(",")] if parameters else []
    return f"static {result} {name}({parameters}) {{ {_host_body(name, names)} }}\n"


def _host_body(name: str, names: list[str]) -> str:
    def like(prefix: str) -> list[str]:
        return [item for item in names if re.fullmatch(rf"__{prefix}\d*", item)]

    def filling(registers: list[str], call: str) -> str:
        """A call that fills `w`, whose words then go to registers."""
        assigned = " ".join(f"{item} = w[{i}];" for i, item in enumerate(registers))
        return f"unsigned w[{len(registers)}]; {call} {assigned}"

    if "_mma_int_" in name:
        m, k, a_sign, bits, b_sign = re.search(
            r"_m(\d+)n8k(\d+)_row_col_s32_([us])(\d)_([us])\d_", name
        ).groups()
        kind = f"{{{m}, {k}, {bits}, {int(a_sign == 's')}, {int(b_sign == 's')}}}"
        arrays = "".join(f"unsigned {i}[] = {{{', '.join(like(i))}}}; " for i in "ab")
        start = like("c") or like("d")
        arrays += f"unsigned c[] = {{{', '.join(start)}}}; "
        return arrays + filling(like("d"), f"multiply(w, a, b, c, {kind});")
    halves = re.search(r"_mma_sync_aligned_m16n8k(\d+)_row_col_f32_(b?)f16_", name)
    if halves:
        arrays = "".join(f"unsigned {i}[] = {{{', '.join(like(i))}}}; " for i in "ab")
        start = ", ".join(like("c") or like("d"))
        assigned = " ".join(f"{item} = w[{i}];" for i, item in enumerate(like("d")))
        call = f"multiply_halves(w, a, b, c, {halves[1]}, {int(halves[2] == 'b')});"
        return f"{arrays}float c[] = {{{start}}}; float w[4]; {call} {assigned}"
    if "_ldmatrix_" in name:
        return filling(like("r"), f"load_matrices(w, {len(like('r'))}, __p);")
    if "_commit_group" in name:
        return "commit_copies();"
    if "_wait_group" in name:
        return f"wait_for_copies({name.rsplit('_', 1)[1]});"
    if "_cp_async_" in name:
        size = name.rsplit("_", 1)[1]
        read = "__src_size" if "__src_size" in names else size
        return f"copy_async(__dst_mem, __src_mem, {read}, {size});"
    if "_st_" in name and "_shared_" in name:
        values = like("value")
        return f"unsigned w[] = {{{', '.join(values)}}}; shared_store(__addr, w, sizeof w);"
    if "_ld_" in name:
        memory = "shared" if "_shared_" in name else "global"
        return filling(like("d"), f"{memory}_load(w, {names[-1]}, sizeof w);")
    if "_cvta_" in name:
        return f"return shared_address({names[0]});"
    if "_cta_sync" in name:
        return "block_barrier->wait();"
    assert "_griddepcontrol_" in name, name
    return ""
