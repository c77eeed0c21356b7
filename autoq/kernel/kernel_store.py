"""Kernels of templates in a folder, found by what they are made from without lowering anything."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from autoq.cache import pack, read_entry, unpack, write_entry
from autoq.errors import BuildError
from autoq.kernel.compile import compile_program
from autoq.kernel.nvcc import nvcc_version
from autoq.kernel.parsing import PARSING
from autoq.kernel.source_hash import source_hash
from autoq.runtime.kernel import Kernel
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json, machine_code
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import key


@dataclass(frozen=True)
class KernelStore:
    """Kernels and compile errors in `folder`; None compiles every kernel anew.

    An entry's name is a hash of the template, the workload, the configuration, the targets, the
    compilers and the source code behind the template, so that none is ever stale. A template
    whose `build` is no plain function of a module has no such code: its kernels are kept by the
    hash of their CUDA source or LLVM text alone.
    """

    folder: Path | None

    def kernel(
        self,
        template: Template,
        workload: Workload,
        config: Any,
        target: Target,
        form: Target | None = None,
    ) -> Kernel:
        """Machine code for `target`, compiled unless it is known.

        form is the target whose instructions the template chooses, `target` itself by default.
        Raises BuildError when the configuration does not compile, TargetError without nvcc.
        """
        form = form or target
        if self.folder is None or not _is_plain(template.build):
            found = self._compile(template, workload, config, target, form)
        else:
            made_from = _made_from(template, workload, config, target, form)
            digest = hashlib.sha256(made_from.encode()).hexdigest()[:32]
            entry = self.folder / f"{digest}.kernel"
            kept = read_entry(entry, made_from)
            if kept is not None:
                found = _decoded(kept)
            else:
                found = self._compile(template, workload, config, target, form)
                write_entry(entry, made_from, _encoded(found))
        if isinstance(found, str):
            raise BuildError(found)
        return found

    def _compile(
        self, template: Template, workload: Workload, config: Any, target: Target, form: Target
    ) -> Kernel | str:
        """The kernel, or what the compiler says against the configuration."""
        try:
            with PARSING:
                program = template.program(workload, config, form)
            arrays = (*workload.inputs, *template.packed(workload, config), *workload.outputs)
            return compile_program(program, arrays, target, cache_dir=self.folder)
        except BuildError as error:
            return str(error)


def _made_from(
    template: Template, workload: Workload, config: Any, target: Target, form: Target
) -> str:
    """All that a kernel depends on, the source code of the compiler and of entries included."""
    compiler = nvcc_version() if target.kind == "cuda" else ""
    sources = source_hash(template.module), source_hash(__name__)
    parts = (template.name, key(workload), config, form, target, compiler, tvm.__version__)
    return "\n".join(map(repr, (*parts, *sources)))


def _encoded(found: Kernel | str) -> bytes:
    if isinstance(found, str):
        return pack({"error": found}, b"")
    return pack(kernel_to_json(found), machine_code(found))


def _decoded(content: bytes) -> Kernel | str:
    fields, code = unpack(content)
    return fields["error"] if "error" in fields else kernel_from_json(fields, code)


def _is_plain(build: Any) -> bool:
    """Whether a function depends on nothing but its module."""
    return inspect.isfunction(build) and "<locals>" not in build.__qualname__
