"""PrimFuncs to kernels: launches read from the host part, caching, failures as BuildError."""

from __future__ import annotations

import json
import tempfile
import threading

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.script import tirx as T

from autoq.errors import BuildError, TargetError
from autoq.kernel import compile_kernel, compile_program, lowering, nvcc
from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import lower, tvm_target
from autoq.runtime.cpu.kernel import LoadedCpuKernel, new_workspaces
from autoq.runtime.kernel import (
    Buffer,
    CpuKernel,
    CudaKernel,
    Im2colMap,
    Parameter,
    Scalar,
    TiledMap,
)
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json, machine_code
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import parse_target

GPU = parse_target("cuda:sm_90a")
CPU = parse_target("cpu")


def scaled_copy(factor: float) -> tvm.tirx.PrimFunc:
    @T.prim_func
    def main(x: T.Buffer((64, 32), "float32"), y: T.Buffer((64, 32), "float32")):
        for i in T.parallel(64):
            for j in T.vectorized(32):
                y[i, j] = x[i, j] * T.float32(factor)

    return main


def mapped_kernel():
    @T.prim_func
    def main(x_ptr: T.handle, w_ptr: T.handle, y_ptr: T.handle):
        x = T.match_buffer(x_ptr, (2, 8, 8, 16), "int8", align=16)
        w = T.match_buffer(w_ptr, (64, 16), "int8", align=16)
        y = T.match_buffer(y_ptr, (64,), "int32", align=16)
        tiled: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            "runtime.cuTensorMapEncodeTiled", tiled, "int8", 2, w.data,
            16, 64, 16, 16, 32, 1, 1, 0, 0, 2, 0,
        )  # fmt: skip
        im2col: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            "autoq.cuTensorMapEncodeIm2col", im2col, "int8", 4, x.data,
            16, 8, 8, 2, 16, 128, 1024, -1, -2, -3, -4, 16, 64, 1, 2, 2, 1, 0,
        )  # fmt: skip
        T.device_entry()
        block = T.cta_id([3])
        lane = T.thread_id([64])
        sm = T.alloc_buffer((1024,), "uint8", scope="shared.dyn", align=128)
        sm[lane] = T.uint8(lane)
        T.evaluate(T.cuda.func_call("touch", T.address_of(tiled), T.address_of(im2col),
                   source_code=TOUCH))  # fmt: skip
        y[lane] = block + T.cast(sm[lane], "int32")

    return main


TOUCH = """
__device__ void touch(unsigned long long first, unsigned long long second) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(first));
  asm volatile("prefetch.tensormap [%0];" :: "l"(second));
}
"""


def test_cpu_kernel_runs() -> None:
    kernel = compile_kernel(scaled_copy(3.0), CPU)
    assert isinstance(kernel, CpuKernel)
    assert kernel.parameters == (Parameter((64, 32), "float32"),) * 2
    x = tvm.runtime.tensor(np.arange(2048, dtype=np.float32).reshape(64, 32))
    y = tvm.runtime.empty((64, 32), "float32")
    LoadedCpuKernel(kernel)(x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 3)


def test_two_cpu_kernels_of_one_symbol_live_together() -> None:
    loaded = [LoadedCpuKernel(compile_kernel(scaled_copy(f), CPU)) for f in (2.0, 5.0)]
    x = tvm.runtime.tensor(np.ones((64, 32), np.float32))
    for factor, kernel in zip((2, 5), loaded, strict=True):
        y = tvm.runtime.empty((64, 32), "float32")
        kernel(x, y)
        assert (y.numpy() == factor).all()


def test_launch_arguments_are_read_from_the_host_part() -> None:
    lowered = lower(mapped_kernel(), GPU)
    (launch,), workspaces = host_launches(lowered.host["main"], 3)
    assert launch.grid == (3, 1, 1) and launch.block == (64, 1, 1)
    assert launch.cluster == (1, 1, 1) and workspaces == ()
    assert launch.smem_bytes >= 1024
    maps = {type(argument): argument for argument in launch.arguments}
    assert maps[Buffer] == Buffer(2)
    assert maps[TiledMap] == TiledMap(1, "int8", (16, 64), (16,), (16, 32), (1, 1), 0, 0, 2, 0)
    assert maps[Im2colMap] == Im2colMap(
        0, "int8", (16, 8, 8, 2), (16, 128, 1024), (-1, -2), (-3, -4), 16, 64, (1, 2, 2, 1), 0
    )


