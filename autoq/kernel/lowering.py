"""Lowering a PrimFunc with TVM's passes into host TIR, CUDA source or an object file."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm.s_tir.pipeline  # registers the "s_tir" pipeline
import tvm.tirx.build
import tvm_ffi
from tvm import tirx
from tvm.tirx import compilation_pipeline

from autoq.cache import read_entry, write_entry
from autoq.errors import BuildError
from autoq.templates.target import Target

# The attribute `tvm.tirx.build` is a function of the same name that hides its module.
_build = sys.modules["tvm.tirx.build"]

# What TVM's passes raise: its own errors derive from these.
_TVM_ERRORS = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError)


@dataclass(frozen=True)
class Lowered:
    """A lowered function: its host module before and after finalisation, and device modules."""

    host: tvm.IRModule
    final_host: tvm.IRModule
    devices: tuple[tuple[Any, tvm.IRModule], ...]


def tvm_target(target: Target) -> tvm.target.Target:
    """TVM's target object for `target`."""
    if target.kind == "cpu":
        return tvm.target.Target({"kind": "llvm", "mcpu": target.arch})
    return tvm.target.Target({"kind": "cuda", "arch": target.arch})


def lower(prim_func: tirx.PrimFunc, target: Target) -> Lowered:
    """Run TVM's lowering passes; raises BuildError with the compiler's first line."""
    scheduled = bool((prim_func.attrs or {}).get("s_tir", False))
    device = tvm_target(target)
    host = device if target.kind == "cpu" else tvm.target.Target({"kind": "llvm"})
    function = prim_func.with_attr("global_symbol", "main")
    module = tvm.IRModule({"main": function})
    passes, finalize_host, finalize_device = compilation_pipeline.get_tir_pipeline(
        "s_tir" if scheduled else "tirx"
    )
    try:
        with device:
            module = tirx.transform.BindTarget(device.with_host(host))(module)
            host_module, devices = _build.split_host_device_mods(passes(module))
            return Lowered(
                host=host_module,
                final_host=finalize_host()(host_module),
                devices=tuple((key, finalize_device()(mod)) for key, mod in devices.items()),
            )
    except _TVM_ERRORS as error:
        raise BuildError(f"lowering failed: {first_line(str(error))}") from error


def first_line(text: str) -> str:
    """The last non-empty line of a TVM error or the first of a compiler's, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "unknown error")[:300]


class _CaptureSource(threading.local):
    """While active in a thread, keeps TVM from compiling the CUDA source it generates there."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


_CAPTURE = _CaptureSource()


def _install_capture() -> None:
    """Wrap TVM's CUDA compile callback so that it is inert inside `_CAPTURE`."""
    from tvm.support import nvcc

    def compile_or_capture(code: str) -> Any:
        return b"source only" if _CAPTURE.depth else nvcc.tvm_callback_cuda_compile(code)

    tvm_ffi.register_global_func("tvm_callback_cuda_compile", compile_or_capture, override=True)


_install_capture()


def cuda_source(lowered: Lowered, target: Target) -> str:
    """CUDA C++ of every device function."""
    if len(lowered.devices) != 1:
        raise BuildError(f"expected one device module, found {len(lowered.devices)}")
    device, module = lowered.devices[0]
    try:
        with _CAPTURE, tvm_target(target):
            return str(_build.codegen_build(module, device).inspect_source())
    except _TVM_ERRORS as error:
        raise BuildError(f"CUDA code generation failed: {first_line(str(error))}") from error


def object_code(lowered: Lowered, target: Target, cache_dir: Path | None) -> bytes:
    """ELF object of the host module, for TVM's ORC loader; the entry is `main`."""
    if cache_dir is None:
        return _compiled(lowered, target)
    text = lowered.final_host.script(show_meta=True)
    source = f"{target.arch}\n{tvm.__version__}\n{text}"
    entry = cache_dir / f"{hashlib.sha256(source.encode()).hexdigest()[:32]}.o"
    kept = read_entry(entry, source)
    if kept is not None:
        return kept
    code = _compiled(lowered, target)
    write_entry(entry, source, code)
    return code


def _compiled(lowered: Lowered, target: Target) -> bytes:
    try:
        return _object_file(_build.codegen_build(lowered.final_host, tvm_target(target)))
    except _TVM_ERRORS as error:
        raise BuildError(f"LLVM code generation failed: {first_line(str(error))}") from error


def _object_file(module: Any) -> bytes:
    """What TVM writes to a file, which here is in memory: LLVM aborts when a disk is full."""
    with os.fdopen(os.memfd_create("kernel.o"), "rb") as file:
        module.write_to_file(f"/proc/self/fd/{file.fileno()}", "o")
        return file.read()
