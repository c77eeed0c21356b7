"""Launches of a compiled kernel on this CPU, every access checked."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autoq.kernel.nvcc import FLAGS, find_nvcc, needed_headers, nvcc_version
from autoq.runtime.kernel import Argument, Buffer, Im2colMap, Launch, Scalar, TiledMap
from autoq.templates.arrays.element import element
from ptx import arithmetic, asynchronous, movement
from ptx.library import Input, Range, Settings, TensorMap, handlers, library
from ptx.program import Assembler, Program
from ptx.text import Variable, read

GUARD = 256
GUARDED = 0xC3
_SCALARS = {
    "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64,
    "float32": np.float32,
}  # fmt: skip
_RULES = {**arithmetic.RULES, **movement.RULES, **asynchronous.RULES}


class EmulationFault(AssertionError):
    """What a kernel does that it must not: a wrong access, a deadlock, or what is not known."""


class Memory:
    """Bytes of an array on the device, guarded before and behind.

    early: whether a launch may use them while those before it run, as nothing of theirs.
    """

    def __init__(self, content: np.ndarray, writable: bool, early: bool = True) -> None:
        size = content.nbytes
        room = np.full(size + 2 * GUARD + 256, GUARDED, np.uint8)
        start = -room.ctypes.data % 256
        self._room = room[start : start + size + 2 * GUARD]
        self.bytes = self._room[GUARD : GUARD + size]
        self.bytes[:] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        self.writable = writable
        self.early = early

    @property
    def address(self) -> int:
        return self.bytes.ctypes.data

    def range(self) -> Range:
        """What a launch may access."""
        end = self.address + self.bytes.nbytes
        return Range(self.address, end, int(self.writable), int(self.early))

    def intact(self) -> bool:
        """Whether nothing was written around the array."""
        size = self.bytes.nbytes
        around = np.concatenate([self._room[:GUARD], self._room[GUARD + size :]])
        return bool((around == GUARDED).all())


def ptx_of(source: str, arch: str) -> str:
    """What nvcc makes of CUDA source; raises EmulationFault with its complaint.

    A kernel that the headers here do not suffice for gets all of the toolkit's.
    """
    return ptx_and_headers(source, arch)[0]


@functools.lru_cache(maxsize=64)
def ptx_and_headers(source: str, arch: str) -> tuple[str, bool]:
    """`ptx_of`, and whether the headers here suffice."""
    code, found = _kept_ptx(source, arch, needed_headers(source, arch))
    suffice = code == 0
    if not suffice:
        code, found = run_nvcc(source, arch, {})
    if code:
        raise EmulationFault(found[:2000])
    return found, suffice


def _kept_ptx(source: str, arch: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """`run_nvcc`; AUTOQ_CACHE_DIR keeps PTX for other test processes and later runs."""
    folder = os.environ.get("AUTOQ_CACHE_DIR")
    if folder is None:
        return run_nvcc(source, arch, headers)
    made_from = "\n".join([nvcc_version(), *FLAGS, arch, *headers.values(), source])
    kept = Path(folder) / "ptx" / f"{hashlib.sha256(made_from.encode()).hexdigest()}.ptx"
    if kept.exists():
        return 0, kept.read_text()
    code, found = run_nvcc(source, arch, headers)
    if code == 0:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_text(found)
        draft.rename(kept)
    return code, found


def ptxas_complaint(ptx: str, arch: str) -> str | None:
    """What ptxas says against PTX; None where it makes machine code."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(ptx)
        command = [find_nvcc(), "-cubin", f"-arch={arch}", "-o", "kernel.cubin", "kernel.ptx"]
        done = _in(Path(folder), command)
    return done.stderr[:2000] if done.returncode else None


