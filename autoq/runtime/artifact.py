"""The file that `autoq compile` writes: an uncompressed tar of a plan, kernels and constants."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np

from autoq.errors import ArtifactError, InputError
from autoq.runtime.kernel import Kernel, machine_code
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json
from autoq.runtime.plan import Plan, plan_from_json, plan_to_json

FORMAT = 1


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
        "kernels": [kernel_to_json(kernel) for kernel in artifact.kernels],
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with tarfile.open(part, "w") as tar:
            _add(tar, "manifest.json", json.dumps(manifest).encode())
            for index, kernel in enumerate(artifact.kernels):
                _add(tar, f"kernels/{index}", machine_code(kernel))
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
                kernel_from_json(item, _member(tar, path, f"kernels/{index}"))
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
