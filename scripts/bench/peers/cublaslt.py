"""What the products of cuBLASLt share: its handle, and the algorithms that it proposes."""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

from autoq.runtime.cuda_driver import Memory
from peers.libraries import load
from peers.peer import PeerError

WORKSPACE_BYTES = 64 << 20
MOST_ALGORITHMS = 32
_PREFERENCE_WORKSPACE_BYTES = 1


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )

    @property
    def number(self) -> int:
        """The algorithm's own number, by which reports name it."""
        return int(self.algorithm[0]) & 0xFFFFFFFF


@functools.cache
def library() -> ctypes.CDLL:
    """The library; raises PeerError where there is none."""
    found = load("libcublasLt")
    found.cublasLtGetVersion.restype = c_size_t
    found.cublasLtGetStatusString.restype = ctypes.c_char_p
    return found


def call(name: str, *args: object) -> None:
    """Call a function; raises PeerError with what the library says of its failure."""
    code = getattr(library(), name)(*args)
    if code != 0:
        raise PeerError(f"{name}: {library().cublasLtGetStatusString(code).decode()}")


class Handle:
    """The library on the current device, with a workspace for its products."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        call("cublasLtCreate", byref(self.handle))
        self.workspace = Memory(WORKSPACE_BYTES)
        number = library().cublasLtGetVersion()
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def algorithms(
        self, operation: c_void_p, a: c_void_p, b: c_void_p, d: c_void_p
    ) -> list[Heuristic]:
        """What the heuristic proposes for 64 MiB of workspace, its favourite first."""
        preference = c_void_p()
        call("cublasLtMatmulPreferenceCreate", byref(preference))
        limit = c_uint64(WORKSPACE_BYTES)
        call("cublasLtMatmulPreferenceSetAttribute", preference, _PREFERENCE_WORKSPACE_BYTES,
             byref(limit), c_size_t(8))  # fmt: skip
        found, count = (Heuristic * MOST_ALGORITHMS)(), c_int()
        code = library().cublasLtMatmulAlgoGetHeuristic(
            self.handle, operation, a, b, d, d, preference, MOST_ALGORITHMS, found, byref(count)
        )
        call("cublasLtMatmulPreferenceDestroy", preference)
        return [item for item in found[: count.value] if item.state == 0] if code == 0 else []
