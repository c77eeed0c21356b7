"""The file that `autoq compile` writes: a tar of digests, a plan, kernels and constants."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autoq.errors import ArtifactError
from autoq.runtime.kernel import Kernel
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json, machine_code
from autoq.runtime.members import MembersReader, open_members, write_members
from autoq.runtime.plan import Plan, plan_from_json, plan_to_json
from autoq.runtime.plan_check import check_plan
from autoq.runtime.strict_json import parse

FORMAT = 4
_LONGEST_LINE = 400
_MANIFEST, _CONSTANTS = "manifest.json", "constants.bin"
_MANIFEST_BYTES, _KERNEL_BYTES = 16 << 20, 256 << 20


@dataclass(frozen=True)
class Artifact:
    """A compiled model: its plan, its kernels and one block of constants (uint8 [bytes])."""

    plan: Plan
    kernels: tuple[Kernel, ...]
    constants: np.ndarray


def write_artifact(artifact: Artifact, path: Path) -> None:
    """Write the tar; a reader sees all of it or the file that was there before.

    Raises InputError when the path cannot be written, ArtifactError for a plan that
    `read_artifact` would refuse.
    """
    check_plan(artifact.plan, artifact.kernels)
    manifest = {
        "format": FORMAT,
        "plan": plan_to_json(artifact.plan),
        "kernels": [kernel_to_json(kernel) for kernel in artifact.kernels],
    }
    blocks: dict[str, bytes | memoryview] = {_MANIFEST: json.dumps(manifest).encode()}
    for index, kernel in enumerate(artifact.kernels):
        blocks[f"kernels/{index}"] = machine_code(kernel)
    blocks[_CONSTANTS] = artifact.constants.data
    write_members(path, blocks)


def read_artifact(path: Path) -> Artifact:
    """Read what `write_artifact` wrote; raises ArtifactError for anything else.

    What comes back is whole, and its plan fits its kernels and its constants. Machine code is
    taken as it is: an artifact is to be trusted like a program.
    """
    try:
        with open_members(path) as members:
            return _read(members)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path}: no such file") from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise ArtifactError(f"{path}: does not fit into the memory of this machine") from error
    except ArtifactError as error:
        raise ArtifactError(one_line(path, error)) from error
    except ValueError as error:
        line = one_line(path, f"not an artifact of autoq compile: {error}")
        raise ArtifactError(line) from error


def one_line(path: Path | str, reason: object) -> str:
    """What is wrong with an artifact, however long or broken its names are."""
    line = " ".join(str(reason).split())
    return f"{path}: {line[:_LONGEST_LINE]}"


def _read(members: MembersReader) -> Artifact:
    """All checks that need no machine code and no constants come before these are read."""
    if members.first == _MANIFEST:
        raise ArtifactError("written by an earlier autoq, without digests; compile the model again")
    plan, described = _read_manifest(members)
    kernels = [kernel_from_json(item, None) for item in described]
    try:
        check_plan(plan, kernels)
    except ArtifactError as error:
        raise ArtifactError(f"the plan is damaged ({error})") from error
    _require_memory(plan)
    kernels = [
        kernel_from_json(item, members.read(f"kernels/{index}", _KERNEL_BYTES))
        for index, item in enumerate(described)
    ]
    constants = np.frombuffer(members.read(_CONSTANTS, plan.constant_bytes), np.uint8)
    members.finish()
    if constants.size != plan.constant_bytes:
        raise ArtifactError(
            f"{constants.size} bytes of constants, the plan says {plan.constant_bytes}"
        )
    return Artifact(plan, tuple(kernels), constants)


def _read_manifest(members: MembersReader) -> tuple[Plan, list[Any]]:
    """The plan, and what describes each kernel."""
    manifest: Any = parse(members.read(_MANIFEST, _MANIFEST_BYTES))
    fields = {"format", "plan", "kernels"}
    if not isinstance(manifest, dict):
        raise ValueError("its manifest is no object")
    if manifest.get("format") != FORMAT:
        raise ArtifactError(
            f"artifact format {manifest.get('format')!r:.20}, this autoq reads {FORMAT}; "
            "compile the model again"
        )
    if manifest.keys() != fields or not isinstance(manifest["kernels"], list):
        raise ValueError(f"its manifest needs {', '.join(sorted(fields))}")
    return plan_from_json(manifest["plan"]), manifest["kernels"]


def _require_memory(plan: Plan) -> None:
    """Raise ArtifactError when the plan's memory is more than the machine has."""
    needed = plan.constant_bytes + (plan.arena_bytes if plan.target_kind == "cpu" else 0)
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > present:
        raise ArtifactError(
            f"needs {needed / 1e9:.1f} GB of memory; this machine has {present / 1e9:.1f}"
        )
