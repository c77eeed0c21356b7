"""Kernels of templates in a folder, found by what they are made from without lowering anything."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from autoq.errors import BuildError
from autoq.kernel.compile import compile_kernel
from autoq.kernel.lowering import store
from autoq.kernel.nvcc import nvcc_version
from autoq.kernel.parsing import PARSING
from autoq.kernel.source_hash import source_hash
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload, key

_COMPILER = "autoq.kernel.compile"


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
        entry = self._entry(template, workload, config, target, form)
        if entry is None or not entry.exists():
            found = self._compile(template, workload, config, target, form)
            if entry is not None:
                store(entry, pickle.dumps(found))
        else:
            found = pickle.loads(entry.read_bytes())
        if isinstance(found, str):
            raise BuildError(found)
        return found

    def _entry(
        self, template: Template, workload: Workload, config: Any, target: Target, form: Target
    ) -> Path | None:
        if self.folder is None or not _is_plain(template.build):
            return None
        compiler = nvcc_version() if target.kind == "cuda" else ""
        sources = source_hash(template.build.__module__), source_hash(_COMPILER)
        parts = (template.name, key(workload), config, form, target, compiler, tvm.__version__)
        text = "\n".join(map(repr, (*parts, *sources)))
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.kernel"

    def _compile(
        self, template: Template, workload: Workload, config: Any, target: Target, form: Target
    ) -> Kernel | str:
        """The kernel, or what the compiler says against the configuration."""
        try:
            with PARSING:
                function = template.build(workload, config, form)
            return compile_kernel(function, target, cache_dir=self.folder)
        except BuildError as error:
            return str(error)


def _is_plain(build: Any) -> bool:
    """Whether a function depends on nothing but its module."""
    return inspect.isfunction(build) and "<locals>" not in build.__qualname__
