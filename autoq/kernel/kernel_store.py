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
        ahead: int = 0,
    ) -> Kernel:
        """Machine code for `target`, compiled unless it is known.

        form is the target whose instructions the template chooses, `target` itself by default;
        ahead as in `Template.program`. Raises BuildError when the configuration does not compile,
        TargetError without nvcc.
        """
        recipe = _Recipe(template, workload, config, target, form or target, ahead)
        if self.folder is None or not _is_plain(template.build):
            found = recipe.compiled(self.folder)
        else:
            text = recipe.text()
            entry = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.kernel"
            kept = read_entry(entry, text)
            if kept is not None:
                found = _decoded(kept)
            else:
                found = recipe.compiled(self.folder)
                write_entry(entry, text, _encoded(found))
        if isinstance(found, str):
            raise BuildError(found)
        return found


@dataclass(frozen=True)
class _Recipe:
    """What a kernel is made from; fields as the arguments of `KernelStore.kernel`."""

    template: Template
    workload: Workload
    config: Any
    target: Target
    form: Target
    ahead: int

    def compiled(self, cache_dir: Path | None) -> Kernel | str:
        """The kernel, or what the compiler says against the configuration."""
        template, workload, config = self.template, self.workload, self.config
        try:
            with PARSING:
                program = template.program(workload, config, self.form, self.ahead)
            arrays = (*workload.inputs, *template.packed(workload, config), *workload.outputs)
            return compile_program(program, arrays, self.target, cache_dir=cache_dir)
        except BuildError as error:
            return str(error)

    def text(self) -> str:
        """All that it depends on, the source code of the compiler and of entries included."""
        compiler = nvcc_version() if self.target.kind == "cuda" else ""
        parts = (
            self.template.name, key(self.workload), self.config, self.form, self.target, self.ahead,
            compiler, tvm.__version__, source_hash(self.template.module), source_hash(__name__),
        )  # fmt: skip
        return "\n".join(map(repr, parts))


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
