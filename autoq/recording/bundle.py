"""Kernels that were compiled ahead: a folder of machine code that a machine with a GPU measures.

A folder for each workload holds `candidates.jsonl`, a sealed line for each configuration, and
`kernels.bin`, the machine code that the lines point into, each kernel compressed by itself. Code is
on the disk before the line that names it, so a writer that is killed loses nothing but its last.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from autoq.cache import pack, unpack
from autoq.errors import ArtifactError, RecordError
from autoq.records.appending import append, locked
from autoq.records.line import BadLine, seal, unseal
from autoq.runtime.kernel import Kernel
from autoq.runtime.kernel_check import check_kernel
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json, machine_code
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict, to_dict

FORMAT = 1
# A kernel takes 100 ms at the usual 6, more than sixteen compilers take for one.
_PRESET = 0
_HEADER, _CANDIDATES, _KERNELS = "workload.json", "candidates.jsonl", "kernels.bin"


@dataclass(frozen=True)
class Compiled:
    """A configuration of a template, and where its kernel lies or why there is none.

    source: hash of the template's source code; place: first byte and bytes of the kernel in the
    file of kernels, None where it does not compile; message: the compiler's complaint then.
    """

    template: str
    version: int
    config: Mapping[str, Any]
    drawn: str
    source: str
    place: tuple[int, int] | None
    message: str = ""


class BundleFolder:
    """The compiled candidates of one workload.

    Attributes:
        workload: what they compute.
        arch: of the target that they are compiled for.
        compiled: the candidates, in the order of their lines.

    Raises:
        RecordError: for a folder that holds something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            header = json.loads((folder / _HEADER).read_text())
            if header["format"] != FORMAT:
                raise RecordError(
                    f"{folder}: kernels of format {header['format']!r}; this autoq reads {FORMAT}"
                )
            self.arch = str(header["arch"])
            self.workload: Workload = from_dict(header["workload"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise RecordError(f"{folder}: holds no compiled candidates ({error})") from error
        self.compiled = tuple(_read(folder / _CANDIDATES))

    @classmethod
    def create(cls, folder: Path, workload: Workload, arch: str) -> BundleFolder:
        """The folder of a workload, made where it is missing.

        Raises RecordError where it holds another workload or another architecture.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _HEADER).exists():
            header = {"format": FORMAT, "arch": arch, "workload": to_dict(workload)}
            (folder / _HEADER).write_text(json.dumps(header) + "\n")
        found = cls(folder)
        if (found.workload, found.arch) != (workload, arch):
            raise RecordError(f"{folder}: holds kernels of {found.workload} for {found.arch}")
        return found

    @contextmanager
    def writing(self) -> Iterator[BundleWriter]:
        """A writer that has the folder alone."""
        with (
            locked(self.folder / _CANDIDATES) as lines,
            open(self.folder / _KERNELS, "ab", buffering=0) as kernels,
        ):
            _cut_torn_line(lines)
            yield BundleWriter(lines, kernels)

    def kernel(self, compiled: Compiled) -> Kernel:
        """The kernel of a candidate; raises RecordError for a damaged one."""
        if compiled.place is None:
            raise RecordError(f"{self.folder}: {compiled.template} does not compile")
        start, size = compiled.place
        try:
            with open(self.folder / _KERNELS, "rb") as file:
                file.seek(start)
                fields, code = unpack(lzma.decompress(file.read(size)))
            kernel = kernel_from_json(fields, code)
            check_kernel(kernel, compiled.template, self.arch)
        except (OSError, lzma.LZMAError, ValueError, ArtifactError) as error:
            raise RecordError(f"{self.folder}: a damaged kernel: {error}") from error
        return kernel


class BundleWriter:
    """Appends candidates to a folder that it holds locked."""

    def __init__(self, lines: IO[bytes], kernels: IO[bytes]) -> None:
        self._lines, self._kernels = lines, kernels

    def add(self, found: Sequence[tuple[Compiled, Kernel | None]]) -> None:
        """Write candidates; their places are those of the kernels that are written here."""
        lines = []
        for compiled, kernel in found:
            place = None
            if kernel is not None:
                content = pack(kernel_to_json(kernel), machine_code(kernel))
                packed = lzma.compress(content, preset=_PRESET)
                end = append(self._kernels, packed)
                place = (end - len(packed), len(packed))
            lines.append(_line(compiled, place))
        append(self._lines, "".join(lines).encode())


def bundle_folders(folder: Path) -> list[BundleFolder]:
    """The workloads of a bundle, by name; raises RecordError for a folder without any."""
    if not folder.is_dir():
        raise RecordError(f"{folder}: no folder of compiled candidates")
    found = [BundleFolder(one) for one in sorted(folder.iterdir()) if (one / _HEADER).exists()]
    if not found:
        raise RecordError(f"{folder}: holds no compiled candidates; write it with --compile-only")
    return found


def _line(compiled: Compiled, place: tuple[int, int] | None) -> str:
    fields: dict[str, Any] = {
        "template": compiled.template,
        "template_version": compiled.version,
        "config": dict(compiled.config),
        "drawn": compiled.drawn,
        "source": compiled.source,
    }
    fields |= {"message": compiled.message} if place is None else {"place": list(place)}
    return seal(fields) + "\n"


def _read(path: Path) -> Iterator[Compiled]:
    """The whole lines of a file; raises RecordError for one that is not as it was written."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                fields, sealed = unseal(line)
                if not sealed:
                    raise BadLine("without a checksum")
                place = fields.get("place")
                yield Compiled(
                    fields["template"],
                    fields["template_version"],
                    fields["config"],
                    fields["drawn"],
                    fields["source"],
                    None if place is None else (place[0], place[1]),
                    fields.get("message", ""),
                )
            except (BadLine, LookupError, TypeError) as error:
                raise RecordError(f"{path}: line {number}: {error}") from error


def _cut_torn_line(file: IO[bytes]) -> None:
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)
