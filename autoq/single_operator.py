"""One operator alone, compiled and called as a function over arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autoq.cache import require_private
from autoq.compilation.selection import Chosen, choose
from autoq.devices import Host, require_device, resolve
from autoq.errors import InputError
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.job import REGISTRY, load_registry
from autoq.paths import as_path
from autoq.records.database import Database
from autoq.runtime.dlpack import ARRAYS, tensor_of
from autoq.runtime.kernel import CpuKernel, Kernel
from autoq.scratch import sweep
from autoq.templates.workload import Constants, Workload, as_workload


class CompiledOperator:
    """A kernel of one workload with its constants; call it with the activations.

    Activations are numpy or DLPack arrays in the order of `Workload.inputs`, of the shapes and
    dtypes in which a kernel takes them: 4-bit values two a byte, as uint8. The result is an array,
    or a tuple where the workload has several outputs. On the CPU it is numpy and new at each call.
    On a GPU it is numpy too, unless every activation is a DLPack array there; then it is a DLPack
    array on the GPU, in order on the default stream and valid until the next call.

    Attributes:
        workload: what is computed.
        template: name of the template.
        config: its configuration, a dataclass of knobs.
        source: the record file that names it, "default" for an untuned one, "fixed" where
            there is nothing to tune.
    """

    def __init__(
        self, workload: Workload, chosen: Chosen, kernel: Kernel, constants: Constants
    ) -> None:
        self.workload = workload
        self.template = chosen.template.name
        self.config = chosen.config
        self.source = chosen.source
        self._chosen, self._kernel = chosen, kernel
        packed = chosen.template.constants(workload, chosen.config, constants)
        outputs = [spec.stored for spec in workload.outputs]
        self._call: Any
        if isinstance(kernel, CpuKernel):
            from autoq.runtime.cpu.call import CpuCall

            self._call = CpuCall(kernel, packed, outputs)
        else:
            from autoq.runtime.cuda.call import CudaCall

            self._call = CudaCall(kernel, packed, outputs)

    def with_constants(self, constants: Constants) -> CompiledOperator:
        """The same kernel with others, not compiled again; raises InputError for wrong ones."""
        given = checked_constants(self.workload, constants)
        return CompiledOperator(self.workload, self._chosen, self._kernel, given)

    def __call__(self, *activations: Any) -> Any:
        """The output or outputs; raises InputError for activations that do not fit."""
        specs = self.workload.inputs
        if len(activations) != len(specs):
            names = ", ".join(spec.name for spec in specs)
            raise InputError(f"{self.workload}: takes {names}; {len(activations)} arrays given")
        arrays = []
        for spec, given in zip(specs, activations, strict=True):
            array = given if isinstance(given, ARRAYS) else tensor_of(spec.name, given)
            shape, dtype = spec.stored
            if tuple(array.shape) != shape or str(array.dtype) != dtype:
                raise InputError(
                    f"input {spec.name!r}: expected {dtype} {list(shape)}, found "
                    f"{array.dtype!s:.60} {list(array.shape)!s:.60}"
                )
            arrays.append((spec.name, array))
        outputs = self._call(arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def operator(
    workload: Workload,
    *,
    target: str | Host = "auto",
    constants: Constants | None = None,
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    use_shipped_records: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    registry: str = REGISTRY,
) -> CompiledOperator:
    """Compile one workload for the device that is here.

    The best usable record decides the kernel, as in `autoq.compile`, else the preferred template's
    default. constants are the arrays of `Workload.constants` by name, in numpy, 4-bit values
    unpacked. registry: as in `tuning.options.TuneOptions`; the name of a package adds its own
    templates.

    Raises InputError, RecordError or TargetError for what the user gave, BuildError when an untuned
    kernel does not compile.
    """
    workload = as_workload(workload)
    given = checked_constants(workload, {} if constants is None else constants)
    cache = None if cache_dir is None else as_path(cache_dir)
    if cache is not None:
        require_private(cache)
    sweep()
    host = target if isinstance(target, Host) else resolve(target)
    require_device(host)
    templates = list(load_registry(registry).values())
    database = Database.load(tuning_records, shipped=use_shipped_records)
    chosen = choose(workload, host, database, templates)
    if chosen is None:
        where = f"{host.target.kind} {host.target.arch}"
        raise InputError(f"{workload.operator} {workload}: no kernel for {where}")
    kernel = KernelStore(cache).kernel(chosen.template, workload, chosen.config, host.target)
    return CompiledOperator(workload, chosen, kernel, given)


def checked_constants(workload: Workload, constants: Constants) -> dict[str, Any]:
    """Constants as numpy has them; raises InputError unless they are the workload's."""
    if not isinstance(constants, Mapping):
        raise InputError(f"constants: expected arrays by name, found {type(constants).__name__}")
    given: dict[str, Any] = {}
    for name, value in constants.items():
        try:
            given[name] = value if np.isscalar(value) else np.asarray(value)
        except ValueError as error:
            raise InputError(f"{workload}: constant {name!r} is no array of numbers") from error
    workload.check_constants(given)
    return given
