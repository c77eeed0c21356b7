"""What a builder's child process does: one candidate to machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoq.errors import BuildError, CompilerDied
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.job import CRASH, OUTSIDE, Job, load_registry
from autoq.process.blame import machines_fault
from autoq.runtime.kernel import Kernel
from autoq.templates.target import Target


@dataclass(frozen=True)
class BuildSettings:
    """What all candidates of a builder share; cache_dir None compiles everything anew."""

    registry: str
    target: Target
    cache_dir: Path | None


@dataclass(frozen=True)
class Built:
    """A kernel, or the compiler's complaint in one line; death as in `Measurement`."""

    kernel: Kernel | None
    message: str = ""
    death: str = ""


def serve(settings: BuildSettings) -> Callable[[Job], Built]:
    """The handler of a child process."""
    templates = load_registry(settings.registry)
    kernels = KernelStore(settings.cache_dir)

    def build(job: Job) -> Built:
        template = templates[job.template]
        try:
            kernel = kernels.kernel(template, job.workload, job.config, settings.target)
        except BuildError as error:
            # TVM and LLVM report a want of memory as any other error.
            return Built(None, str(error), OUTSIDE if machines_fault(str(error)) else "")
        except CompilerDied as error:
            return Built(None, str(error), OUTSIDE if error.outside else CRASH)
        return Built(kernel)

    return build