def run_nvcc(source: str, arch: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """nvcc's exit code, and the PTX or what it complains of."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.cu").write_text(source)
        for header, text in headers.items():
            (folder / header).write_text(text)
        done = _in(folder, ["sh", "-c", steps_to_ptx(arch)])
        if done.returncode:
            done = _in(folder, _ptx_command(arch))
        if done.returncode:
            return done.returncode, done.stderr
        return 0, (folder / "kernel.ptx").read_text()


def _ptx_command(arch: str) -> list[str]:
    flags = [flag for flag in FLAGS if flag not in ("-cubin", "-Xptxas", "-v")]
    architecture = f"-arch=compute_{arch.removeprefix('sm_')}"
    return [find_nvcc(), *flags, "-ptx", architecture, "-o", "kernel.ptx", "kernel.cu"]


@functools.cache
def steps_to_ptx(arch: str) -> str:
    """A shell script of the steps that nvcc takes from kernel.cu to kernel.ptx.

    Of sm_90a ptxas looks at the PTX then, which takes a fifth of the time and is left out; tests of
    what ptxas makes of it ask ptxas. Where the steps are others, it fails, and nvcc is asked.
    """
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "kernel.cu").touch()
        done = _in(Path(name), [*_ptx_command(arch), "--dryrun", "--keep"])
        steps = [line.removeprefix("#$ ").replace(name, ".") for line in done.stderr.splitlines()]
    steps = steps[:-1] if steps and steps[-1].startswith("ptxas ") else steps
    return "\n".join(steps) if steps and "cicc" in steps[-1].split()[0] else "exit 1"


def _in(folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@functools.lru_cache(maxsize=64)
def assembled(ptx: str, symbol: str) -> Program:
    """The interpreter's program of a kernel; raises UnknownInstruction."""
    return Assembler(read(ptx, symbol), handlers()).assemble(_RULES)


@dataclass(frozen=True)
class Mode:
    """When asynchronous operations happen, the order that is drawn, and how many clusters run.

    late: as late as what waits for them allows, in an order drawn from the seed; else at once.
    proxies: whether copies by TMA may replace only what threads have read or written before a
    fence.proxy.async of theirs, as PTX has it; not all kernels have one where barriers suffice.
    """

    late: bool = False
    proxies: bool = False
    seed: int = 1
    residents: int = 2


def launch(ptx: str, item: Launch, memories: Sequence[Memory], mode: Mode) -> int:
    """Run a launch over the arrays that its arguments number; the instructions that warps executed.

    Raises EmulationFault for what the kernel does wrong, UnknownInstruction for unknown PTX.
    """
    program = assembled(ptx, item.symbol)
    variables = [Memory(_content(variable), True) for variable in program.variables]
    constants = program.constants.copy()
    for variable, memory in zip(program.variables, variables, strict=True):
        slot = program.slots.get(variable.name)
        if slot is not None:
            constants[32 * slot : 32 * slot + 64].view(np.uint64)[:] = memory.address
    parameters, maps = _parameters(program, item.arguments, memories)
    ranges = [memory.range() for memory in (*memories, *variables)]
    shared_bytes = program.shared_bytes + item.smem_bytes
    clusters = math.prod(item.grid) // math.prod(item.cluster)
    settings = Settings(
        grid=item.grid,
        block=item.block,
        cluster=item.cluster,
        shared_bytes=shared_bytes,
        local_bytes=program.local_bytes,
        late=int(mode.late),
        seed=mode.seed,
        residents=max(mode.residents, clusters if item.cooperative else 0),
        registers=program.registers,
        predicates=program.predicates,
        programmatic=int(item.programmatic),
        proxies=int(mode.proxies),
    )
    given = Input(settings=settings)
    kept = [
        _give(given, "code", program.code, len(program.code)),
        _give(given, "operands", program.operands, len(program.operands)),
        _give(given, "constants", constants, len(constants)),
        _give(given, "specials", program.specials, len(program.specials) - 1),
        _give(given, "parameters", parameters, len(parameters)),
        _give(given, "ranges", (Range * len(ranges))(*ranges), len(ranges)),
        _give(given, "maps", (TensorMap * max(len(maps), 1))(*maps), len(maps)),
    ]
    if library().ptx_run(ctypes.byref(given)):
        raise EmulationFault(_message(given, program))
    del kept
    for number, memory in enumerate(memories):
        if not memory.intact():
            raise EmulationFault(f"array {number} was written beyond its ends")
    return int(given.executed)


def _give(given: Input, name: str, array: Any, count: int) -> Any:
    address = array.ctypes.data if isinstance(array, np.ndarray) else ctypes.addressof(array)
    setattr(given, name, address)
    setattr(given, f"{name}_count", count)
    return array


def _message(given: Input, program: Program) -> str:
    """The fault with the instructions that it names in place of their numbers."""
    text = given.message.decode()
    words = []
    for word in text.split(" "):
        place = word.removeprefix("@").split("\n")[0]
        if word.startswith("@") and place.isdigit():
            word = word.replace(f"@{place}", f"`{program.statements[int(place)]}`")
        words.append(word)
    text = " ".join(words)
    if given.fault_at < 0:
        return text
    block = ",".join(map(str, given.fault_block))
    at = program.statements[given.fault_at]
    return f"{text}\n  in block {block} warp {given.fault_warp}: `{at}` ({given.fault_at})"


def _content(variable: Variable) -> np.ndarray:
    """The bytes that a variable in global or constant memory begins with."""
    content = np.zeros(variable.size, np.uint8)
    if variable.value is not None:
        kind = f"u{variable.element_bytes}"
        numbers = [int(item, 0) for item in variable.value.strip(" {}\n").split(",")]
        bits = (1 << 8 * variable.element_bytes) - 1
        values = np.array([number & bits for number in numbers], np.uint64).astype(kind)
        content[: values.nbytes] = values.view(np.uint8)
    return content


def _parameters(
    program: Program, arguments: Sequence[Argument], memories: Sequence[Memory]
) -> tuple[np.ndarray, list[TensorMap]]:
    """The bytes of all parameters; a tensor map among them is its number."""
    if len(arguments) != len(program.offsets):
        raise EmulationFault("a launch gives another number of arguments than its kernel takes")
    size = max((offset + size for offset, size in program.offsets), default=0)
    content = np.zeros(size + 8, np.uint8)
    maps: list[TensorMap] = []
    for argument, (offset, _) in zip(arguments, program.offsets, strict=True):
        if isinstance(argument, Buffer):
            value = np.array([memories[argument.index].address], np.uint64)
        elif isinstance(argument, Scalar):
            value = np.array([argument.value], _SCALARS[argument.dtype])
        else:
            value = np.array([len(maps)], np.uint64)
            maps.append(_map(argument, memories[argument.index].address))
        content[offset : offset + value.nbytes] = value.view(np.uint8)
    return content, maps


def _map(item: TiledMap | Im2colMap, base: int) -> TensorMap:
    tensor = TensorMap(base=base, rank=len(item.dims), element_bytes=element(item.dtype).bytes)
    tensor.swizzle = item.swizzle
    tensor.dims[: len(item.dims)] = item.dims
    tensor.strides[1 : len(item.dims)] = item.strides
    tensor.steps[: len(item.dims)] = item.element_strides
    if isinstance(item, TiledMap):
        if item.interleave or item.out_of_bounds_fill:
            raise EmulationFault("interleaved maps and fills other than zero are not known here")
        tensor.box[: len(item.dims)] = item.box
        return tensor
    tensor.im2col = 1
    tensor.lower[:2], tensor.upper[:2] = item.lower, item.upper
    tensor.channels, tensor.pixels = item.channels, item.pixels
    return tensor
