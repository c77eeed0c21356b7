"""Runs a compiled model: `Session(path).run(output_names, feeds)`, as in onnxruntime."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - gives numpy int4 and uint4
import numpy as np
import tvm.runtime  # noqa: F401 - loads the runtime that tensors and kernels need
import tvm_ffi

from autoq.errors import ArtifactError, DriverError, InputError
from autoq.paths import as_path
from autoq.runtime.artifact import Artifact, one_line, read_artifact
from autoq.runtime.dlpack import ARRAYS, require_contiguous, tensor_of
from autoq.runtime.plan import Call, Plan, Port


@dataclass(frozen=True)
class Argument:
    """Name, shape and dtype of an input or output; int4 and uint4 are those of ml_dtypes."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LayerTime:
    """Median seconds of one call of the plan, and of the stages of a kernel that has several."""

    call: Call
    seconds: float
    stages: tuple[float, ...] = ()


class Session:
    """A compiled model, loaded once and run often.

    Needs TVM's runtime, and for a CUDA artifact the driver: no compiler, no ONNX. Not safe for
    concurrent `run` calls: its buffers are allocated once.

    Args:
        path: file written by `autoq compile`.
        device: number of the GPU for a CUDA artifact; an artifact of the CPU takes none but 0.

    Raises:
        InputError: the path is no path of a file, or the device no number.
        ArtifactError: the file is not an artifact, or was compiled for another device.
        TargetError: a CUDA artifact on a machine without a driver or that GPU, or the number of
            one for an artifact of the CPU.
        DriverError: the GPU has not the memory for it, or refuses its machine code.
    """

    def __init__(self, path: str | os.PathLike[str], *, device: int = 0) -> None:
        self._path = as_path(path)
        if not isinstance(device, int) or isinstance(device, bool):
            raise InputError(f"device: expected the number of a GPU, found {device!r:.60}")
        artifact = read_artifact(self._path)
        self._plan = artifact.plan
        with self._named_errors():
            self._executor = _executor(artifact, device)
        self._ports = {port.name: port for port in (*artifact.plan.inputs, *artifact.plan.outputs)}
        self._inputs = {port.name: _argument(port) for port in artifact.plan.inputs}
        self._outputs = {port.name: _argument(port) for port in artifact.plan.outputs}

    @property
    def plan(self) -> Plan:
        """What the artifact computes, call by call."""
        return self._plan

    def get_inputs(self) -> list[Argument]:
        """The model's inputs in the model's order."""
        return list(self._inputs.values())

    def get_outputs(self) -> list[Argument]:
        """The model's outputs in the model's order."""
        return list(self._outputs.values())

    def buffer(self, name: str) -> Any:
        """DLPack view of the model's own buffer of an input or output.

        Feeding an input's own buffer, written in place, is the quickest way in. The buffer of an
        int4 or uint4 one holds a number a byte, as int8 or uint8.
        """
        if not isinstance(name, str) or name not in self._ports:
            raise InputError(f"no input or output {name!r}; {self._known()}")
        return self._executor.view(name)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model once.

        feeds maps every input's name to a numpy array or any DLPack array of its exact shape and
        dtype (numpy arrays of ml_dtypes where that is int4 or uint4). Returns the named outputs
        (all for None): numpy arrays, unless every feed lies on the GPU; then DLPack views of the
        session's own buffers, in order on the default stream and valid until the next run. A feed
        on the GPU is read where it lies, in order on the default stream too. Raises InputError for
        a wrong name, shape or dtype, and for numpy arrays of tokens that the model has no row for.
        """
        names = self._requested(output_names)
        if not isinstance(feeds, Mapping):
            raise InputError(f"feeds: expected a mapping of names, found {type(feeds).__name__}")
        if feeds.keys() != self._inputs.keys():
            missing = [name for name in self._inputs if name not in feeds]
            extra = [name for name in feeds if name not in self._inputs]
            raise InputError(f"inputs missing: {missing}, unknown: {extra}; {self._known()}")
        arrays = {name: self._accept(name, array) for name, array in feeds.items()}
        with self._named_errors():
            results = self._executor.run(arrays, names)
        return [self._numbers(*pair) for pair in zip(names, results, strict=True)]

    def _requested(self, names: Sequence[str] | None) -> list[str]:
        """The outputs to return, in the order asked for; one may be asked for twice."""
        if names is None:
            return list(self._outputs)
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise InputError(f"output_names: expected a list of names or None, found {names!r:.60}")
        listed = list(names)
        for name in listed:
            if not isinstance(name, str) or name not in self._outputs:
                raise InputError(f"no output {name!r}; {self._known()}")
        return listed

    def _numbers(self, name: str, array: Any) -> Any:
        """A result in its own dtype where it is stored in another one; views stay as they are."""
        port = self._ports[name]
        return array.astype(port.dtype) if port.values and isinstance(array, np.ndarray) else array

    def _accept(self, name: str, array: Any) -> Any:
        """A feed as a numpy array or TVM tensor of the right shape and dtype."""
        if array is self._executor.view(name):
            return array
        expected = self._inputs[name]
        if not isinstance(array, ARRAYS):
            array = tensor_of(name, array)
        port = self._ports[name]
        fits = array.shape == expected.shape and array.dtype == expected.dtype
        if not fits or (port.values and not isinstance(array, np.ndarray)):
            raise InputError(
                f"input {name!r}: expected {expected.dtype} {list(expected.shape)}, found "
                f"{array.dtype!s:.60} {list(array.shape)!s:.60}{_advice(port)}"
            )
        if isinstance(array, tvm_ffi.Tensor):
            self._require_readable(name, array)
        elif port.places:
            _require_places(name, array, port.places)
        elif port.dtype == "int64":
            _require_32_bits(name, array)
        return array.astype(port.slot.dtype) if port.values else array

    def _require_readable(self, name: str, array: tvm_ffi.Tensor) -> None:
        """Raise InputError for a tensor that the executor cannot copy or read where it lies."""
        require_contiguous(name, array)
        kind, index = array.device.type, array.device.index
        if self._executor.readable_devices.get(kind, -1) not in (None, index):
            raise InputError(
                f"input {name!r}: lies on {kind}:{index}, which the session does not read; copy "
                "it to the CPU or to the session's own GPU"
            )

    def profile(self, repeat: int = 20) -> list[LayerTime]:
        """Time every layer, `repeat` samples each, on what the buffers hold now.

        Raises InputError for a repeat below 1.
        """
        count = _positive(repeat)
        with self._named_errors():
            times = self._executor.profile(count)
        pairs = zip(self._plan.calls, times, strict=True)
        return [LayerTime(call, time.seconds, time.stages) for call, time in pairs]

    def run_seconds(self, repeat: int = 100) -> float:
        """Median seconds of a whole run with inputs in place, by device events on a GPU.

        Raises InputError for a repeat below 1.
        """
        count = _positive(repeat)
        with self._named_errors():
            return self._executor.run_seconds(count)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """What the executor or the GPU has against the artifact, with the artifact's name."""
        try:
            yield
        except (ArtifactError, DriverError) as error:
            raise type(error)(one_line(self._path, error)) from error

    def _known(self) -> str:
        return f"inputs are {list(self._inputs)}, outputs {list(self._outputs)}"