def test_operator_with_two_stages_gets_a_workspace() -> None:
    x = te.placeholder((4, 64), name="x", dtype="float32")
    axis = te.reduce_axis((0, 64), "k")
    total = te.compute((4,), lambda i: te.sum(x[i, axis], axis=axis), name="total")
    y = te.compute((4, 64), lambda i, j: x[i, j] / total[i], name="y")
    function = te.create_prim_func([x, y])
    schedule = tvm.s_tir.Schedule(function)
    for name in ("total", "y"):
        loops = schedule.get_loops(schedule.get_sblock(name))
        schedule.bind(loops[0], "blockIdx.x")
        if name == "y":
            schedule.bind(loops[1], "threadIdx.x")
    lowered = lower(schedule.mod["main"], GPU)
    launches, workspaces = host_launches(lowered.host["main"], 2)
    assert len(launches) == 2 and workspaces == (16,)
    assert Buffer(2) in launches[0].arguments and Buffer(2) in launches[1].arguments


def test_cubin_and_its_cache(tmp_path, monkeypatch) -> None:
    first = compile_kernel(mapped_kernel(), GPU, cache_dir=tmp_path)
    assert isinstance(first, CudaKernel)
    assert first.modules[0][:4] == b"\x7fELF" and first.registers > 0 and first.spill_bytes == 0

    def fail(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nvcc, "_compile", fail)
    assert compile_kernel(mapped_kernel(), GPU, cache_dir=tmp_path) == first


def test_compiler_errors_are_one_line_and_cached(tmp_path) -> None:
    for _ in range(2):
        with pytest.raises(BuildError, match="no_such_type"):
            nvcc.compile_cuda("__global__ void k(no_such_type x) {}", "sm_80", tmp_path)
    assert [path.suffix for path in tmp_path.iterdir() if path.is_file()] == [".cubin"]


def test_names_of_folders_are_no_complaints(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "wgmma C7602 serialized"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    source = 'extern "C" __global__ void k() { int warned_about_with_its_file; }'
    assert nvcc.compile_cuda(source, "sm_80", None).registers > 0


def test_missing_nvcc_is_said(monkeypatch) -> None:
    nvcc.find_nvcc.cache_clear()
    monkeypatch.setattr(nvcc.shutil, "which", lambda *_, **__: None)
    try:
        with pytest.raises(TargetError, match="nvcc not found"):
            nvcc.find_nvcc()
    finally:
        monkeypatch.undo()
        nvcc.find_nvcc.cache_clear()


def test_host_loop_around_launches_is_refused() -> None:
    class Loop:
        pass

    statement = type("For", (), {"body": None})()
    function = type("F", (), {"params": [None, object()], "body": statement})()
    with pytest.raises(BuildError, match="loop on the host"):
        host_launches(function, 0)


def test_scalars_are_kept_by_value() -> None:
    assert Scalar(3, "int32") == Scalar(3, "int32")
    assert tvm_target(CPU).kind.name == "llvm"


def test_capturing_a_source_in_one_thread_leaves_the_others_alone() -> None:
    seen = []
    with lowering._CAPTURE:
        thread = threading.Thread(target=lambda: seen.append(lowering._CAPTURE.depth))
        thread.start()
        thread.join()
        assert lowering._CAPTURE.depth == 1
    assert seen == [0] and lowering._CAPTURE.depth == 0


def test_stages_of_a_program_are_kept_each_by_itself(tmp_path) -> None:
    spec = [TensorSpec(name, (64, 32), "float32") for name in "xyz"]

    def doubled_then(factor: float) -> Program:
        stages = Stage(scaled_copy(2.0), ("x",), ("y",)), Stage(scaled_copy(factor), ("y",), ("z",))
        return Program(stages, (Workspace(spec[1]),))

    kernels = []
    for factor, kept in ((3.0, 2), (5.0, 3), (2.0, 3)):
        program = doubled_then(factor)
        kernel = compile_program(program, (spec[0], spec[2]), CPU, cache_dir=tmp_path)
        assert len([path for path in tmp_path.iterdir() if path.suffix == ".o"]) == kept
        assert [call.arguments for call in kernel.calls] == [(0, 2), (2, 1)]
        kernels.append(kernel)
    assert [len(kernel.modules) for kernel in kernels] == [2, 2, 1]
    x, z = (np.from_dlpack(tvm.runtime.empty((64, 32), "float32")) for _ in range(2))
    x.fill(1)
    for kernel, product in zip(kernels, (6, 10, 4), strict=True):
        LoadedCpuKernel(kernel).bind([x, z, *new_workspaces(kernel)])()
        assert (z == product).all()
        fields, code = kernel_to_json(kernel), machine_code(kernel)
        assert kernel_from_json(json.loads(json.dumps(fields)), code) == kernel
        with pytest.raises(ValueError, match="bytes of machine code for modules of"):
            kernel_from_json(fields, code + b"more")
