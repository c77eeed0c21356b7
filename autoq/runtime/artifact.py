"""The file that `autoq compile` writes: an uncompressed tar of a plan, kernels and constants."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autoq.errors import ArtifactError, InputError
from autoq.runtime.kernel import (
    Argument,
    Buffer,
    CpuKernel,
    CudaKernel,
    Im2colMap,
    Kernel,
    Launch,
    Scalar,
    TiledMap,
)
from autoq.runtime.plan import Plan, plan_from_json, plan_to_json

FORMAT = 1
_ARGUMENTS: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (Buffer, Scalar, TiledMap, Im2colMap)
}


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A compiled model: its plan, its kernels and one block of constants (uint8 [bytes])."""

    plan: Plan
    kernels: tuple[Kernel, ...]
    constants: np.ndarray


def write_artifact(artifact: Artifact, path: Path) -> None:
    """Write the tar; a reader sees all of it or the file that was there before.

    Raises InputError when the path cannot be written.
    """
    manifest = {
        "format": FORMAT,
        "plan": plan_to_json(artifact.plan),
        "kernels": [_kernel_to_json(kernel) for kernel in artifact.kernels],
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with tarfile.open(part, "w") as tar:
            _add(tar, "manifest.json", json.dumps(manifest).encode())
            for index, kernel in enumerate(artifact.kernels):
                code = kernel.cubin if isinstance(kernel, CudaKernel) else kernel.object
                _add(tar, f"kernels/{index}", code)
            _add(tar, "constants.bin", artifact.constants.tobytes())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def read_artifact(path: Path) -> Artifact:
    """Read what `write_artifact` wrote; raises ArtifactError for anything else."""
    try:
        with tarfile.open(path, "r:") as tar:
            manifest = json.loads(_member(tar, path, "manifest.json"))
            if manifest.get("format") != FORMAT:
                raise ArtifactError(
                    f"{path}: artifact format {manifest.get('format')}, this autoq reads {FORMAT};"
                    " compile the model again"
                )
            kernels = tuple(
                _kernel_from_json(item, _member(tar, path, f"kernels/{index}"))
                for index, item in enumerate(manifest["kernels"])
            )
            constants = np.frombuffer(_member(tar, path, "constants.bin"), np.uint8)
            return Artifact(plan_from_json(manifest["plan"]), kernels, constants)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path}: no such file") from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"{path}: not an artifact of autoq compile ({error})") from error


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _member(tar: tarfile.TarFile, path: Path, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ArtifactError(f"{path}: {name} is missing; the file is not an autoq artifact")
    return file.read()


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    if isinstance(kernel, CpuKernel):
        return {"kind": "cpu", "symbol": kernel.symbol, "parameters": kernel.parameters}
    launches = []
    for launch in kernel.launches:
        item = {field.name: getattr(launch, field.name) for field in dataclasses.fields(launch)}
        item["arguments"] = [
            {"type": type(argument).__name__, **dataclasses.asdict(argument)}
            for argument in launch.arguments
        ]
        launches.append(item)
    return {
        "kind": "cuda",
        "launches": launches,
        "parameters": kernel.parameters,
        "workspaces": list(kernel.workspaces),
        "registers": kernel.registers,
        "spill_bytes": kernel.spill_bytes,
    }


def _kernel_from_json(data: dict[str, Any], code: bytes) -> Kernel:
    fields = dict(data)
    if fields.pop("kind") == "cpu":
        return CpuKernel(object=code, **fields)
    fields["launches"] = tuple(
        Launch(**{**_tuples(item), "arguments": tuple(map(_argument, item["arguments"]))})
        for item in data["launches"]
    )
    fields["workspaces"] = tuple(data["workspaces"])
    return CudaKernel(cubin=code, **fields)


def _argument(data: dict[str, Any]) -> Argument:
    fields = _tuples(data)
    return _ARGUMENTS[fields.pop("type")](**fields)


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else v
            for key, v in data.items()}  # fmt: skip
