"""Kernels of one warp or warpgroup that run an MMA atom twice.

The host arranges operands by the atom's own maps; a kernel only moves registers, or copies images
of shared memory, so that what is tested are the maps, the descriptors and the call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from atom_cases import STEPS, Case, arrays
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.kernel.compile import compile_kernel
from autoq.runtime.kernel import CudaKernel
from autoq.templates.cuda.device.mma.descriptors import descriptor_step, encode_descriptor
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.target import Target


def kernel(case: Case) -> PrimFunc:
    """The kernel of a case's atom and selector; parameters are those of `arrays`, then D."""
    atom = case.atom
    if isinstance(atom, MmaSync):
        return _warp_kernel(atom, [item.shape for item in arrays(case)], case.selector)
    assert isinstance(atom, Wgmma)
    return _warpgroup_kernel(atom, [item.shape for item in arrays(case)], case.selector)


def _warp_kernel(atom: MmaSync, shapes: list[tuple[int, ...]], selector: int) -> PrimFunc:
    counts = (atom.a_registers, atom.b_registers, atom.d_registers)
    a_count, b_count, d_count = counts
    e_shape = shapes[2] if atom.sparse else (1,)

    @T.jit
    def main(
        a_ptr: T.handle,
        b_ptr: T.handle,
        e_ptr: T.Optional(T.handle),
        c_ptr: T.handle,
        d_ptr: T.handle,
    ):
        a = T.match_buffer(a_ptr, shapes[0], "uint32")
        b = T.match_buffer(b_ptr, shapes[1], "uint32")
        if e_ptr is not None:
            e = T.match_buffer(e_ptr, e_shape, "uint32")
        c = T.match_buffer(c_ptr, shapes[-1], atom.register_dtype)
        d = T.match_buffer(d_ptr, shapes[-1], atom.register_dtype)
        T.device_entry()
        T.cta_id([1])
        lane = T.thread_id([32])
        sums = T.alloc_local((d_count,), atom.register_dtype)
        left = T.alloc_local((a_count,), "uint32")
        right = T.alloc_local((b_count,), "uint32")
        for i in T.unroll(d_count):
            sums[i] = c[lane, i]
        for step in T.unroll(STEPS):
            for i in T.unroll(a_count):
                left[i] = a[step, lane, i]
            for i in T.unroll(b_count):
                right[i] = b[step, lane, i]
            T.evaluate(
                atom.call(
                    [sums[i] for i in range(d_count)],
                    [left[i] for i in range(a_count)],
                    [right[i] for i in range(b_count)],
                    e[step, lane, 0] if atom.sparse else None,
                    selector,
                )
            )
        for i in T.unroll(d_count):
            d[lane, i] = sums[i]

    return main.specialize(e_ptr=None) if not atom.sparse else main.specialize()


def _warpgroup_kernel(atom: Wgmma, shapes: list[tuple[int, ...]], selector: int) -> PrimFunc:
    threads, d_count = atom.threads, atom.d_registers
    e_shape = shapes[2] if atom.sparse else (1,)
    a_row, b_row = STEPS * atom.a_bytes, STEPS * atom.b_bytes
    a_words = 0 if atom.a_in_registers else atom.m * a_row // 4
    b_words = atom.n * b_row // 4

    @T.jit
    def main(
        a_ptr: T.handle,
        b_ptr: T.handle,
        e_ptr: T.Optional(T.handle),
        c_ptr: T.handle,
        d_ptr: T.handle,
    ):
        a = T.match_buffer(a_ptr, shapes[0], "uint32")
        b = T.match_buffer(b_ptr, shapes[1], "uint32")
        if e_ptr is not None:
            e = T.match_buffer(e_ptr, e_shape, "uint32")
        c = T.match_buffer(c_ptr, shapes[-1], atom.register_dtype)
        d = T.match_buffer(d_ptr, shapes[-1], atom.register_dtype)
        T.device_entry()
        T.cta_id([1])
        thread = T.thread_id([threads])
        smem = T.alloc_buffer((a_words + b_words,), "uint32", scope="shared.dyn", align=1024)
        sums = T.alloc_local((d_count,), atom.register_dtype)
        left = T.alloc_local((STEPS * 4,), "uint32")
        described = T.alloc_local((STEPS,), "uint32")
        for i in T.serial(-(-b_words // threads)):
            if i * threads + thread < b_words:
                smem[a_words + i * threads + thread] = b[i * threads + thread]
        if atom.a_in_registers:
            for step in T.unroll(STEPS):
                for i in T.unroll(4):
                    left[step * 4 + i] = a[step, thread, i]
        else:
            for i in T.serial(a_words // threads):
                smem[i * threads + thread] = a[i * threads + thread]
        if e_ptr is not None:
            for step in T.unroll(STEPS):
                described[step] = e[step, thread, 0]
        for i in T.unroll(d_count):
            sums[i] = c[thread, i]
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.cta_sync()
        a_first: T.uint64 = 0
        b_first: T.uint64 = 0
        if not atom.a_in_registers:
            encode_descriptor(a_first, smem.ptr_to([0]), a_row, 8 * a_row)
        encode_descriptor(b_first, smem.ptr_to([a_words]), b_row, 8 * b_row)
        T.ptx.wgmma.fence.sync.aligned()
        for step in T.unroll(STEPS):
            own = T.meta_var(
                [left[step * 4 + i] for i in range(4)]
                if atom.a_in_registers
                else a_first + descriptor_step(step * atom.a_bytes)
            )
            T.evaluate(
                atom.call(
                    sums,
                    0,
                    own,
                    b_first + descriptor_step(step * atom.b_bytes),
                    T.bool(step > 0),
                    described[step] if atom.sparse else None,
                    selector,
                )
            )
        T.ptx.wgmma.commit_group.sync.aligned()
        T.ptx.wgmma.wait_group.sync.aligned(0)
        for i in T.unroll(d_count):
            d[thread, i] = sums[i]

    return main.specialize(e_ptr=None) if not atom.sparse else main.specialize()


def compiled(cases: Sequence[Case], target: Target) -> list[CudaKernel]:
    """The kernels of cases, by a process for each core: TVM's passes hold the interpreter."""
    workers = min(len(os.sched_getaffinity(0)), len(cases))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(_compiled, cases, [target] * len(cases), chunksize=4))


def _compiled(case: Case, target: Target) -> CudaKernel:
    made = compile_kernel(kernel(case), target)
    assert isinstance(made, CudaKernel)
    return made