def _executor(artifact: Artifact, device: int) -> Any:
    """What runs an artifact on its target, of which only that one is imported."""
    if artifact.plan.target_kind == "cuda":
        from autoq.runtime.cuda.executor import CudaExecutor

        return CudaExecutor(artifact, device)
    from autoq.runtime.cpu.executor import CpuExecutor
    from autoq.runtime.cpu.features import require_features, require_no_gpu

    require_no_gpu(device)
    require_features(artifact.plan)
    return CpuExecutor(artifact)


def _positive(repeat: int) -> int:
    try:
        count = operator.index(repeat)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"repeat: expected a whole number from 1, found {repeat!r}")
    return count


def _argument(port: Port) -> Argument:
    return Argument(port.name, port.slot.shape, port.dtype)


def _require_places(name: str, array: np.ndarray, places: int) -> None:
    """Raise InputError for an integer that is no place, such as a token without a row."""
    outside = (array < -places) | (array >= places)
    if outside.any():
        raise InputError(
            f"input {name!r}: {array[outside][0]} is none of {places} places (0 to {places - 1}, "
            f"or from the end); {int(outside.sum())} of {array.size} values are outside"
        )


def _require_32_bits(name: str, array: np.ndarray) -> None:
    """Raise InputError for an integer beyond the 32 bits in which kernels compute it."""
    fits = array == array.astype(np.int32)
    if not fits.all():
        raise InputError(
            f"input {name!r}: {array[~fits][0]} is beyond 32 bits, in which integers are computed"
        )


def _advice(port: Port) -> str:
    """How to feed a dtype that numpy itself lacks."""
    return f"; give a numpy array of ml_dtypes.{port.dtype}" if port.values else ""
